"""Which files make a split, and which share of the training documents is held out as dev."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.data import sources
from regard.errors import RequestError, nearest

__all__ = ["HELD_OUT", "files_of_splits", "held_out"]

HELD_OUT = {"share": float | int, "seed": int}
"""Keys of `data.dev` where it is a share of the training documents, with their types."""


def files_of_splits(config: Mapping[str, Any], splits: Sequence[str]) -> dict[str, list[Any]]:
    """The files of each split that is asked for and there is.

    `data.path` is a folder with one file for each, or one file; `data.train` and so on are a file
    or several, whose documents are pooled.

    Raises:
        RequestError: nothing is there.
    """
    found: dict[str, list[Any]] = {}
    if config.get("path"):
        place = sources.find(config["path"])
        if place.is_dir():
            found = {split: [file] for split, file in _splits(place).items()}
        else:
            found[splits[0] if len(splits) == 1 else "train"] = [place]
    for split in sources.SPLITS:
        told = config.get(split)
        if isinstance(told, str | list):
            found[split] = [
                sources.find(one) for one in ([told] if isinstance(told, str) else told)
            ]
    there = {split: found[split] for split in splits if found.get(split)}
    if not there:
        has = f"; it has {', '.join(found)}" if found else ""
        raise RequestError(f"data.path: there is no {' or '.join(splits)} split{has}")
    return there


def _splits(folder: Any) -> dict[str, Any]:
    """A file of any ending for each split."""
    found: dict[str, Any] = {}
    for split, names in sources.SPLITS.items():
        files = sorted(f for name in names for f in folder.glob(f"{name}.*") if f.is_file())
        if len(files) > 1:
            told = " and ".join(file.name for file in files)
            raise RequestError(f"{folder}: {told} could be {split!r}: name one as data.{split}")
        if files:
            found[split] = files[0]
    if not found:
        raise RequestError(f"{folder} has no train.*, dev.* or test.* file")
    return found


def held_out(told: Mapping[str, Any], count: int) -> tuple[list[int], list[int]]:
    """(numbers of training documents, numbers of those that are dev), in their order.

    Args:
        told: `share` of the documents and `seed`.

    Raises:
        RequestError: an unknown key, or a share that leaves one side empty.

    Example:
        >>> held_out({"share": 0.25, "seed": 1}, 8)[1]
        [0, 5]
    """
    for key in told:
        if key not in HELD_OUT:
            raise RequestError(f"data.dev has no key {key!r}: {nearest(key, HELD_OUT)}")
    share = float(told.get("share", 0.15))
    size = round(share * count)
    if not 0 < size < count:
        raise RequestError(
            f"data.dev.share is {share:g}: of {count} training documents that leaves "
            f"{count - size} to train and {size} to stop by"
        )
    order = np.random.Generator(np.random.PCG64(int(told.get("seed", 1)))).permutation(count)
    return sorted(order[size:].tolist()), sorted(order[:size].tolist())
