"""`regard predict -o`: shards in, shards out."""

import sys
from typing import Annotated, Any

import typer

from regard.cli._common import emit, say
from regard.cli._progress import Count
from regard.errors import RequestError

__all__ = [
    "Engine",
    "Fresh",
    "Output",
    "OutputColumn",
    "Workers",
    "predict_files",
    "refuse_with_into",
    "refuse_without_output",
]

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Write a file for each file of --input, which is a pattern.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="With -o, who does it: local (processes) or ray."),
]
OutputColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With -o, the key of JSON lines or the column of TSV or CSV that an output takes, "
        "in place of what is there.  [default: one more, output]",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="With -o, processes; 0: this one.  [default: 1]"),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="With -o, make all files again, whatever is there.")
]


def refuse_without_output(**given: Any) -> None:
    """Refuse options of whole files where there are none.

    Raises:
        RequestError: the first that is given.
    """
    for name, value in given.items():
        if value is not None and value is not False:
            raise RequestError(f"--{name}: it is for whole files; expected with -o FOLDER")


def refuse_with_into(**given: Any) -> None:
    """Refuse options of single texts where a data file is written again.

    Raises:
        RequestError: the first that is given.
    """
    for name, value in given.items():
        if value:
            shown = name if name.isupper() else f"--{name.replace('_', '-')}"
            raise RequestError(f"{shown}: --into predicts a data file as it is; leave it out")


def predict_files(
    pattern: str | None,
    out: str,
    *,
    texts: list[str] | None,
    engine: str | None,
    workers: int | None,
    fresh: bool,
    **order: Any,
) -> None:
    """Predict files into files, say how far it is, and how it ended.

    Raises:
        RequestError: see `regard.bulk.predict_shards`.
    """
    from regard.bulk import Order, predict_shards

    if pattern is None or pattern == "-" or texts:
        more = f", got {texts[0]!r} beside it" if texts and pattern else ""
        raise RequestError(
            f"-o {out}: expected --input with a folder, a file or a pattern in quotes, as "
            f"'corpus/*.jsonl.gz'{more}"
        )
    count = Count("lines", quiet=False)
    try:
        summary = predict_shards(
            Order(**order),
            pattern,
            out,
            workers=1 if workers is None else workers,
            engine=engine or "local",
            fresh=fresh,
            told=count.add,
        )
    finally:
        count.close()
    say(str(summary))
    if order["as_json"]:
        emit(summary.as_json())
        sys.stdout.flush()
    if summary.failed:
        raise typer.Exit(1)
