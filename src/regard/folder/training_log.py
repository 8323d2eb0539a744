"""Curves of trainings: what `log.jsonl` of a model folder says, by step, epoch or time.

Loss, learning rate, norm of the gradients and what the task measures (`reward_sample`) are means
over the interval before a step; `dev.…` are scores on dev. A value that was not finite is left out.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError, nearest
from regard.folder.seeds import seed_folders
from regard.views.curves import AXES, Curve

__all__ = ["LOG", "TrainingLog", "bars", "curves_of", "read_trainings", "usual"]


LOG = "log.jsonl"
DEV = "dev."
_BARS = "▁▂▃▄▅▆▇█"


class TrainingLog:
    """The log of one training; it may still run.

    Args:
        run: the name of its curves.
        file: its `log.jsonl`.

    Raises:
        RequestError: there is no such file, nothing is in it, or a line is not JSON.
    """

    def __init__(self, run: str, file: Path) -> None:
        if not file.is_file():
            raise RequestError(
                f"{run}: expected a model folder with {LOG}, which `regard train` writes"
            )
        self.run = run
        train, self.metric = [], ""
        values: dict[str, list[tuple[dict[str, float], float]]] = {}
        for line in _lines(file):
            place = {axis: float(line[axis]) for axis in AXES if _is_number(line.get(axis))}
            scores = line.get("dev")
            if isinstance(scores, Mapping):
                self.metric = self.metric or _metric(scores, line.get("best"))
                found = {DEV + name: value for name, value in scores.items()}
            else:
                train.append(place)
                found = {name: value for name, value in line.items() if name not in AXES}
            for name, value in found.items():
                if _is_number(value):
                    values.setdefault(name, []).append((place, float(value)))
        self._train, self._values = train, values

    @property
    def names(self) -> list[str]:
        """What there are curves of."""
        return list(self._values)

    def curve(self, name: str, by: str = "step") -> Curve:
        """The curve of one number, by a name of `AXES`.

        Raises:
            RequestError: the log has no such number.
        """
        if name not in self._values:
            raise RequestError(f"{self.run} has no curve {name!r}: {nearest(name, self._values)}")
        # Lines about dev do not say the epoch: it lies between those of training around them.
        known = [one for one in self._train if by in one and "step" in one]
        steps, places = [one["step"] for one in known], [one[by] for one in known]
        x, y = [], []
        for place, value in self._values[name]:
            if by in place:
                where = place[by]
            elif known and "step" in place:
                where = float(np.interp(place["step"], steps, places))
            else:
                continue
            x.append(where)
            y.append(value)
        return Curve(self.run, name, tuple(x), tuple(y))


def read_trainings(folders: Iterable[str | Path]) -> list[TrainingLog]:
    """The trainings of model folders; a folder of seeds (`seed-1`, …) has one for each.

    Raises:
        RequestError: a folder has no log.
    """
    found = []
    for folder in map(str, folders):
        path = Path(folder)
        seeds = seed_folders(path, LOG)
        if seeds and not (path / LOG).is_file():
            found += [TrainingLog(str(one), one / LOG) for one in seeds]
            continue
        if not path.exists():
            from regard.folder import places

            path = places.find(folder)
        found.append(TrainingLog(folder, path / LOG))
    return found


def usual(trainings: Sequence[TrainingLog]) -> list[list[str]]:
    """What is shown where nothing is asked for: both losses, and the score that models go by."""
    there = {name for one in trainings for name in one.names}
    losses = [name for name in ("loss", f"{DEV}loss") if name in there]
    scores = dict.fromkeys(one.metric for one in trainings if one.metric)
    return [panel for panel in (losses, *([s] for s in scores if s not in losses)) if panel]


def curves_of(trainings: Sequence[TrainingLog], names: Sequence[str], by: str) -> list[Curve]:
    """The curves of these numbers, of all trainings that have them.

    Raises:
        RequestError: none has one of them.
    """
    there = {name for one in trainings for name in one.names}
    for name in names:
        if name not in there:
            raise RequestError(f"no training here has a curve {name!r}: {nearest(name, there)}")
    return [
        one.curve(name, by)
        for name, one in itertools.product(names, trainings)
        if name in one.names
    ]


def bars(
    curve: Curve, across: tuple[float, float], between: tuple[float, float], width: int = 40
) -> str:
    """A curve as `width` bars: the mean of the values at each place, blank where there are none.

    Args:
        across: where the axis begins and ends.
        between: the values of the lowest and the highest bar.

    Example:
        >>> falling = Curve("runs/a", "loss", (0.0, 1.0, 3.0), (8.0, 4.0, 1.0))
        >>> bars(falling, (0.0, 3.0), (1.0, 8.0), width=4)
        '█▄ ▁'
    """
    sums, counts = np.zeros(width), np.zeros(width)
    places = _part(np.asarray(curve.x), *across, width)
    np.add.at(sums, places, curve.y)
    np.add.at(counts, places, 1)
    heights = _part(sums / np.maximum(counts, 1), *between, len(_BARS))
    return "".join(
        _BARS[height] if count else " " for height, count in zip(heights, counts, strict=True)
    )


def _part(values: NDArray[np.floating], low: float, high: float, parts: int) -> NDArray[np.intp]:
    """Which of this many equal parts between low and high each value is in."""
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return np.clip((share * parts).astype(np.intp), 0, parts - 1)


def _lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a log. The last one may be half written by a training that still runs."""
    found: list[dict[str, Any]] = []
    text = file.read_bytes().decode("utf-8", "replace")
    *whole, _ = text.split("\n")
    for number, line in enumerate(whole, 1):
        try:
            one = json.loads(line)
        except ValueError:
            one = None
        if not isinstance(one, dict):
            raise RequestError(f"{file}, line {number}: expected a JSON object, got {line[:60]!r}")
        found.append(one)
    if not found:
        raise RequestError(f"{file}: nothing is logged yet; the first line comes after some steps")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _metric(scores: Mapping[str, Any], best: Any) -> str:
    """The score that the training goes by: at its first look at dev it is the best so far."""
    same = [name for name, value in scores.items() if value is not None and value == best]
    return DEV + same[0] if same else ""
