"""Monotonic attention: one key per step, or a chunk that ends there."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention._ops.softmax import masked_softmax
from regard.attention.score.base import Score
from regard.attention.select.base import OverAllKeys
from regard.errors import RequestError

__all__ = ["Monotonic", "MonotonicChunkwise"]

Mode = Literal["expected", "hard"]


class Monotonic(OverAllKeys, nn.Module):
    r"""Online, linear-time attention that only moves forward (Raffel et al. 2017).

    .. math:: p_{ij} &= \sigma(e_{ij} + r + \epsilon), \quad
              \epsilon \sim \mathcal N(0, \sigma^2) \\
              \alpha_{ij} &= p_{ij} \sum_{k \le j} \alpha_{i-1,k} \prod_{l=k}^{j-1} (1 - p_{il})
              = p_{ij} \Big( (1 - p_{i,j-1}) \frac{\alpha_{i,j-1}}{p_{i,j-1}} + \alpha_{i-1,j}
              \Big) , \quad \alpha_0 = (1, 0, …, 0)

    A step starts where the previous one stopped, scans the keys and stops at each with probability
    p. In training the weights are the probabilities of stopping ("expected", the paper's eq. 8-11),
    with noise before the sigmoid, which drives p to 0 or 1. In evaluation a step stops at the first
    key with :math:`e_{ij} + r > 0` ("hard", algorithm 1). If a step stops nowhere, it and all later
    steps read zeros.

    The queries of one call are successive steps (a whole target, teacher forced). With
    `carry=Alignment()` they are the hypotheses of one step, and the state is their alignment.
    Masked keys are skipped.

    Args:
        offset: the initial value of the learned r; negative to scan far at first (paper: -1 to -4).
        noise: :math:`\sigma`, in `train()` mode; 0 for none.
        training, evaluation: "expected" or "hard", in `train()` and `eval()` mode.
        generator: the random generator; PyTorch's global one by default (`torch.manual_seed`).

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1 or less

    Raises:
        RequestError: for negative noise, or another mode.
    """

    sums: ClassVar[str] = "at most 1"
    aligns: ClassVar[bool] = True

    def __init__(
        self,
        offset: float = 0.0,
        *,
        noise: float = 1.0,
        training: Mode = "expected",
        evaluation: Mode = "hard",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not noise >= 0:
            raise RequestError(f"{name} expected noise of 0 or more, got {noise}")
        for when, mode in (("training", training), ("evaluation", evaluation)):
            if mode not in ("expected", "hard"):
                raise RequestError(f'{name} expected {when}="expected" or "hard", got {mode!r}')
        self.offset = nn.Parameter(torch.tensor([float(offset)]))  # r; FSDP2 shards no scalar
        self.chunk: Score | None = None
        self.noise, self.generator = noise, generator
        self.modes: tuple[Mode, Mode] = (training, evaluation)

    def forward(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
        energies: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Align the queries in order, starting at the first key."""
        previous = first_key(scores[..., :1, :])
        hidden = None if mask is None else mask.expand(scores.shape)
        rows = []
        for i in range(scores.shape[-2]):
            row = slice(i, i + 1)
            weights, previous = self.align(
                scores[..., row, :],
                previous,
                None if hidden is None else hidden[..., row, :],
                None if energies is None else energies[..., row, :],
            )
            rows.append(weights)
        return (torch.cat(rows, -2) if rows else scores), None

    def align(
        self,
        scores: Float[Tensor, "*batch query key"],
        previous: Float[Tensor, "*batch query key"],
        mask: Bool[Tensor, "..."] | None = None,
        energies: Float[Tensor, "*batch query key"] | None = None,
    ) -> tuple[Float[Tensor, "*batch query key"], Float[Tensor, "*batch query key"]]:
        """One step from the previous alignment: the weights, and the new alignment.

        Args:
            energies: of the chunk (`MonotonicChunkwise`); the scores by default.
        """
        energy = scores + self.offset.to(scores.dtype)
        if self.training and self.noise:
            drawn = torch.empty_like(energy).normal_(generator=self.generator)
            energy = energy + self.noise * drawn
        hard = self.modes[0 if self.training else 1] == "hard"
        alignment = (first_stop if hard else chance_to_stop)(energy, previous, mask)
        return self.spread(alignment, scores if energies is None else energies, mask), alignment

    def spread(
        self, alignment: Tensor, energies: Tensor, mask: Bool[Tensor, "..."] | None
    ) -> Tensor:
        """The weights of an alignment: the alignment itself."""
        return alignment

    def extra_repr(self) -> str:
        """Say the noise and the modes."""
        training, evaluation = self.modes
        return f"noise={self.noise}, training={training!r}, evaluation={evaluation!r}"


class MonotonicChunkwise(Monotonic):
    r"""MoChA (Chiu and Raffel 2018): a softmax over the chunk that ends where a step stops.

    .. math:: \beta_{ij} = \sum_{k=j}^{j+w-1} \alpha_{ik}\,
              \frac{\exp(u_{ij})}{\sum_{l=k-w+1}^{k} \exp(u_{il})}

    with :math:`\alpha` of `Monotonic`. If a step stops at one key with probability 1, this is the
    softmax of u over the w keys up to it. Softmaxes are computed per chunk, so nothing overflows.

    Args:
        width: w, the keys per chunk; 1 is `Monotonic`. 2 to 8 in the paper.
        chunk: the score for u, with its own parameters, as in the paper; None: u = e.
        offset, noise, training, evaluation, generator: as in `Monotonic`.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1 or less

    Raises:
        RequestError: for a width below 1.
    """

    def __init__(
        self,
        width: int,
        chunk: Score | None = None,
        *,
        offset: float = 0.0,
        noise: float = 1.0,
        training: Mode = "expected",
        evaluation: Mode = "hard",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            offset, noise=noise, training=training, evaluation=evaluation, generator=generator
        )
        if width < 1:
            raise RequestError(f"MonotonicChunkwise expected chunks of 1 key or more, got {width}")
        self.width, self.chunk = width, chunk

    def spread(
        self, alignment: Tensor, energies: Tensor, mask: Bool[Tensor, "..."] | None
    ) -> Tensor:
        """Distribute the probability of each key over the chunk that ends there."""
        width, keys = self.width, alignment.shape[-1]
        if not keys:
            return alignment
        allowed = energies.detach() > -torch.inf
        if mask is not None:
            allowed = allowed & mask
        inside = F.pad(allowed, (width - 1, 0)).unfold(-1, width, 1)  # (*batch, Q, K, w)
        chunks = F.pad(energies, (width - 1, 0)).unfold(-1, width, 1)
        shares = masked_softmax(chunks, inside) * alignment[..., None]
        # Member m of the chunk that ends at k is key k - (w - 1) + m.
        spread = torch.zeros_like(alignment)
        for m in range(width):
            ahead = min(width - 1 - m, keys)
            spread = spread + F.pad(shares[..., ahead:, m], (0, ahead))
        return spread

    def extra_repr(self) -> str:
        """Say the width too."""
        return f"width={self.width}, {super().extra_repr()}"


def first_key(like: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """The alignment before the first step: all of it on the first key."""
    start = torch.zeros_like(like)
    start[..., :1] = 1.0
    return start


def chance_to_stop(
    energy: Float[Tensor, "*batch query key"],
    previous: Float[Tensor, "*batch query key"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query key"]:
    r"""The expected alignment of one step: :math:`\alpha_j = p_j q_j`.

    .. math:: q_j = (1 - p_{j-1})\, q_{j-1} + \alpha'_j \qquad
              \Big( = \prod_{l<j} (1 - p_l) \sum_{k \le j}
              \frac{\alpha'_k}{\prod_{l<k} (1 - p_l)} \Big)

    The closed form on the right, the paper's eq. 11, divides by products that underflow. Therefore
    the recurrence is computed by doubling, in log K passes over all keys; it only multiplies and
    adds numbers between 0 and 1, which is numerically stable.
    """
    keys = energy.shape[-1]
    wide = torch.promote_types(energy.dtype, torch.float32)
    stop, go_on = torch.sigmoid(energy.to(wide)), torch.sigmoid(-energy.to(wide))
    if mask is not None:  # p = 0: skipped
        stop, go_on = stop.masked_fill(~mask, 0.0), go_on.masked_fill(~mask, 1.0)
    reached, factor, step = previous.to(wide), behind(go_on, 1), 1
    while step < keys:
        reached = reached + factor * behind(reached, step)
        factor, step = factor * behind(factor, step), 2 * step
    return (stop * reached).to(energy.dtype)


def behind(x: Float[Tensor, "*batch key"], step: int) -> Float[Tensor, "*batch key"]:
    """The value `step` keys before each key, 0 for the first keys."""
    return F.pad(x[..., :-step], (step, 0)) if step < x.shape[-1] else torch.zeros_like(x)


def first_stop(
    energy: Float[Tensor, "*batch query key"],
    previous: Float[Tensor, "*batch query key"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """The first key at or after the last stop with a positive energy: one-hot, or zeros."""
    stops = (energy.detach() > 0) & (previous.detach().cumsum(-1) > 0.5)
    if mask is not None:
        stops = stops & mask
    first = stops & (stops.cumsum(-1) == 1)
    return first.to(energy.dtype)
