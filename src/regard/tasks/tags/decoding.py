"""From the scores of a tagger to tags: each word's best, or the best path, with confidences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.annotations.tag_schemes import allowed
from regard.decode.tag_search import TagSearch
from regard.layers.crf import Chain, constrained, log_partition, marginals, viterbi

__all__ = ["CONSTRAINTS", "Tagged", "decode_tags"]

CONSTRAINTS = ("", "scheme", "roles")
"""None; only tags that are valid in the scheme; and of roles the rules of He et al. (2017)."""


@dataclass(frozen=True, eq=False)
class Tagged:
    """The tags of one text.

    Args:
        tags: a number for each word.
        score: the log-probability of all of them together; where words are tagged each by itself,
            the sum over the words.
        confidences: the probability of each tag; in a chain its marginal.
    """

    tags: list[int]
    score: float
    confidences: list[float]


def decode_tags(
    logits: Float[Tensor, "batch time tags"],
    chain: Chain | None,
    lengths: Int[Tensor, " batch"],
    names: Sequence[str],
    scheme: str = "",
    constraints: str = "",
) -> list[Tagged]:
    """The best tags of each text.

    Args:
        chain: of a CRF; None: words are tagged each by itself, the constraints aside.
        names: of the tags.
        scheme: that of the names, for constraints.
        constraints: one of `CONSTRAINTS`.
    """
    if not logits.shape[1]:
        return [Tagged([], 0.0, []) for _ in range(len(logits))]
    if chain is None:
        scores = logits.log_softmax(-1)
        each = scores.exp()
        whole = torch.zeros(len(logits), dtype=scores.dtype)
    else:
        scores, each = logits, marginals(logits, chain, lengths)
        whole = log_partition(logits, chain, lengths)
    sizes = lengths.tolist()
    if constraints == "roles":
        search = TagSearch(names)
        words = scores if chain is None else each.clamp_min(1e-30).log()
        paths = [search(row[:n]).tags if n else [] for row, n in zip(words, sizes, strict=True)]
        best = _padded(paths, logits.shape[1])
    elif chain is None and not constraints:
        best = scores.argmax(-1)
    else:
        followed = _free(scores) if chain is None else chain
        if constraints:
            rules = allowed(names, scheme)
            followed = constrained(followed, _flags(rules))
        best, _ = viterbi(scores, followed, lengths)
    total = torch.zeros_like(whole) if chain is None else _along(chain, best, lengths)
    at_tags = scores.gather(2, best[..., None])[..., 0]
    sure = each.gather(2, best[..., None])[..., 0]
    return [
        Tagged(
            best[i, :n].tolist(),
            float(at_tags[i, :n].double().sum() + total[i] - whole[i]) if n else 0.0,
            sure[i, :n].tolist(),
        )
        for i, n in enumerate(sizes)
    ]


def _free(scores: Tensor) -> Chain:
    count = scores.shape[-1]
    return Chain(scores.new_zeros(count, count), scores.new_zeros(count), scores.new_zeros(count))


def _flags(rules: Sequence[NDArray[np.bool_]]) -> tuple[Tensor, Tensor, Tensor]:
    between, start, end = (torch.from_numpy(one) for one in rules)
    return between, start, end


def _padded(paths: Sequence[Sequence[int]], time: int) -> Int[Tensor, "batch time"]:
    return torch.tensor([[*path, *[0] * (time - len(path))] for path in paths])


def _along(chain: Chain, tags: Tensor, lengths: Tensor) -> Tensor:
    """What a path's transitions score, its ends among them."""
    steps = torch.arange(tags.shape[1])
    between = chain.transitions[tags[:, :-1], tags[:, 1:]] * (steps[1:] < lengths[:, None])
    last = tags.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    found: Tensor = between.sum(1) + chain.start[tags[:, 0]] + chain.end[last]
    return found
