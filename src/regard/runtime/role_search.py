r"""The best sequence of tags under constraints between words far apart: A* search.

A sequence y of BIO tags of T words scores

.. math:: f(y) = \sum_t \log p(y_t) - \sum_c \rho_c\, |\text{violations of } c \text{ in } y|

I-X is allowed behind B-X and I-X alone. The other constraints are about all spans of a sentence,
and each has a penalty: a core role comes once; a continuation C-X has a span X before it; a
reference R-X has a span X somewhere.

The search takes up the prefix of which `score so far + best that the rest could be` is the largest.
The rest is at best what it is without penalties, so the first whole sequence is the best one. He et
al. bound the rest by the best tag of each word; here it is the best legal rest, which is tighter
and costs one pass from the end. Prefixes with the same last tag and the same spans seen have the
same future: only the better one is followed.

Source: He, Lee, Lewis and Zettlemoyer 2017, "Deep Semantic Role Labeling: What Works and What's
Next"; the constraints are those of Punyakanok et al. 2008, "The Importance of
Syntactic Parsing and Inference in Semantic Role Labeling".
"""

import heapq
import math
import re
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["RoleSearch", "TagPath"]

_CORE = re.compile(r"(A|ARG)[0-5A]")


class TagPath(NamedTuple):
    """What a search for tags found."""

    tags: list[int]
    score: float
    """Log-probability less penalties; minus infinity where every sequence breaks a hard rule."""
    is_best: bool
    """False where the search was given up: then this is the best legal path without penalties."""
    pops: int
    """How many prefixes were taken up; 0 where the best legal path violates nothing."""


class _Effect(NamedTuple):
    """What beginning a span means: labels are numbers, -1 stands for no span."""

    label: int = -1
    is_core: bool = False
    continues: int = -1
    refers: int = -1


class RoleSearch:
    """The best sequence of BIO tags under the constraints of semantic roles.

    Args:
        tags, unique, continuation, reference, limit: see `decode.tag_search.TagSearch`.
    """

    def __init__(
        self,
        tags: Sequence[str],
        *,
        unique: float = math.inf,
        continuation: float = math.inf,
        reference: float = math.inf,
        limit: int = 100_000,
    ) -> None:
        penalties = {"unique": unique, "continuation": continuation, "reference": reference}
        for name, penalty in penalties.items():
            if not penalty >= 0:
                raise RequestError(f"TagSearch expected {name} of 0 or more, got {penalty}")
        if limit < 1:
            raise RequestError(f"TagSearch expected a limit of 1 or more, got {limit}")
        for tag in tags:
            if tag != "O" and (tag[:2] not in ("B-", "I-") or len(tag) < 3):
                raise RequestError(f'TagSearch expected tags "O", "B-X" and "I-X", got {tag!r}')
        if all(tag[:2] == "I-" for tag in tags):
            raise RequestError(f"TagSearch expected a tag to begin with, got {list(tags)}")
        self.tags, self.limit = list(tags), limit
        self.unique, self.continuation, self.reference = unique, continuation, reference
        self.may_start = np.array([not tag.startswith("I-") for tag in tags])
        self.may_follow = np.array(
            [[b[:2] != "I-" or (a != "O" and a[2:] == b[2:]) for b in tags] for a in tags]
        )
        self._effects = self._of_beginnings()  # what is switched off has none

    def _of_beginnings(self) -> list[_Effect]:
        """The effect of each tag."""
        numbers: dict[str, int] = {}
        found = []
        for tag in self.tags:
            label = tag[2:]
            if tag[:2] != "B-":
                found.append(_Effect())
                continue
            continued = label[2:] if label[:2] == "C-" and self.continuation else None
            referred = label[2:] if label[:2] == "R-" and self.reference else None
            found.append(
                _Effect(
                    numbers.setdefault(label, len(numbers)),
                    bool(_CORE.fullmatch(label)) and self.unique > 0,
                    -1 if continued is None else numbers.setdefault(continued, len(numbers)),
                    -1 if referred is None else numbers.setdefault(referred, len(numbers)),
                )
            )
        asked = {n for e in found for n in (e.continues, e.refers)}
        asked |= {e.label for e in found if e.is_core}
        return [e if e.label in asked else e._replace(label=-1) for e in found]

    def best(self, each: NDArray[np.float64]) -> TagPath:
        """The best sequence of one sentence.

        Args:
            each: log-probabilities (T, C).

        Raises:
            RequestError: for another number of tags.
        """
        if each.shape[1] != len(self.tags):
            raise RequestError(
                f"TagSearch expected scores of {len(self.tags)} tags, got {tuple(each.shape)}"
            )
        if not len(each):
            return TagPath([], 0.0, True, 0)
        rest = self._rest(each)
        legal = self._legal(each, rest)
        cost = self._cost(legal)
        score = float(each[range(len(each)), legal].sum()) - cost
        if not cost:
            return TagPath(legal, score, True, 0)
        found, pops = self._search(each, rest)
        if found is None:
            return TagPath(legal, score, pops <= self.limit, min(pops, self.limit))
        return TagPath(
            found, float(each[range(len(each)), found].sum()) - self._cost(found), True, pops
        )

    def _cost(self, path: Sequence[int]) -> float:
        """All penalties of a path."""
        total, seen = 0.0, 0
        waiting: dict[int, int] = {}
        for tag in path:
            cost, seen, waiting = self._begun(tag, seen, waiting)
            total += cost
        return total + self._left(waiting)

    def _begun(
        self, tag: int, seen: int, waiting: dict[int, int]
    ) -> tuple[float, int, dict[int, int]]:
        """What a tag costs, the labels seen then, and references that wait for their label."""
        effect, cost = self._effects[tag], 0.0
        if effect.is_core and seen >> effect.label & 1:
            cost += self.unique
        if effect.continues >= 0 and not seen >> effect.continues & 1:
            cost += self.continuation
        if effect.refers >= 0 and not seen >> effect.refers & 1:
            waiting = {**waiting, effect.refers: waiting.get(effect.refers, 0) + 1}
        if effect.label >= 0:
            seen |= 1 << effect.label
            if effect.label in waiting:
                waiting = {k: n for k, n in waiting.items() if k != effect.label}
        return cost, seen, waiting

    def _left(self, waiting: dict[int, int]) -> float:
        """What references without their label cost."""
        return self.reference * sum(waiting.values()) if waiting else 0.0

    def _rest(self, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """(T, C): the best score of the words behind each, given its tag, without penalties."""
        rest = np.zeros_like(each)
        for t in range(len(each) - 2, -1, -1):
            onward = np.where(self.may_follow, each[t + 1] + rest[t + 1], -np.inf)
            rest[t] = onward.max(1)
        return rest

    def _legal(self, each: NDArray[np.float64], rest: NDArray[np.float64]) -> list[int]:
        """The best path without penalties."""
        may, path = self.may_start, []
        for scores, behind in zip(each, rest, strict=True):
            path.append(int(np.where(may, scores + behind, -np.inf).argmax()))
            may = self.may_follow[path[-1]]
        return path

    def _search(
        self, each: NDArray[np.float64], rest: NDArray[np.float64]
    ) -> tuple[list[int] | None, int]:
        """A*: the path and the prefixes taken up; None where all were, or more than the limit."""
        steps, order = len(each), count()
        whole = each + rest
        # (-bound, order, t, score, last tag, seen, waiting, way): -1 is before the first word.
        queue: list[tuple[float, int, int, float, int, int, dict[int, int], object]] = []
        heapq.heappush(queue, (0.0, next(order), 0, 0.0, -1, 0, {}, None))
        done: set[tuple[int, int, int, frozenset[tuple[int, int]]]] = set()
        pops = 0
        while queue:
            _, _, t, score, last, seen, waiting, way = heapq.heappop(queue)
            state = (t, last, seen, frozenset(waiting.items()))
            if state in done:
                continue
            done.add(state)
            if t > steps:  # its references were settled
                return _unrolled(way), pops
            pops += 1
            if pops > self.limit:
                return None, pops
            if t == steps:
                score -= self._left(waiting)
                if score > -math.inf:
                    heapq.heappush(queue, (-score, next(order), t + 1, score, -1, 0, {}, way))
                continue
            may = self.may_follow[last] if t else self.may_start
            for tag in np.flatnonzero(may & (whole[t] > -np.inf)).tolist():
                cost, now, pending = self._begun(tag, seen, waiting)
                if cost < math.inf:
                    reached = score + float(each[t, tag]) - cost
                    bound = reached + float(rest[t, tag])
                    node = (-bound, next(order), t + 1, reached, tag, now, pending, (tag, way))
                    heapq.heappush(queue, node)
        return None, pops


def _unrolled(way: object) -> list[int]:
    """The tags of a way, which is linked from its end."""
    path = []
    while isinstance(way, tuple):
        tag, way = way
        path.append(tag)
    return path[::-1]
