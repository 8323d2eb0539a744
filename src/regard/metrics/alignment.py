"""Word alignments: gold links, hard links from attention weights, and the alignment error rate."""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.errors import RequestError
from regard.metrics.score import Score, Sums, signature
from regard.metrics.significance import bootstrap

__all__ = ["Link", "Links", "aer", "hard_alignment", "read_links"]

Link = tuple[int, int]
"""(source position, target position), counted from 0."""

_LINK = re.compile(r"(\d+)([-?p])(\d+)")


class Links(NamedTuple):
    """The gold links of one sentence pair; the sure ones are among the possible ones."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_links(
    lines: Iterable[str], *, first: int = 0, reverse: bool = False, name: str = "links"
) -> list[Links]:
    """Read links in the Pharaoh format: `0-0 1-2 2?1 3p3`, one sentence pair a line.

    Args:
        lines: `-` is a sure link, `?` or `p` a possible one; an empty line has no links.
        first: the number of the first word, 0 or 1.
        reverse: the file has target-source instead of source-target.
        name: what errors call the file.

    Raises:
        RequestError: for an invalid link, with file and line.

    Example:
        >>> (pair,) = read_links(["0-0 1?2"])
        >>> sorted(pair.sure), sorted(pair.possible)
        ([(0, 0)], [(0, 0), (1, 2)])
    """
    found = []
    for number, line in enumerate(lines, start=1):
        sure, possible = set(), set()
        for word in line.split():
            match = _LINK.fullmatch(word)
            if match is None:
                raise RequestError(
                    f"{name}:{number}: expected links like 0-1 or 0?1, got {word[:40]!r}"
                )
            pair = int(match[1]) - first, int(match[3]) - first
            if min(pair) < 0:
                raise RequestError(f"{name}:{number}: {word!r} counts from 0, not from {first}")
            link = (pair[1], pair[0]) if reverse else pair
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        found.append(Links(frozenset(sure), frozenset(possible)))
    return found


def hard_alignment(
    weights: Float[Tensor, "target source"], *, row: str = "predicted"
) -> frozenset[Link]:
    """One link per target word: to the source word with the largest weight (the first of equals).

    A row of zeros gives no link.

    Args:
        weights: of one hypothesis, one head or the mean of several.
        row: the target word of row t. "predicted": word t, the output of the step.
            "input": word t - 1, the input of the step, so row 0 (the start symbol) gives no link;
            Luong et al. (2015, note 14) read content scores this way.

    Raises:
        RequestError: `row` is neither.

    Shapes:
        weights (T, S): T target words, S source words; leave out tokens that should not be linked
        (EOS).
    """
    shifts = {"predicted": 0, "input": 1}
    if row not in shifts:
        raise RequestError(f"row: expected 'predicted' or 'input', got {row!r}")
    shift = shifts[row]
    best = weights.argmax(-1).tolist() if weights.numel() else []
    seen = (weights > 0).any(-1).tolist() if weights.numel() else []
    return frozenset((best[t], t - shift) for t in range(shift, len(best)) if seen[t])


def aer(
    alignments: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
    *,
    samples: int = 0,
) -> Score:
    """Alignment error rate of hard links against sure and possible gold links.

        AER = 100 (1 - (Σ|A ∩ S| + Σ|A ∩ P|) / (Σ|A| + Σ|S|)),   S ⊆ P

    summed over sentence pairs; sure links always count as possible.
    `parts` has precision 100 Σ|A ∩ P| / Σ|A| and recall 100 Σ|A ∩ S| / Σ|S|.

    Args:
        alignments: A, the links of each sentence pair.
        sure: S, the sure gold links of each pair.
        possible: P, the possible gold links; by default all gold links are sure.
        samples: bootstrap samples for a 95 % interval in `parts["interval"]`; 0 for none.

    Raises:
        RequestError: unequal numbers, or no links at all.

    Source: Och and Ney (2003), "A systematic comparison of various statistical alignment models".

    Example:
        >>> aer([{(0, 0), (1, 2), (2, 1)}], [{(0, 0), (1, 1), (2, 2)}]).value
        66.66666666666667
    """
    gold = sure if possible is None else possible
    if not len(alignments) == len(sure) == len(gold):
        raise RequestError(
            "expected as many alignments as sure and possible ones, got "
            f"{len(alignments)}, {len(sure)} and {len(gold)}"
        )
    counts = np.array(  # |A ∩ S|, |A ∩ P|, |A|, |S|: (pair, 4)
        [
            (len(a & s), len(a & (s | p)), len(a), len(s))
            for a, s, p in zip(alignments, sure, gold, strict=True)
        ],
        dtype=np.int64,
    ).reshape(-1, 4)
    both_sure, both_possible, found, expected = (int(n) for n in counts.sum(0))
    if found + expected == 0:
        raise RequestError("nothing to score: there are no links, neither found nor sure")
    parts: dict[str, Any] = {
        "precision": 100 * both_possible / found if found else 0.0,
        "recall": 100 * both_sure / expected if expected else 100.0,
        "links": found,
        "sure": expected,
        "examples": len(counts),
    }
    sums = Sums(counts, _aer)
    if samples:
        parts["interval"] = bootstrap(sums, samples=samples)
    kinds = "sure" if possible is None else "sure+possible"
    value = float(_aer(counts.sum(0, keepdims=True))[0])
    return Score("aer", value, signature(links=kinds), parts, sums)


def _aer(sums: np.ndarray) -> np.ndarray:
    total = np.maximum(sums[..., 2] + sums[..., 3], 1)
    value: np.ndarray = 100 * (1 - (sums[..., 0] + sums[..., 1]) / total)
    return value
