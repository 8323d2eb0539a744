"""A claim of a survey: its sentence, whose it is, how it is decided, and how it is measured."""

import importlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regard.claims.rules import Rule, Values

if TYPE_CHECKING:
    from regard.views.charts import Chart, Matrix

__all__ = ["SEEDS", "Claim", "Measured", "Quote", "quote"]

SEEDS = (1, 2, 3)
"""The seeds of every experiment."""


@dataclass(frozen=True)
class Quote:
    """Numbers that stand in a page of this repository, with the command that measured them.

    Args:
        values: by name, as a rule takes them.
        file: the page.
        text: a passage of the page, letter by letter, that has each of the numbers.
        command: what was run.
    """

    values: Values
    file: str
    text: str
    command: str


@dataclass(frozen=True)
class Measured:
    """What an experiment measured, by name and in the order of the seeds, and its pictures."""

    values: Mapping[str, Sequence[float]]
    pictures: "Sequence[Chart | Matrix]" = ()


@dataclass(frozen=True)
class Claim:
    """One claim.

    Args:
        id: C01 to C70.
        sentence: the claim in plain words.
        source: whose claim it is, with the place in the paper.
        rule: decides on the measured values; written before the experiment was run.
        figure: the finding as a format string: `{name:.2f}` is the mean of a measured value,
            `{name[0]:.2f}` its first.
        experiment: `module:function` in `regard.claims.experiments`, which takes seeds.
        seconds: processor time that the experiment takes, about.
        needs: data that does not come with the package, as a path below `$REGARD_DATA`.
        quotes: numbers that other pages report, where there is no experiment.
        note: why it failed, what limits it, or, if it is open, what it would take.
    """

    id: str
    sentence: str
    source: str
    rule: Rule | None = None
    figure: str = ""
    experiment: str = ""
    seconds: float = 0.0
    needs: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = field(default=())
    note: str = ""

    @property
    def command(self) -> str:
        """What measures it."""
        if self.experiment:
            return f"regard claims {self.id}"
        return self.quotes[0].command if self.quotes else ""

    def run(self, seeds: Sequence[int] = SEEDS) -> Measured:
        """Run the experiment."""
        module, _, name = self.experiment.partition(":")
        there = importlib.import_module(f"regard.claims.experiments.{module}")
        measure: Callable[[Sequence[int]], Measured] = getattr(there, name)
        return measure(seeds)

    def found(self, values: Values) -> str:
        """`figure` with the measured values in it."""
        return self.figure.format(**{name: _Mean(each) for name, each in values.items()})


def quote(
    file: str, text: str, command: str, values: Mapping[str, float | Sequence[float]]
) -> Quote:
    """A quote of single numbers or of lists."""
    lists = {n: [v] if isinstance(v, int | float) else list(v) for n, v in values.items()}
    return Quote(lists, file, text, command)


class _Mean(float):
    """The mean of some values, and each of them by its number."""

    each: Sequence[float]

    def __new__(cls, each: Sequence[float]) -> "_Mean":
        made = super().__new__(cls, statistics.fmean(each))
        made.each = each
        return made

    def __getitem__(self, number: int) -> float:
        return self.each[number]
