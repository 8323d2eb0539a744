"""Which files make which split: the same rules for every task."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.data import sources
from regard.datasets.dividing import Shares
from regard.errors import RequestError, nearest

__all__ = ["named", "split_files", "warn_alone"]

log = logging.getLogger(__name__)

T = TypeVar("T")


def split_files(
    config: Mapping[str, Any],
    splits: Sequence[str],
    *,
    source: Callable[[Any], T],
    folder: Callable[[Path], Mapping[str, Any]] = sources.splits,
    shares: Shares | None = None,
) -> dict[str, T]:
    """The files of each split that is asked for and there is.

    `data.path` is a folder, which is searched, or one file: that of the one split asked for, or
    the training file where several are. `data.train`, `data.dev` and `data.test` name the files of
    one split and come before it. With `data.split` the training file is that of every split made.

    Args:
        config: a `data:` section.
        splits: which of train, dev and test.
        source: what a reader takes, of what the section names or of a file that was found.
        folder: the files of each split in a folder, as `source` takes them.
        shares: `data.split`, checked.

    Raises:
        RequestError: nothing is named, none of the splits is there, or `data.split` would divide
            one of several files.
    """
    for split in splits:
        if split not in sources.SPLITS:
            raise RequestError(
                f"splits has no key {split!r}: {nearest(str(split), sources.SPLITS)}"
            )
    found: dict[str, Any] = {}
    if config.get("path"):
        place = sources.find(config["path"])
        if place.is_dir():
            found.update(folder(place))
            _refuse_other_splits(found, shares, config["path"])
        else:
            found["train" if shares or len(splits) > 1 else splits[0]] = place
    found |= {s: config[s] for s in sources.SPLITS if config.get(s)}
    if shares and "train" in found:
        found.update(dict.fromkeys(shares.names, found["train"]))
    there = {split: source(found[split]) for split in splits if split in found}
    if not found:
        raise RequestError(
            f"data.path is not given: data names no {' or '.join(splits)} file; expected data.path "
            "(a folder, or a file), or data.train, …"
        )
    if not there:
        raise RequestError(
            f"{config.get('path') or 'data'} has no {' or '.join(splits)} split; it has "
            f"{', '.join(found)}"
        )
    return there


def warn_alone(found: Collection[str], splits: Collection[str], config: Mapping[str, Any]) -> None:
    """Log that nothing will be scored, where every split is asked for and there is one alone."""
    if {*found} == {"train"} and {*splits} >= {*sources.SPLITS} and not config.get("stream"):
        log.warning(
            "%s is for training alone, nothing will be scored; data.split: [0.8, 0.1, 0.1] "
            "divides a file",
            named(config.get("train") or config.get("path")),
        )


def named(told: Any) -> str:
    """Files that a section names, in words.

    Example:
        >>> named("a.tsv"), named(["a.json", {"file": "b.json", "only": [1, 9]}])
        ('a.tsv', 'a.json and b.json')
    """
    if isinstance(told, list | tuple):
        return " and ".join(map(named, told))
    return str(told.get("file", told)) if isinstance(told, Mapping) else str(told)


def _refuse_other_splits(found: Mapping[str, Any], shares: Shares | None, path: str) -> None:
    if shares and (more := [name for name in shares.names[1:] if name in found]):
        raise RequestError(
            f"data.split divides one file into {', '.join(shares.names)}; {path} has "
            f"{' and '.join(more)} files: leave data.split out, or name one file"
        )
