"""What was wrong with single lines of data: reported with file and line, counted, never fatal."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Problem", "Problems", "Silent"]

log = logging.getLogger(__name__)

_STAYS = "stays: nothing is learned from it, and scores count it"


@dataclass(frozen=True)
class Problem:
    """One line that was left out.

    Args:
        line: counted from 1; the heading is line 1.
        what: the kind in fixed words ("empty", "too long", "not UTF-8", "lacks a column", ...).
        detail: the particulars.
    """

    file: str
    line: int
    what: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.file}:{self.line}: {self.what}{detail}"


class Problems:
    """The problems met while reading; the first few of a kind are logged, the others counted.

    Args:
        shown: how many of one kind in one file are logged as they come.
        kept: how many are kept as objects; the counts go on.
    """

    def __init__(self, shown: int = 3, kept: int = 10_000) -> None:
        self.shown, self.kept = shown, kept
        self.counts: Counter[str] = Counter()
        """Of each kind; `left_out`: of lines that do not stay."""
        self.left_out: Counter[str] = Counter()
        self._by_file: Counter[tuple[str, str]] = Counter()
        self._reported: dict[tuple[str, str], int] = {}
        self._kept: list[Problem] = []

    def add(
        self, file: str, line: int, what: str, detail: str = "", *, stays: bool = False
    ) -> None:
        """Report a line that is left out, or that stays though nothing is learned from it."""
        problem = Problem(str(file), line, what, detail)
        self.counts[what] += 1
        if not stays:
            self.left_out[what] += 1
        self._by_file[problem.file, what] += 1
        if len(self._kept) < self.kept:
            self._kept.append(problem)
        if self._by_file[problem.file, what] <= self.shown:
            log.warning("%s; the line %s", problem, _STAYS if stays else "is left out")

    def report(self, file: str) -> None:
        """Log how many lines of a file were left out in all, where not each was named before.

        A total is logged once, however many readers of the file report it.
        """
        for (name, what), count in self._by_file.items():
            if name == str(file) and count > max(self.shown, self._reported.get((name, what), 0)):
                self._reported[name, what] = count
                log.warning(
                    "%s: %d lines %sin all: %s",
                    name,
                    count,
                    "left out " * (what in self.left_out),
                    what,
                )

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._kept)

    def __len__(self) -> int:
        return self.counts.total()

    def __repr__(self) -> str:
        return f"Problems({dict(self.counts)})"


class Silent(Problems):
    """Of a pass over a text that is read again: what is wrong is told in another pass."""

    def add(
        self, file: str, line: int, what: str, detail: str = "", *, stays: bool = False
    ) -> None:
        """Say nothing."""

    def report(self, file: str) -> None:
        """Say nothing."""
