"""`regard claims`: what the surveys claim, what was measured here, and each measurement again."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.claims.results import check_data, decided, kept, measure, remark, values_of, write
from regard.claims.rules import VERDICTS
from regard.claims.table import CLAIMS, claim
from regard.cli._common import Json, emit, print_result, say
from regard.errors import RequestError, nearest

if TYPE_CHECKING:
    from regard.claims.claim import Claim, Measured
    from regard.claims.rules import Values

__all__ = ["claims"]

WIDTH = 80


def claims(
    name: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="C01 to C70: run this one.")
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"List only these: {', '.join(VERDICTS)}.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--kept", help="Show what was measured before; run nothing.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .png, .pdf, .svg, or .json; also several."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the claims of the surveys with their verdicts, or measure one and draw it.

    Examples:
        regard claims
        regard claims --verdict opposite
        regard claims C16 -o variance.png
        regard claims C61 --kept

    A verdict is computed from the measured numbers by a rule that was written before. Claims with
    data of their own look for it under $REGARD_DATA. Those without an experiment are decided by
    numbers that stand in other pages, or are open.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise RequestError(f"--verdict {verdict}: {nearest(verdict, VERDICTS)}")
    if name is None:
        for option, value in (("--kept", stored), ("-o", output)):
            if value:
                raise RequestError(f"{option}: it needs one claim, such as C16")
        _list(verdict, as_json)
        return
    if verdict is not None:
        raise RequestError(f"--verdict {verdict}: it chooses claims to list; leave out {name}")
    one = claim(name)
    if stored and not one.experiment:
        raise RequestError(
            f"--kept: {one.id} has no experiment; its numbers are quoted as they are"
        )
    if stored or not one.experiment:
        if output:
            why = "--kept draws nothing" if stored else f"{one.id} has no experiment to draw"
            raise RequestError(f"-o {output[0]}: {why}")
        about = {"kept": kept(one), "values": values_of(one)}
        _show(one, about["values"], about, as_json)
        return
    _run(one, output or [], as_json)


def _list(verdict: str | None, as_json: bool) -> None:
    """Each claim with its verdict, its figure and its command, in 80 columns."""
    rows = [_row(one, values_of(one)) for one in CLAIMS.values()]
    rows = [row for row in rows if verdict in (None, row["verdict"])]
    if as_json:
        emit({"claims": rows})
        return
    for row in rows:
        print_result(_wrapped(f"{row['id']}  {row['verdict'].upper()}  ", row["sentence"], 5))
        print_result(_wrapped("     ", f"({row['source']})", 5))
        if row["found"]:
            print_result(_wrapped("     ", f"here: {row['found']}", 5))
        if row["experiment"]:
            print_result(f"     {row['command']}  # about {row['seconds']:g} CPU-seconds")
    counts = ", ".join(f"{sum(r['verdict'] == v for r in rows)} {v}" for v in VERDICTS)
    print_result(f"\n{len(rows)} claims: {counts}\nOne of them: regard claims ID")


def _row(one: "Claim", values: "Values | None") -> dict[str, Any]:
    decision = decided(one, values)
    return {
        "id": one.id,
        "sentence": one.sentence,
        "source": one.source,
        "verdict": decision.verdict,
        "statistic": decision.statistic,
        "found": one.found(values) if values is not None else "",
        "rule": one.rule.text if one.rule is not None else "",
        "experiment": bool(one.experiment),
        "command": one.command,
        "seconds": one.seconds or None,
        "needs": list(one.needs),
        "note": remark(one, values),
    }


def _run(one: "Claim", output: list[Path], as_json: bool) -> None:
    """Measure, decide, draw."""
    for file in output:
        if file.is_dir() or not file.resolve().parent.is_dir():
            raise RequestError(f"{file}: expected a file in a folder that is there")
        if file.suffix.lower() != ".json":
            from regard.viewer.figure.matrix import check_format

            check_format(file)
    check_data(one)
    say(f"{one.id}: about {one.seconds:g} CPU-seconds on one thread")
    measured, about = measure(one)
    for file in output:
        _write(measured, about, file)
    _show(one, values_of(one, about), about, as_json)


def _write(measured: "Measured", about: dict[str, Any], output: Path) -> None:
    if output.suffix.lower() == ".json":
        write(about, output)
    else:
        from regard.viewer.figure.charts import draw_charts

        draw_charts(measured.pictures, output)
    say(f"{output}: written")


def _show(one: "Claim", values: "Values | None", about: dict[str, Any], as_json: bool) -> None:
    """The claim, its rule, what was measured, and the verdict that follows."""
    row = _row(one, values)
    if as_json:
        emit({**row, **about})
        return
    lines = [
        _wrapped(f"{one.id}  ", one.sentence, 5),
        _wrapped("claimed by: ", one.source, 12),
        _wrapped("rule: ", row["rule"] or "none yet", 6),
    ]
    lines += [
        _wrapped(f"  {name}: ", ", ".join(f"{value:.4g}" for value in each), 6)
        for name, each in (values or {}).items()
    ]
    if row["found"]:
        lines.append(_wrapped("here: ", row["found"], 6))
    lines.append(_wrapped("verdict: ", _judged(row), 9))
    if row["note"]:
        lines.append(_wrapped("", row["note"], 0))
    if one.experiment or one.quotes:
        lines.append(f"measured by: {one.command}")
    print_result("\n".join(lines))


def _judged(row: dict[str, Any]) -> str:
    verdict = str(row["verdict"]).upper()
    return f"{verdict} ({row['statistic']})" if row["statistic"] else verdict


def _wrapped(first: str, text: str, indent: int) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )
