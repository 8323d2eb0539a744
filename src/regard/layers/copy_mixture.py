r"""Words written or copied: two distributions mixed by a switch.

.. math:: p(y_t) = (1 - u_t)\, p_{gen}(y_t) + u_t \sum_{i : x_i = y_t} \alpha_{ti},
          \qquad u_t = \sigma(s_t)

All in log space, so that no probability is lost; what neither writes nor copies has minus infinity.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear, logsigmoid

from regard.layers.deferred_logits import DeferredLogits, is_deferring
from regard.native.operation import operation

__all__ = ["DeferredMixture", "mixed_log_prob", "mixture", "target_log_prob"]

PADDING = 0  # protocols.PAD, which is a floor above


@operation("mixed_log_prob")
def mixed_log_prob(
    logits: Float[Tensor, "batch time vocab"],
    weights: Float[Tensor, "batch time source"],
    switch: Float[Tensor, "batch time"],
    copies: Int[Tensor, "batch source"],
    size: int,
) -> Float[Tensor, "batch time size"]:
    r"""The logarithm of the mixture, for every word.

    .. math:: \log p(y) = \mathrm{logaddexp}\Big(\log\sigma(-s) + \log\mathrm{softmax}(z)_y,\;
              \log\sigma(s) + \log\sum_{i : x_i = y} \alpha_i\Big)

    Args:
        logits: z, scores of writing each word of the vocabulary.
        weights: :math:`\alpha`, where to copy from; each row adds up to 1.
        switch: s, the log-odds of copying.
        copies: x, the id of each source word; ids from `vocab` on are words that the vocabulary
            lacks. Padding is 0, and never copied.
        size: how many ids there are.

    Shapes:
        (B, T, size), in float32 at least

    Source: See, Liu and Manning (2017), eq. 9; Paulus, Xiong and Socher (2018), eq. 12.

    Example:
        >>> one = torch.zeros(1, 1)
        >>> copies = torch.tensor([[4, 5]])
        >>> mixed_log_prob(one[..., None].expand(1, 1, 5), torch.ones(1, 1, 2) / 2, one, copies, 6)[
        ...     0, 0
        ... ].exp()
        tensor([0.1000, 0.1000, 0.1000, 0.1000, 0.3500, 0.2500])
    """
    logits, weights, switch = (_wide(x) for x in (logits, weights, switch))
    written = logits.log_softmax(-1) + logsigmoid(-switch)[..., None]
    shares = weights.new_zeros(*weights.shape[:2], size)
    at = copies[:, None].expand_as(weights)
    share = shares.scatter_add(-1, at, weights).gather(-1, at)
    copied = share.clamp_min(torch.finfo(share.dtype).tiny).log()  # a weight may have underflown
    # Only words of the source have two parts. Each is put in once; the rest goes behind the end.
    more = size + 1 - logits.shape[-1]
    every = torch.cat([written, written.new_full((*written.shape[:2], more), -torch.inf)], -1)
    both = torch.logaddexp(every.gather(-1, at), copied + logsigmoid(switch)[..., None])
    place = copies.where(_once(copies, size), size)[:, None].expand_as(weights)
    return every.scatter(-1, place, both)[..., :size]


def target_log_prob(
    logits: Float[Tensor, "batch time vocab"],
    weights: Float[Tensor, "batch time source"],
    switch: Float[Tensor, "batch time"],
    copies: Int[Tensor, "batch source"],
    target: Int[Tensor, "batch time"],
) -> Float[Tensor, "batch time"]:
    """What `mixed_log_prob` gives to one word at each place, without a tensor of all words.

    Args:
        logits, weights, switch, copies: of `mixed_log_prob`.
        target: the words.
    """
    vocab = logits.shape[-1]
    at = target.where(target < vocab, PADDING)[..., None]
    wide = _wide(logits)
    return _both(
        wide.gather(-1, at)[..., 0] - wide.logsumexp(-1), vocab, weights, switch, copies, target
    )


class DeferredMixture(NamedTuple):
    """A mixture that is not added up yet: the arguments of `mixed_log_prob`.

    Where its logits were deferred themselves, they are made for real targets alone.
    """

    logits: Tensor | DeferredLogits
    weights: Tensor
    switch: Tensor
    copies: Tensor
    size: int

    def whole(self) -> Tensor:
        """The log-probabilities of every word: (B, T, size)."""
        logits = self.logits if isinstance(self.logits, Tensor) else linear(*self.logits)
        return mixed_log_prob(logits, *self[1:])

    def of(self, target: Tensor) -> Tensor:
        """The log-probabilities of `target` (B, T); 0 for padding where logits were deferred."""
        parts = self.weights, self.switch, self.copies, target
        if isinstance(self.logits, Tensor):
            return target_log_prob(self.logits, *parts)
        states, weight, bias = self.logits
        real, vocab = target != PADDING, len(weight)
        gold = target[real]
        rows = _wide(linear(states[real], weight, bias))  # (N, V)
        gold = gold.where(gold < vocab, PADDING)
        each = rows.gather(-1, gold[:, None])[:, 0] - rows.logsumexp(-1)
        written = each.new_zeros(target.shape).masked_scatter(real, each)
        return _both(written, vocab, *parts).masked_fill(~real, 0.0)


def mixture(
    logits: Tensor | DeferredLogits, weights: Tensor, switch: Tensor, copies: Tensor, size: int
) -> Any:
    """`mixed_log_prob`; inside `layers.deferred_logits.deferring()`, a `DeferredMixture`."""
    given = DeferredMixture(logits, weights, switch, copies, size)
    return given if is_deferring() else given.whole()


def _both(
    written: Tensor, vocab: int, weights: Tensor, switch: Tensor, copies: Tensor, target: Tensor
) -> Tensor:
    """What writing gives to targets, before the switch, and what copying gives: (B, T)."""
    weights, switch = _wide(weights), _wide(switch)
    known = target < vocab
    same = (copies[:, None] == target[..., None]) & (target != PADDING)[..., None]  # (B, T, S)
    found = same.any(-1)
    written = written + logsigmoid(-switch)
    copied = _log((weights * same).sum(-1), found) + logsigmoid(switch)
    nowhere = ~known & ~found  # finite until it is masked: else its gradient would be NaN
    both = torch.logaddexp(written.masked_fill(~known & found, -torch.inf), copied)
    return both.masked_fill(nowhere, -torch.inf)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _once(copies: Tensor, size: int) -> Tensor:
    """One place of each word of a source, padding left out: (B, S)."""
    places = torch.arange(copies.shape[1], device=copies.device).expand_as(copies)
    kept = copies.new_zeros(len(copies), size).scatter(1, copies, places)
    return (kept.gather(1, copies) == places) & (copies != PADDING)


def _log(shares: Tensor, there: Tensor) -> Tensor:
    """Logarithms, finite wherever a word is `there`, with gradients that are never NaN."""
    least = torch.finfo(shares.dtype).tiny
    return shares.clamp_min(least).log().masked_fill(~there, -torch.inf)
