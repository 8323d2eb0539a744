r"""The best tags of one text in NumPy: what `tasks.tags.decoding` finds, in float64.

Without a chain, words are tagged each by itself, with
:math:`p(y_t = c) = \mathrm{softmax}_c(E_t)`. With one, a path y has the score

.. math:: s(y) = b_{y_1} + \sum_t E_{t, y_t} + \sum_t A_{y_{t-1}, y_t} + e_{y_L}

and the probability :math:`\exp(s(y) - \log Z)`. Rules forbid what may not follow.

Source: Lafferty, McCallum and Pereira 2001, "Conditional Random Fields"; Lample et al. 2016,
"Neural Architectures for Named Entity Recognition", section 2.2.
"""

from typing import NamedTuple

import numpy as np

from regard.runtime.labels import LEAST
from regard.runtime.operators import Array, log_softmax
from regard.runtime.role_search import RoleSearch

__all__ = ["FORBIDDEN", "BestTags", "TagChain", "best_tags"]

FORBIDDEN = -1e4
"""The score of what rules forbid, as in `layers.crf`."""


class TagChain(NamedTuple):
    """Weights of a chain (C, C), (C,) and (C,); or what rules allow."""

    transitions: Array
    start: Array
    end: Array


class BestTags(NamedTuple):
    """The tags of a text: numbers, their log-probability together, the probability of each."""

    tags: list[int]
    score: float
    confidences: list[float]


def best_tags(
    emissions: Array,
    chain: TagChain | None = None,
    rules: TagChain | None = None,
    roles: RoleSearch | None = None,
) -> BestTags:
    """The best tags of a text.

    Args:
        emissions: (L, C), calibrated.
        chain: of a CRF; None: words are tagged each by itself, the rules aside.
        rules: True where a tag may follow, be first, be last; None: everywhere.
        roles: in the place of rules: finds the best tags under the constraints of semantic roles.

    Example:
        >>> best_tags(np.array([[0.0, 1.0], [2.0, 0.0]])).tags
        [1, 0]
    """
    each = emissions.astype(np.float64)
    if chain is None:
        scores = log_softmax(each)
        sure, whole = np.exp(scores), 0.0
        count = each.shape[1]
        followed = TagChain(np.zeros((count, count)), np.zeros(count), np.zeros(count))
    else:
        scores, followed = each, TagChain(*(one.astype(np.float64) for one in chain))
        sure, whole = _marginals(each, followed)
    free = followed
    if rules is not None:
        pairs = zip(followed, rules, strict=True)
        followed = TagChain(*(np.where(may, one, FORBIDDEN) for one, may in pairs))
    if roles is None:
        tags = _viterbi(scores, followed)
    else:
        words = scores if chain is None else np.log(np.maximum(sure, LEAST))
        tags = np.array(roles.best(words).tags)
    steps = np.arange(len(tags))
    score = float(scores[steps, tags].sum() + _along(free, tags) - whole)
    return BestTags(tags.tolist(), score, sure[steps, tags].tolist())


def _along(chain: TagChain, tags: Array) -> float:
    """What the transitions of a path score, its ends among them."""
    between = chain.transitions[tags[:-1], tags[1:]].sum()
    return float(between + chain.start[tags[0]] + chain.end[tags[-1]])


def _viterbi(emissions: Array, chain: TagChain) -> Array:
    """The path of the greatest score; of equal ones that of the first tags."""
    best, came = chain.start + emissions[0], []
    for row in emissions[1:]:
        over = best[:, None] + chain.transitions
        came.append(over.argmax(0))
        best = over.max(0) + row
    path = [int((best + chain.end).argmax())]
    for where in reversed(came):
        path.append(int(where[path[-1]]))
    return np.array(path[::-1])


def _log_sum(x: Array, axis: int) -> Array:
    most = x.max(axis, keepdims=True)
    found: Array = np.log(np.exp(x - most).sum(axis)) + most.squeeze(axis)
    return found


def _marginals(emissions: Array, chain: TagChain) -> tuple[Array, float]:
    """The probability of each tag at each word (L, C), and log Z."""
    ahead, back = [chain.start + emissions[0]], [chain.end]
    for row in emissions[1:]:
        ahead.append(_log_sum(ahead[-1][:, None] + chain.transitions, 0) + row)
    for row in emissions[:0:-1]:
        back.append(_log_sum(chain.transitions + (row + back[-1]), 1))
    both = np.stack(ahead) + np.stack(back[::-1])
    whole = float(_log_sum(both[0], 0))
    return np.exp(both - whole), whole
