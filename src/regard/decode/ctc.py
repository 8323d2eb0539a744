r"""Decoding CTC: the best path, or the best text by a search over prefixes.

The best path takes the best symbol of each frame, then takes out repeats and blanks; another text
may be likelier, as many paths give it. The search keeps the likeliest prefixes with the
probabilities of their paths that end in a blank and that do not (Graves et al. 2006, 3.2; Hannun
et al. 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional
Recurrent DNNs", without a language model).
"""

import math
from collections import defaultdict
from itertools import groupby
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from regard.protocols import BOS, EOS, PAD

__all__ = ["Spelled", "best_path", "prefix_search"]

SELDOM = 1e-4
"""A symbol that is less probable in a frame continues no prefix there, unless it is the best."""


class Spelled(NamedTuple):
    """A text, its log-probability, and for each symbol the frame that it is written in."""

    tokens: list[int]
    log_prob: float
    frames: list[int]


def best_path(log_probs: Float[Tensor, "frames symbols"]) -> Spelled:
    """The text of the best path; its log-probability is that of this path alone.

    Example:
        >>> import torch
        >>> probabilities = torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [0.1, 0.9]])
        >>> best_path(probabilities.log()).tokens
        [1, 1]
    """
    best, ids = log_probs.max(-1)
    tokens, frames, at = [], [], 0
    for symbol, run in groupby(ids.tolist()):
        size = len(list(run))
        if symbol != PAD:
            tokens.append(symbol)
            frames.append(at + int(best[at : at + size].argmax()))
        at += size
    return Spelled(tokens, float(best.double().sum()), frames)


def prefix_search(log_probs: Float[Tensor, "frames symbols"], beam: int) -> list[Spelled]:
    """The likeliest texts, best first, each with the probability of all its paths that were kept.

    The start and the end symbol are never written.

    Args:
        log_probs: of the symbols in each frame; PAD is the blank.
        beam: prefixes that are kept after each frame.
    """
    none = -math.inf
    # Of each prefix: (paths that end in a blank, paths that end in its last symbol).
    kept: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, none)}
    # Where each prefix most probably got its last symbol: that probability, and the frames of all.
    places: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {(): (0.0, ())}
    table = log_probs.double()
    for t, row in enumerate(table):
        wanted = ((row >= math.log(SELDOM)) | (row == row.max())).nonzero()[:, 0].tolist()
        values = row.tolist()
        new: dict[tuple[int, ...], tuple[float, float]] = defaultdict(lambda: (none, none))
        earlier = {prefix: places[prefix][1] for prefix in kept}  # this frame may change them
        for prefix, (blank, symbol) in kept.items():
            both = _plus(blank, symbol)
            b, s = new[prefix]
            b = _plus(b, both + values[PAD])
            if prefix:
                s = _plus(s, symbol + values[prefix[-1]])
            new[prefix] = (b, s)
            for one in wanted:
                if one in (PAD, BOS, EOS):
                    continue
                longer = (*prefix, one)
                before = blank if prefix and prefix[-1] == one else both
                if before == none:
                    continue
                b, s = new[longer]
                here = before + values[one]
                new[longer] = (b, _plus(s, here))
                if longer not in places or here > places[longer][0]:
                    places[longer] = (here, (*earlier[prefix], t))
        ranked = sorted(new, key=lambda p: -_plus(*new[p]))[:beam]
        kept = {prefix: new[prefix] for prefix in ranked}
    return [Spelled(list(p), _plus(*kept[p]), list(places[p][1])) for p in kept]


def _plus(x: float, y: float) -> float:
    """log(exp x + exp y)."""
    high, low = (x, y) if x > y else (y, x)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
