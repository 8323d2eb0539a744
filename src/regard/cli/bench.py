"""`regard bench`: measurements in pairs, as ratios; the programs are those under `benchmarks/`."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli._common import Json, columns, emit, print_result, say
from regard.errors import RequestError, nearest
from regard.system.files import replace_file

__all__ = ["bench", "programs"]


def bench(
    what: Annotated[str, typer.Argument(help="kernels, complexity or decode.")] = "kernels",
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="Rows; all where none is named.")
    ] = None,
    threads: Annotated[int, typer.Option(metavar="1|2", help="Threads for every way.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions, smaller sizes, no memory.")
    ] = False,
    rows: Annotated[bool, typer.Option("--list", help="Say the rows; measure nothing.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="JSON lines, or a plot.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure in pairs: kernels against naive forms, the complexity of layers, or decoders.

    `decode` has a row for each generator at batch 1 and 32, with a beam of 5: what ran its steps,
    and CPU times beside its own step by PyTorch.

    Ratios are of process CPU time, as medians of runs that take turns; memory is of fresh
    processes; errors are against float64. `-o` writes JSON lines, whole or not at all; a file that
    ends in .png, .pdf or .svg gets the plot.

    Examples:
        regard bench kernels --quick
        regard bench kernels additive-scores-1000 gat-1e6
        regard bench kernels --list
        regard bench kernels --json -o kernels.jsonl
        regard bench kernels -o kernels.png
        regard bench complexity -o complexity.png
        regard bench decode luong transformer
    """
    actions: dict[str, Callable[..., None]] = {
        "kernels": _kernels,
        "complexity": _complexity,
        "decode": _decode,
    }
    if what not in actions:
        raise RequestError(f"bench: there is no {what!r}: {nearest(what, actions)}")
    if threads < 1:
        raise RequestError(f"--threads: expected 1 or more, got {threads}")
    unused = {"--threads": threads != 1, "--quick": quick, "-o": output is not None}
    if rows and any(unused.values()):
        name = next(name for name, given in unused.items() if given)
        raise RequestError(f"{name}: --list measures nothing; leave it out")
    actions[what](ids or [], threads, quick, rows, output, as_json)


def programs() -> Path:
    """Where the programs are: in the package when installed, beside `src` in a checkout."""
    here = Path(__file__).resolve().parents[1]
    inside = here / "benchmarks"
    return inside if inside.is_dir() else here.parents[1] / "benchmarks"


def program(name: str) -> Any:
    """One of the programs as a module; they import each other by their bare names."""
    folder = str(programs())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def _kernels(
    ids: list[str], threads: int, quick: bool, rows: bool, output: Path | None, as_json: bool
) -> None:
    kernels = program("kernels")
    _known(ids, kernels.ROWS)
    if rows:
        _list({name: kernels.ROWS[name].what for name in ids or kernels.ROWS}, as_json)
        return
    picture = _picture(output)
    found: list[dict[str, Any]] = []
    chosen = ids or kernels.chosen(quick)
    for number, name in enumerate(chosen, start=1):
        say(f"{number}/{len(chosen)} {name}")
        for result in kernels.measure_row(kernels.ROWS[name], quick=quick, threads=threads):
            found.append(result)
            if as_json:
                emit(result)
    summary = kernels.summary(found, threads, quick)
    if output is not None and picture:
        program("plots").kernels(found, output)
        say(f"{output}: drawn")
    elif output is not None:
        machine = {key: value for key, value in summary.items() if key != "rows"}
        _write(output, [*found, machine])
    if as_json:
        emit(summary)
        return
    print_result(columns([kernels.HEAD, *map(kernels.cells, found)]))
    print_result(_verdict(summary))


def _verdict(summary: dict[str, Any]) -> str:
    said = (
        f"\n{summary['reached']} of {summary['of']} figures reached; {summary['threads']} "
        f"thread(s), {summary['instructions']}, torch {summary['torch']}, "
        f"load {summary['load']}; times are CPU times"
    )
    return said + (f"\nmissed: {'; '.join(summary['missed'])}" if summary["missed"] else "")


def _list(named: dict[str, str], as_json: bool) -> None:
    """The ids and what they are."""
    if as_json:
        emit({"rows": named})
    else:
        print_result(columns(named.items()))


def _complexity(
    ids: list[str], threads: int, quick: bool, rows: bool, output: Path | None, as_json: bool
) -> None:
    complexity = program("complexity")
    _known(ids, complexity.LAYERS)
    if rows:
        _list({name: complexity.LAYERS[name].what for name in ids or complexity.LAYERS}, as_json)
        return
    picture = _picture(output)
    found = []
    for name in ids or complexity.LAYERS:
        say(name)
        found.append(complexity.measure(name, quick=quick, threads=threads))
        if as_json:
            emit(found[-1])
    result = complexity.summary(found, threads, quick)
    if output is not None and picture:
        program("plots").complexity(found, output)
        say(f"{output}: drawn")
    elif output is not None:
        machine = {key: value for key, value in result.items() if key != "rows"}
        _write(output, [*found, machine])
    if as_json:
        emit(result)
    else:
        print_result(columns([complexity.HEAD, *map(complexity.cells, found)]))


def _decode(
    ids: list[str], threads: int, quick: bool, rows: bool, output: Path | None, as_json: bool
) -> None:
    decoders = program("recorded_decoders")
    _known(ids, decoders.ROWS)
    if rows:
        _list({name: str(decoders.ROWS[name]) for name in ids or decoders.ROWS}, as_json)
        return
    if _picture(output):
        raise RequestError(f"{output}: decoders are a table; expected a file of JSON lines")
    found: list[dict[str, Any]] = []
    for name in ids or decoders.ROWS:
        say(name)
        for result in decoders.measure_row(name, quick=quick, threads=threads):
            found.append(result)
            if as_json:
                emit(result)
    summary = decoders.summary(found)
    if output is not None:
        _write(output, [*found, summary])
    if as_json:
        emit(summary)
        return
    print_result(columns([decoders.HEAD, *map(decoders.cells, found)]))
    print_result(f"\n{decoders.verdict(summary)}")


def _known(ids: list[str], table: Any) -> None:
    for name in ids:
        if name not in table:
            raise RequestError(f"bench: no row is called {name!r}: {nearest(name, table)}")


def _picture(output: Path | None) -> bool:
    """Is a plot asked for? What could not be kept or drawn is refused before it is measured."""
    if output is None:
        return False
    if output.is_dir() or not output.resolve().parent.is_dir():
        raise RequestError(f"{output}: expected a file in a folder that is there")
    drawn = output.suffix.lower() in (".png", ".pdf", ".svg")
    if drawn:
        program("plots").check()
    return drawn


def _write(path: Path, results: list[dict[str, Any]]) -> None:
    """JSON lines, whole or not at all."""
    import json

    text = "".join(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))
