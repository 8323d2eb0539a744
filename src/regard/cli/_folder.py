"""A model folder as the commands meet it: loaded, with `--set key=value` applied."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._common import say
from regard.data.files.row import column_of
from regard.errors import RequestError
from regard.folder.places import shipped
from regard.system.heap import uncollected

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = [
    "Changes",
    "Columns",
    "Device",
    "Folder",
    "OfGraph",
    "Others",
    "Split",
    "Threads",
    "named_columns",
    "open_folder",
    "shipped",
    "split_of",
]


Folder = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER", help=f"A trained folder, or a shipped name: {', '.join(shipped())}."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of the decoder (beam_size=1), or task.KEY."
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="CPU threads; fewer is faster on a busy machine."),
]
Device = Annotated[
    str,
    typer.Option(metavar="cpu|cuda|auto", help="Where it computes; auto: a GPU if there is one."),
]
Split = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of their own data, or of a data folder.  [default: test]"),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="FIELD=A,…", help="Default: the folder's."),
]
OfGraph = Annotated[
    str | None,
    typer.Option("--graph", metavar="FILE", help="Whose nodes the inputs name; default: its own."),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="FOLDER", help="Another model that answers too: the mean of all."
    ),
]


def open_folder(
    folder: str,
    changes: Sequence[str] | None = None,
    n_best: int = 1,
    threads: int | None = None,
    others: Sequence[str] | None = None,
    graph: str | None = None,
    device: str = "cpu",
) -> "Loaded":
    """Load a folder and lay changes over its decoder and its task; see `regard.loading`.

    Raises:
        RequestError: no such folder, no such setting, or no such device.
    """
    with uncollected():
        from regard.loading import opened

        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        return opened(folder, changes, n_best, others, graph, device, say)


def split_of(split: str | None, data: str | None) -> str:
    """The split that is scored: "test" where none is named.

    Raises:
        RequestError: one is named, and the data is one file, which has no splits.
    """
    if split is not None and data is not None and _is_file(data):
        raise RequestError(f"--split {split}: {data} is one file without splits; leave it out")
    return "test" if split is None else split


def _is_file(data: str) -> bool:
    from regard.data import sources

    return sources.find(data).is_file()


def named_columns(text: str | None) -> dict[str, str | int]:
    """`source=de,target=2` as a mapping.

    Raises:
        RequestError: something else.
    """
    found: dict[str, str | int] = {}
    for part in (text or "").split(",") if text else ():
        side, equals, column = part.partition("=")
        if not equals or not column:
            raise RequestError(f"--columns: expected FIELD=NAME,…, got {text!r}")
        found[side.strip()] = column_of(column)
    return found
