r"""What taggers learn: each tag by itself, or all tags of a sentence together.

A model without transitions is trained by the cross-entropy of every word. One with transitions is a
linear-chain CRF, and its loss is :math:`\log Z - s(y)`. Where words have weights w, a word counts
:math:`w_t` times in the cross-entropy; in a chain every wrong tag's emission is raised by
:math:`\log w_t`, so that errors on rare tags cost more: a softmax-margin (Gimpel and Smith
2010, "Softmax-Margin CRFs: Training Log-Linear Models with Cost Functions").
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.fields.tags import IGNORED
from regard.layers.crf import FORBIDDEN, Chain, log_partition, marginals, path_score

__all__ = ["chain_of", "likelihood_loss", "tag_loss"]


def chain_of(extra: Any) -> Chain | None:
    """The chain that a model gives beside its emissions (`protocols.Tagger`), if it does."""
    if "transitions" not in extra:
        return None
    return Chain(extra["transitions"], extra["start"], extra["end"])


def tag_loss(
    logits: Float[Tensor, "batch time tags"],
    chain: Chain | None,
    target: Int[Tensor, "batch time"],
    lengths: Int[Tensor, " batch"],
    weights: Float[Tensor, "batch time"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The sum of the losses of all words, or of all sentences where tags are a chain.

    Args:
        target: `IGNORED` (-100) at padding, and for a tag that training never had: it counts
            nothing, and in a chain may be any tag.
        weights: of each word.
        smoothing: mass of the target that is spread over the other tags; not for chains.
    """
    logits = logits.float()
    if chain is None:
        return _words(logits, target, weights, smoothing)
    known = target != IGNORED
    right = target.clamp(min=0)
    inside = torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]
    if weights is not None:
        cost = weights.to(logits).clamp_min(1e-6).log() * known
        wrong = torch.ones_like(logits).scatter_(2, right[..., None], 0.0)
        logits = logits + cost[..., None] * wrong
    total = log_partition(logits, chain, lengths)
    if bool((known | ~inside).all()):
        return (total - path_score(logits, chain, right, lengths)).sum()
    # Unknown tags: all paths that agree with those that are known.
    others = torch.full_like(logits, FORBIDDEN).scatter_(2, right[..., None], 0.0)
    return (total - log_partition(logits + others * known[..., None], chain, lengths)).sum()


def _words(
    logits: Tensor, target: Tensor, weights: Tensor | None, smoothing: float
) -> Float[Tensor, ""]:
    """Cross-entropy; with smoothing each of the C - 1 wrong tags has smoothing / (C - 1)."""
    count = logits.shape[-1]
    flat, right = logits.reshape(-1, count), target.reshape(-1)
    known = right != IGNORED
    scores, right = flat[known].log_softmax(-1), right[known]
    picked = scores.gather(1, right[:, None])[:, 0]
    each = -picked
    if smoothing and count > 1:
        others = (scores.sum(-1) - picked) / (count - 1)
        each = -(1 - smoothing) * picked - smoothing * others
    return (each if weights is None else each * weights.reshape(-1)[known].to(each)).sum()


def likelihood_loss(parts: Sequence[Any], targets: Sequence[Tensor], temperature: float) -> float:
    """The mean negative log-probability of the tags of dev, each by its marginal."""
    total, count = 0.0, 0
    for (_, logits, chain, lengths), target in zip(parts, targets, strict=True):
        known = target != IGNORED
        if chain is None:
            p = (logits / temperature).log_softmax(-1)
        else:
            cooled = Chain(*(one / temperature for one in chain))
            p = marginals(logits / temperature, cooled, lengths).clamp_min(1e-30).log()
        picked = p.gather(2, target.clamp(min=0)[..., None])[..., 0]
        total -= float(picked[known].double().sum())
        count += int(known.sum())
    return total / max(count, 1)
