"""Rules of decision: from measured numbers to a verdict. A rule is written before its experiment.

Five kinds, by what was measured:

    Q  trained systems: claimed sign of the difference and p < 0.05
    M  made data: every seed on the claimed side of a threshold
    E  an equality: exact to 1e-5
    T  times and their exponents: the median of runs that take turns
    V  real examples: the 95 % interval of a paired bootstrap against a baseline

Measured numbers are lists, one for each seed or repetition, by name.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "CONFIRMED",
    "NOT_CONFIRMED",
    "OPEN",
    "OPPOSITE",
    "VERDICTS",
    "AllOf",
    "Decision",
    "EverySeed",
    "Exact",
    "IntervalAbove",
    "Means",
    "Median",
    "NearMedian",
    "Rule",
    "Significant",
    "Values",
    "Widens",
]

Values = Mapping[str, Sequence[float]]

CONFIRMED, NOT_CONFIRMED, OPPOSITE, OPEN = "confirmed", "not confirmed", "opposite", "open"
VERDICTS = (CONFIRMED, NOT_CONFIRMED, OPPOSITE, OPEN)


@dataclass(frozen=True)
class Decision:
    """A verdict and the numbers that it follows from."""

    verdict: str
    statistic: str


class Rule(Protocol):
    """Decides on measured values, and says beforehand how (`text`)."""

    @property
    def text(self) -> str:
        """The rule as a sentence without its full stop."""

    def __call__(self, values: Values) -> Decision:
        """The verdict on these values."""


@dataclass(frozen=True)
class EverySeed:
    """M: confirmed if every seed is on the claimed side, opposite if every seed is on the other.

    Args:
        name: of the measured value; `minus` is subtracted from it, seed by seed.
        above, below: the threshold; exactly one of them.
        other: where the opposite side begins; the threshold itself by default.
    """

    name: str
    above: float | None = None
    below: float | None = None
    minus: str = ""
    other: float | None = None

    @property
    def text(self) -> str:
        """The claimed side."""
        side = f"above {self.above:g}" if self.above is not None else f"below {self.below:g}"
        return f"M: {_what(self.name, self.minus)} is {side} for every seed"

    def __call__(self, values: Values) -> Decision:
        """Compare each seed with the threshold."""
        each = _difference(values, self.name, self.minus)
        sign = 1 if self.above is not None else -1
        edge = self.above if self.above is not None else self.below
        assert edge is not None
        other = edge if self.other is None else self.other
        if all(sign * (one - edge) > 0 for one in each):
            verdict = CONFIRMED
        elif all(sign * (one - other) < 0 for one in each):
            verdict = OPPOSITE
        else:
            verdict = NOT_CONFIRMED
        return Decision(verdict, f"{_what(self.name, self.minus)}: {_listed(each)}")


@dataclass(frozen=True)
class Widens:
    """M: confirmed if `name` minus `minus` is larger at the last place than at the first.

    The values are one for each place, such as a length, in rising order.
    """

    name: str
    minus: str

    @property
    def text(self) -> str:
        """The claimed growth."""
        return f"M: {self.name} minus {self.minus} is larger at the last place than at the first"

    def __call__(self, values: Values) -> Decision:
        """Compare the first gap with the last."""
        gaps = _difference(values, self.name, self.minus)
        verdict = CONFIRMED if gaps[-1] > gaps[0] else OPPOSITE
        return Decision(verdict, f"{_what(self.name, self.minus)}: {_listed(gaps)}")


@dataclass(frozen=True)
class Exact:
    """E: confirmed if the error is at most `within`, opposite otherwise."""

    name: str
    within: float = 1e-5

    @property
    def text(self) -> str:
        """The bound."""
        return f"E: {self.name} is at most {self.within:g}"

    def __call__(self, values: Values) -> Decision:
        """Compare the largest error with the bound."""
        worst = max(abs(one) for one in values[self.name])
        verdict = CONFIRMED if worst <= self.within else OPPOSITE
        return Decision(verdict, f"{self.name}: {worst:.2g}")


@dataclass(frozen=True)
class NearMedian:
    """T, E: confirmed if the median is within `within` of `expected`; otherwise not."""

    name: str
    expected: float
    within: float = 0.15

    @property
    def text(self) -> str:
        """The expected value and how far from it the median may be."""
        return f"T: the median of {self.name} is {self.expected:g} ± {self.within:g}"

    def __call__(self, values: Values) -> Decision:
        """Compare the median with what is expected."""
        middle = statistics.median(values[self.name])
        good = abs(middle - self.expected) <= self.within
        return Decision(CONFIRMED if good else NOT_CONFIRMED, f"{self.name}: {middle:.3g}")


@dataclass(frozen=True)
class Median:
    """T: confirmed if the median is on the claimed side, opposite otherwise."""

    name: str
    above: float | None = None
    below: float | None = None

    @property
    def text(self) -> str:
        """The claimed side."""
        side = f"above {self.above:g}" if self.above is not None else f"below {self.below:g}"
        return f"T: the median of {self.name} is {side}"

    def __call__(self, values: Values) -> Decision:
        """Compare the median with the threshold."""
        middle = statistics.median(values[self.name])
        good = middle > self.above if self.above is not None else middle < (self.below or 0.0)
        return Decision(CONFIRMED if good else OPPOSITE, f"{self.name}: {middle:.3g}")


@dataclass(frozen=True)
class Significant:
    """Q: confirmed by the claimed sign and p < 0.05, opposite by the other sign and p < 0.05.

    Args:
        name: the difference; `p` the name of its p.
        sign: the claimed one, 1 or -1.
    """

    name: str = "difference"
    p: str = "p"
    sign: int = 1

    @property
    def text(self) -> str:
        """The claimed sign."""
        side = "above" if self.sign > 0 else "below"
        return f"Q: {self.name} is {side} 0 with p < 0.05"

    def __call__(self, values: Values) -> Decision:
        """Look at sign and p."""
        difference, p = values[self.name][0], values[self.p][0]
        verdict = CONFIRMED if self.sign * difference > 0 else OPPOSITE
        verdict = verdict if p < 0.05 else NOT_CONFIRMED
        return Decision(verdict, f"{self.name}: {difference:+.3g} (p {p:.3g})")


@dataclass(frozen=True)
class Means:
    """Q, where means and deviations over seeds are known: apart by two standard errors or more.

    `name` and `minus` each have the values mean, standard deviation, number of seeds.
    """

    name: str
    minus: str
    sign: int = 1

    @property
    def text(self) -> str:
        """The claimed sign."""
        side = "above" if self.sign > 0 else "below"
        return f"Q: {self.name} is {side} {self.minus} by two standard errors over seeds"

    def __call__(self, values: Values) -> Decision:
        """Welch's t, against 2."""
        (a, s, n), (b, t, m) = values[self.name], values[self.minus]
        ratio = self.sign * (a - b) / (s**2 / n + t**2 / m) ** 0.5
        verdict = CONFIRMED if ratio >= 2 else OPPOSITE if ratio <= -2 else NOT_CONFIRMED
        said = f"{_what(self.name, self.minus)}: {a - b:+.2f}, {abs(ratio):.1f} standard errors"
        return Decision(verdict, said)


@dataclass(frozen=True)
class IntervalAbove:
    """V: confirmed if the whole 95 % interval is above `above`, opposite if all is below `other`.

    `name` has the values low, high.
    """

    name: str = "interval"
    above: float = 0.0
    other: float = 0.0

    @property
    def text(self) -> str:
        """Where the interval has to be."""
        return f"V: the 95 % interval of {self.name} is above {self.above:g}"

    def __call__(self, values: Values) -> Decision:
        """Compare both ends with the thresholds."""
        low, high = values[self.name]
        below = OPPOSITE if high < self.other else NOT_CONFIRMED
        verdict = CONFIRMED if low > self.above else below
        return Decision(verdict, f"{self.name}: [{low:.3g}, {high:.3g}]")


@dataclass(frozen=True)
class AllOf:
    """Several rules: confirmed (or opposite) if all are; otherwise not confirmed."""

    rules: tuple[Rule, ...]

    @property
    def text(self) -> str:
        """Each rule."""
        return "; and ".join(rule.text for rule in self.rules)

    def __call__(self, values: Values) -> Decision:
        """Apply each rule."""
        found = [rule(values) for rule in self.rules]
        verdicts = {one.verdict for one in found}
        verdict = found[0].verdict if len(verdicts) == 1 else NOT_CONFIRMED
        return Decision(verdict, "; ".join(f"{one.statistic} ({one.verdict})" for one in found))


def _difference(values: Values, name: str, minus: str) -> list[float]:
    if not minus:
        return list(values[name])
    return [a - b for a, b in zip(values[name], values[minus], strict=True)]


def _what(name: str, minus: str) -> str:
    return f"{name} minus {minus}" if minus else name


def _listed(each: Sequence[float]) -> str:
    return ", ".join(f"{one:.3g}" for one in each)
