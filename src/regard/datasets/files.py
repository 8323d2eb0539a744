"""Which files the `data:` section names."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data import sources
from regard.data.passages import questions
from regard.errors import RequestError


def _files(config: Mapping[str, Any], splits: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """The files of each split that is asked for and named."""
    named = {s: config[s] for s in sources.SPLITS if config.get(s)}
    if config.get("path"):
        place = sources.find(config["path"])
        if place.is_dir():
            named = {**{s: str(f) for s, f in sources.splits(place).items()}, **named}
        else:
            named = {splits[0] if len(splits) == 1 else "train": config["path"], **named}
    found = [
        (s, named[s] if isinstance(named[s], (list, tuple)) else [named[s]])
        for s in splits
        if s in named
    ]
    if not found:
        raise RequestError(
            f"data names no {' or '.join(splits)} file: give data.path, or "
            + ", ".join(f"data.{split}" for split in splits)
        )
    return found


def _ranged(
    found: Sequence[questions.Question], told: Mapping[str, Any], where: str
) -> list[questions.Question]:
    """Those of the numbers (from 1) that are asked for."""
    ranges = {key: told[key] for key in ("only", "without") if told.get(key) is not None}
    for key, value in ranges.items():
        pair = isinstance(value, (list, tuple)) and len(value) == 2
        if not pair or any(not isinstance(v, int) or isinstance(v, bool) for v in value):
            raise RequestError(
                f"{where}: {key}: expected two numbers, [first, last]; got {value!r}"
            )
    return [
        one
        for number, one in enumerate(found, 1)
        if all((a <= number <= b) == (key == "only") for key, (a, b) in ranges.items())
    ]
