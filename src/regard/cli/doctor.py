"""`regard doctor`: what this installation has, what it will use, and whether that works."""

from typing import Annotated, Any

import typer

from regard.cli._common import Json, columns, emit, print_result
from regard.errors import RegardError

__all__ = ["doctor"]


def doctor(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[FOLDER]", help="A model: which kernel each attention takes."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what this machine and installation can do, and check every kernel against the reference.

    With a FOLDER: which kernel each attention of that model takes, and why the faster ones are not
    taken.

    Examples:
        regard doctor
        regard doctor de-en-small
        regard doctor --json
    """
    if folder is not None:
        _model(folder, json)
        return
    from regard.cli import _checks

    report = _checks.report()
    if json:
        emit(report)
    else:
        print_result(_page(report))
    wrong = [c["name"] for c in report["checks"] if not c["good"]]
    if wrong:
        raise RegardError(f"the self-check failed: {', '.join(wrong)}")


def _model(folder: str, json: bool) -> None:
    from regard.cli import _checks
    from regard.cli._folder import open_folder

    found = _checks.of_folder(open_folder(folder).model)
    compiled = _checks.compiled()
    if json:
        emit({"folder": folder, "compiled": compiled, "attentions": found})
        return
    rows: list[tuple[str, str]] = []
    for path, one in found.items():
        rows.append((path, str(one["kernel"])))
        rows += [("", f"not {name}: {why}") for name, why in one["passed_over"].items()]
    print_result(columns(rows or [("no attention in this model", "")]))
    print_result("\n" + columns([(f"{k}:", v) for k, v in compiled.items()]))


def _page(report: dict[str, Any]) -> str:
    def section(title: str, rows: dict[str, Any]) -> str:
        return f"{title}\n" + columns([(f"  {k}", v) for k, v in rows.items()] or [("  none", "")])

    checks = [
        ("  good" if c["good"] else "  WRONG", c["name"], f"{c['seconds'] * 1e3:.0f} ms", c["note"])
        for c in report["checks"]
    ]
    return "\n\n".join(
        [
            section("Versions", report["versions"]),
            section("Machine", report["machine"]),
            section("Extras", report["extras"]),
            section("Compiled kernels", report["compiled"]),
            section("Levels of instructions", report["levels"]),
            section("Kernels, for each kind of attention", report["kernels"]),
            section("Shipped models", report["models"]),
            section("Data", report["data"]),
            "Self-check\n" + columns(checks),
        ]
    )
