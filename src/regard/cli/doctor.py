"""`regard doctor`: what this installation has, what it will use, and whether that works."""

from typing import Any

from regard.cli._common import Json, columns, emit, print_result
from regard.errors import RegardError

__all__ = ["doctor"]


def doctor(json: Json = False) -> None:
    """Say what this machine and installation can do, and check every kernel against the reference.

    Examples:
        regard doctor
        regard doctor --json
    """
    from regard.cli import _health

    report = _health.report()
    if json:
        emit(report)
    else:
        print_result(_page(report))
    wrong = [c["name"] for c in report["checks"] if not c["good"]]
    if wrong:
        raise RegardError(f"the self-check failed: {', '.join(wrong)}")


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
            section("Kernels, for each kind of attention", report["kernels"]),
            section("Shipped models", report["models"]),
            section("Data", report["data"]),
            "Self-check\n" + columns(checks),
        ]
    )
