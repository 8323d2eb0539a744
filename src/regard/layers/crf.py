r"""Linear-chain conditional random fields: sums and best paths over all sequences of tags.

The score of a path :math:`y` of a sentence of :math:`L` words is

.. math:: s(y) = b_{y_1} + \sum_{t=1}^{L} E_{t, y_t} + \sum_{t=2}^{L} A_{y_{t-1}, y_t} + e_{y_L}

with emissions E, transitions A (from row to column), start b and end e. Its probability is
:math:`\exp(s(y) - \log Z)`. A sentence without words has one path, the empty one, with score 0.

Steps behind a length are padding: nothing depends on them. Half precision is computed in float32.

On a CPU, sums, their first derivatives, marginals and best paths are computed in C in float32 and
float64, with scaled exponentials; where those could lose more than rounding does, and elsewhere, by
PyTorch in logarithms. Best paths and scores are the same numbers in both.

Source: Lafferty, McCallum and Pereira 2001, "Conditional Random Fields"; with neural emissions
Collobert et al. 2011, "Natural Language Processing (Almost) from Scratch", section 3.4.2, and
Lample et al. 2016, "Neural Architectures for Named Entity Recognition", section 2.2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import RequestError
from regard.layers._crf_native import best_path, is_native, total

__all__ = [
    "FORBIDDEN",
    "Chain",
    "LinearChain",
    "constrained",
    "k_best",
    "log_partition",
    "marginals",
    "path_score",
    "viterbi",
]

FORBIDDEN = -1e4
"""The score of what `constrained` forbids."""


class Chain(NamedTuple):
    """The weights of a chain that do not depend on the words."""

    transitions: Tensor
    """(C, C), from row to column."""
    start: Tensor
    """(C,), of the first tag."""
    end: Tensor
    """(C,), of the last tag."""


class LinearChain(nn.Module):
    """The weights of a chain, learned.

    Transitions start uniform in [-0.1, 0.1], `start` and `end` at 0.

    Args:
        num_tags: C.

    Raises:
        RequestError: for less than one tag.

    Example:
        >>> chain = LinearChain(3)()
        >>> emissions, lengths = torch.zeros(2, 5, 3), torch.tensor([5, 2])
        >>> log_partition(emissions, chain, lengths).shape
        torch.Size([2])
    """

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        if num_tags < 1:
            raise RequestError(f"LinearChain expected one tag or more, got num_tags={num_tags}")
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))

    def forward(self) -> Chain:
        """The weights."""
        return Chain(self.transitions, self.start, self.end)

    def extra_repr(self) -> str:
        """Say how many tags."""
        return f"num_tags={self.start.shape[0]}"


def log_partition(
    emissions: Float[Tensor, "batch time tag"], chain: Chain, lengths: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    r"""The logarithm of the sum over all paths: :math:`\log Z = \log \sum_y \exp s(y)`.

    Its gradient by the emissions are the marginals. The loss of a conditional random field is
    `log_partition(…) - path_score(…)`.

    Shapes:
        emissions (B, T, C), lengths (B,) to (B,)

    Raises:
        RequestError: for sizes that do not fit each other, and lengths outside 0..T.

    Example:
        >>> chain = Chain(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
        >>> log_partition(torch.zeros(1, 3, 2), chain, torch.tensor([3])).exp()  # 2 ** 3 paths
        tensor([8.])
    """
    emissions, chain, lengths = _checked("log_partition", emissions, chain, lengths)
    if is_native(emissions, chain.transitions):
        found = total(emissions, *chain, lengths, _log_partition)
        if found is not None:
            return found
    return _log_partition(emissions, *chain, lengths)


def path_score(
    emissions: Float[Tensor, "batch time tag"],
    chain: Chain,
    tags: Int[Tensor, "batch time"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    r"""The score of one path each: :math:`s(y)`.

    Tags behind a length may be anything. A tag within it must be a tag: a chain has no score of a
    path with holes, so -1 for "ignored" is refused.

    Shapes:
        emissions (B, T, C), tags (B, T), lengths (B,) to (B,)

    Raises:
        RequestError: for a tag outside 0..C-1, sizes that do not fit each other, and lengths
            outside 0..T.

    Example:
        >>> chain = Chain(torch.tensor([[0.0, 5.0], [0.0, 0.0]]), torch.zeros(2), torch.ones(2))
        >>> path_score(torch.zeros(1, 2, 2), chain, torch.tensor([[0, 1]]), torch.tensor([2]))
        tensor([6.])
    """
    emissions, chain, lengths = _checked("path_score", emissions, chain, lengths)
    if tags.shape != emissions.shape[:2]:
        raise RequestError(
            f"path_score expected tags {tuple(emissions.shape[:2])}, got {tuple(tags.shape)}"
        )
    steps, count = emissions.shape[1:]
    inside = _inside(lengths, steps)
    tags = torch.where(inside, tags.to(emissions.device), 0).long()
    if not torch.compiler.is_compiling() and tags.numel():
        low, high = (int(x) for x in tags.aminmax())
        if low < 0 or high >= count:
            raise RequestError(
                f"path_score expected tags 0 to {count - 1}, got {low if low < 0 else high}; a "
                "path with an unknown tag has no score: leave such a sentence out"
            )
    if not steps:
        return emissions.sum((1, 2))
    each = emissions.gather(2, tags[..., None])[..., 0]
    pairs = count * tags[:, :-1] + tags[:, 1:]  # a selection's gradient is faster than an index's
    moves = chain.transitions.reshape(-1).index_select(0, pairs.reshape(-1)).view(pairs.shape)
    last = tags.gather(1, (lengths - 1).clamp_min(0)[:, None])[:, 0]
    ends = chain.start.index_select(0, tags[:, 0]) + chain.end.index_select(0, last)
    return (
        each.masked_fill(~inside, 0.0).sum(1)
        + moves.masked_fill(~inside[:, 1:], 0.0).sum(1)
        + ends.masked_fill(lengths == 0, 0.0)
    )


def marginals(
    emissions: Float[Tensor, "batch time tag"], chain: Chain, lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch time tag"]:
    r"""The probability of each tag at each word, over all paths: :math:`p(y_t = c)`.

    Shapes:
        emissions (B, T, C), lengths (B,) to (B, T, C); each word sums to 1, padding is 0

    Raises:
        RequestError: for sizes that do not fit each other, and lengths outside 0..T.

    Example:
        >>> chain = Chain(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
        >>> marginals(torch.zeros(1, 2, 2), chain, torch.tensor([1])).tolist()
        [[[0.5, 0.5], [0.0, 0.0]]]
    """
    emissions, chain, lengths = _checked("marginals", emissions, chain, lengths)
    steps = emissions.shape[1]
    if not steps:
        return emissions.clone()
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in (emissions, *chain))
    if not differentiable and is_native(emissions, chain.transitions):
        # The gradient of the sum: its first derivatives are in C. What was made in inference mode
        # can be in no graph, a copy can.
        with torch.inference_mode(False), torch.enable_grad():
            own = _usable(emissions.detach()).requires_grad_()
            weights, sizes = Chain(*map(_usable, chain)), _usable(lengths)
            return torch.autograd.grad(log_partition(own, weights, sizes).sum(), own)[0]
    ahead = _forward(emissions, chain, lengths)[1:]
    back = [chain.end.expand_as(emissions[:, 0])]
    for t in range(steps - 1, 0, -1):  # where a sentence ends, `end` waits until its last word
        onward = (emissions[:, t] + back[-1])[:, None, :] + chain.transitions
        back.append(torch.where((t < lengths)[:, None], torch.logsumexp(onward, 2), back[-1]))
    both = torch.stack(ahead, 1) + torch.stack(back[::-1], 1)
    return torch.softmax(both, 2).masked_fill(~_inside(lengths, steps)[..., None], 0.0)


def _usable(x: Tensor) -> Tensor:
    return x.clone() if x.is_inference() else x


@torch.no_grad()
def viterbi(
    emissions: Float[Tensor, "batch time tag"], chain: Chain, lengths: Int[Tensor, " batch"]
) -> tuple[Int[Tensor, "batch time"], Float[Tensor, " batch"]]:
    r"""The best path, :math:`\arg\max_y s(y)`, and its score.

    Neither has a gradient; `path_score` of the tags has.

    Shapes:
        emissions (B, T, C), lengths (B,) to tags (B, T), 0 at padding, and scores (B,)

    Raises:
        RequestError: for sizes that do not fit each other, and lengths outside 0..T.

    Example:
        >>> chain = Chain(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
        >>> viterbi(torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]), chain, torch.tensor([2]))
        (tensor([[1, 0]]), tensor([3.]))
    """
    emissions, chain, lengths = _checked("viterbi", emissions, chain, lengths)
    batch, steps, count = emissions.shape
    if not batch * steps:
        return lengths.new_zeros(batch, steps), emissions.new_zeros(batch)
    if is_native(emissions, chain.transitions):
        return best_path(emissions, *chain, lengths)
    best, came = chain.start + emissions[:, 0], []
    for t in range(1, steps):
        over, where = (best[:, :, None] + chain.transitions).max(1)
        going = (t < lengths)[:, None]
        came.append(torch.where(going, where, torch.arange(count, device=where.device)))
        best = torch.where(going, over + emissions[:, t], best)
    score, tag = (best + chain.end).max(1)
    path = [tag]
    for where in reversed(came):
        path.append(where.gather(1, path[-1][:, None])[:, 0])
    tags = torch.stack(path[::-1], 1).masked_fill(~_inside(lengths, steps), 0)
    return tags, score.masked_fill(lengths == 0, 0.0)


@torch.no_grad()
def k_best(
    emissions: Float[Tensor, "batch time tag"], chain: Chain, lengths: Int[Tensor, " batch"], k: int
) -> tuple[Int[Tensor, "batch k time"], Float[Tensor, "batch k"]]:
    r"""The k best paths, best first, and their scores.

    A sentence with fewer paths than k has zeros and a score of minus infinity behind them. A
    forbidden path is a path too: its score is below half of `FORBIDDEN`. There is no gradient.

    Shapes:
        emissions (B, T, C), lengths (B,) to tags (B, k, T), 0 at padding, and scores (B, k)

    Raises:
        RequestError: for k below 1, sizes that do not fit each other, and lengths outside 0..T.

    Example:
        >>> chain = Chain(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
        >>> k_best(torch.tensor([[[0.0, 1.0], [3.0, 0.0]]]), chain, torch.tensor([2]), 2)
        (tensor([[[1, 0],
                 [0, 0]]]), tensor([[4., 3.]]))
    """
    if k < 1:
        raise RequestError(f"k_best expected k of 1 or more, got {k}")
    emissions, chain, lengths = _checked("k_best", emissions, chain, lengths)
    batch, steps, count = emissions.shape
    if not steps:
        scores = emissions.new_full((batch, k), -torch.inf)
        scores[:, 0] = 0.0
        return lengths.new_zeros(batch, k, 0), scores
    first = (chain.start + emissions[:, 0])[..., None]  # a state holds its k best, (B, C, k)
    best = torch.cat([first, first.new_full((batch, count, k - 1), -torch.inf)], 2)
    stay, came = torch.arange(count * k, device=best.device), []
    for t in range(1, steps):
        onward = best[..., None] + chain.transitions[:, None, :]  # (B, C, k, C)
        over, where = onward.flatten(1, 2).topk(k, 1)
        over, where = over.transpose(1, 2), where.transpose(1, 2)  # (B, C, k)
        going = (t < lengths)[:, None, None]
        came.append(torch.where(going, where, stay.view(count, k)).flatten(1))
        best = torch.where(going, over + emissions[:, t, :, None], best)
    scores, place = (best + chain.end[:, None]).flatten(1).topk(k, 1)
    path = [place // k]
    for where in reversed(came):
        place = where.gather(1, place)
        path.append(place // k)
    void = scores == -torch.inf
    outside = ~_inside(lengths, steps)[:, None, :]
    tags = torch.stack(path[::-1], 2).masked_fill(outside | void[..., None], 0)
    empty = torch.full_like(scores[0], -torch.inf)
    empty[0] = 0.0
    return tags, torch.where((lengths == 0)[:, None], empty, scores)


def constrained(
    chain: Chain,
    allowed: tuple[Bool[Tensor, "tag tag"], Bool[Tensor, " tag"], Bool[Tensor, " tag"]],
) -> Chain:
    """The chain with everything that is not allowed at `FORBIDDEN`.

    A forbidden score is finite. With minus infinity, a word without any allowed tag would have
    minus infinity minus minus infinity in its gradient, which is NaN. A path with a forbidden step
    is still never taken unless every allowed one scores 10,000 less.

    Args:
        allowed: transitions, first tags and last tags; True where allowed.

    Shapes:
        allowed (C, C), (C,), (C,)

    Raises:
        RequestError: for other sizes than the chain's.

    Example:
        >>> chain = Chain(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
        >>> may = torch.tensor([True, False])
        >>> constrained(chain, (torch.ones(2, 2, dtype=torch.bool), may, may)).start
        tensor([     0., -10000.])
    """
    for name, weights, may in zip(Chain._fields, chain, allowed, strict=True):
        if weights.shape != may.shape:
            raise RequestError(
                f"constrained expected the allowed {name} {tuple(weights.shape)}, got "
                f"{tuple(may.shape)}"
            )
    moves, first, last = (
        weights.masked_fill(~may.to(weights.device), FORBIDDEN)
        for weights, may in zip(chain, allowed, strict=True)
    )
    return Chain(moves, first, last)


def _inside(lengths: Tensor, steps: int) -> Tensor:
    """Which steps are words: (B, T)."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


def _forward(emissions: Tensor, chain: Chain, lengths: Tensor) -> list[Tensor]:
    """Log-sums over all beginnings (B, C): a placeholder, then behind each step."""
    found = [chain.start.expand(emissions.shape[0], -1)]
    for t in range(emissions.shape[1]):
        over = found[-1]
        if t:
            over = torch.logsumexp(over[:, :, None] + chain.transitions, 1)
        found.append(torch.where((t < lengths)[:, None], over + emissions[:, t], found[-1]))
    return found


def _log_partition(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """The log-sum over all paths, 0 without words, in PyTorch's own operators."""
    last = _forward(emissions, Chain(transitions, start, end), lengths)[-1]
    return torch.logsumexp(last + end, 1).masked_fill(lengths == 0, 0.0)


def _checked(
    name: str, emissions: Tensor, chain: Chain, lengths: Tensor
) -> tuple[Tensor, Chain, Tensor]:
    """All in one dtype of 32 bits or more, on one device.

    Raises:
        RequestError: for sizes that do not fit each other, and lengths outside 0..T.
    """
    batch, steps, count = emissions.shape
    sizes = [tuple(x.shape) for x in chain]
    if sizes != [(count, count), (count,), (count,)]:
        raise RequestError(
            f"{name} expected a chain of {count} tags, as the emissions {(batch, steps, count)} "
            f"have, got transitions {sizes[0]}, start {sizes[1]} and end {sizes[2]}"
        )
    if lengths.shape != (batch,):
        raise RequestError(
            f"{name} expected one length for each of {batch} sentences, got {tuple(lengths.shape)}"
        )
    if not torch.compiler.is_compiling() and batch:
        low, high = (int(x) for x in lengths.aminmax())
        if low < 0 or high > steps:
            raise RequestError(
                f"{name} expected lengths from 0 to {steps}, the number of steps, got "
                f"{low if low < 0 else high}"
            )
    dtype = torch.promote_types(emissions.dtype, chain.transitions.dtype)
    dtype = torch.promote_types(dtype, torch.float32)
    device = emissions.device
    own = Chain(*(x.to(device, dtype) for x in chain))
    return emissions.to(dtype), own, lengths.to(device, torch.int64)
