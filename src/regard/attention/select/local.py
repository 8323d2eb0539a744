"""Local attention: a softmax within a window around one position of the memory."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention._ops.softmax import masked_softmax
from regard.attention.mask import offsets
from regard.errors import RequestError

__all__ = ["LocalMonotonic", "LocalPredictive"]


@dataclass(frozen=True)
class LocalMonotonic:
    r"""A window at the query's own position (Luong et al. 2015, section 3.2, "local-m").

    .. math:: w_{ij} = \mathrm{softmax}_{j \in [p_i - D,\, p_i + D]}(e_{ij}), \quad
              p_i = at + stride \cdot i

    A decoder passes `at`, the position of the target word. As printed, nothing is looked at if it
    is more than D past the end of the source. In the authors' code the window stops at the last
    word: `clamp=True` is :math:`p_i = \min(at + stride \cdot i,\, S - 1)`.

    Args:
        reach: D, the size of the window on each side; 10 in the paper.
        stride: the shift of the window from query to query: 0 if they are the hypotheses of one
            step, which are all at position `at`.
        clamp: limit p to the last key. S is the number of keys of a row; with a mask, one more
            than the last allowed position (for `Lengths` the length).

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    reach: int
    stride: int = 1
    clamp: bool = False
    sums: ClassVar[str] = "over keys"

    def __post_init__(self) -> None:
        _check(self.reach, 0, "LocalMonotonic")

    @property
    def window(self) -> tuple[int, int]:
        """D keys on each side of the position."""
        return self.reach, self.reach

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Normalize within the window."""
        queries, keys = scores.shape[-2:]
        if self.clamp:
            place = torch.arange(keys, device=scores.device)
            center = self.centers(scores, at, _lengths(keys, mask, place))
            inside = (place - center[..., None]).abs() <= self.reach
            return masked_softmax(scores, inside if mask is None else inside & mask), None
        each = torch.arange(queries, device=scores.device)[:, None]
        offset = offsets(queries, keys, at, scores.device) + (1 - self.stride) * each
        inside = offset.abs() <= self.reach
        if inside.dim() > 2 and scores.dim() > inside.dim():  # `at` has no head axis
            inside = inside.unsqueeze(-3)
        return masked_softmax(scores, inside if mask is None else inside & mask), None

    def centers(
        self, query: Tensor, at: int | Tensor, lengths: int | Tensor
    ) -> Float[Tensor, "*#batch query"]:
        """The position of each query, as a number that broadcasts to (*batch, Q).

        Shapes:
            lengths: S, a number or a tensor that broadcasts to (*batch, Q)
        """
        center = torch.arange(query.shape[-2], device=query.device, dtype=torch.float32)
        center = center * self.stride
        if isinstance(at, Tensor):
            center = at[..., None] + center
            center = center.unsqueeze(-2) if query.dim() - 1 > center.dim() else center
        else:
            center = center + at
        if not self.clamp:
            return center
        last = torch.as_tensor(lengths, device=center.device) - 1
        return torch.minimum(center, last.to(center.dtype))


class LocalPredictive(nn.Module):
    r"""The query predicts the position (Luong et al. 2015, section 3.2, "local-p").

    .. math:: p_i &= S\, \sigma(v^\top \tanh(W q_i)), \qquad
              a_{ij} = \mathrm{softmax}_{j \in [\lfloor p_i \rfloor - D,\,
                       \lfloor p_i \rfloor + D]}(e_{ij}) \\
              w_{ij} &= a_{ij} \exp\Big(-\frac{(j - p_i)^2}{2 \sigma^2}\Big), \quad \sigma = D / 2

    The softmax comes before the Gaussian, and the weights are not normalized again, so they sum to
    less than 1; W and v get gradients only through the Gaussian. S is the number of keys of a row;
    with a mask, one more than the last allowed position (for `Lengths` the length).

    Args:
        hidden: size of W's output.
        reach: D, the size of the window on each side; 10 in the paper.

    Shapes:
        scores (*batch, Q, K), query (*batch, Q, query_dim) to weights (*batch, Q, K)
    """

    sums: ClassVar[str] = "at most 1"

    def __init__(self, query_dim: int, hidden: int, reach: int) -> None:
        super().__init__()
        _check(reach, 1, "LocalPredictive")
        self.reach = reach
        self.project = nn.Linear(query_dim, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    @property
    def window(self) -> tuple[int, int]:
        """D keys on each side of the position."""
        return self.reach, self.reach

    @property
    def sigma(self) -> float:
        """The Gaussian's standard deviation."""
        return self.reach / 2

    def centers(
        self, query: Float[Tensor, "*batch query dim"], lengths: int | Tensor
    ) -> Float[Tensor, "*batch query"]:
        """Predict p, a real number between 0 and S.

        Shapes:
            lengths: S, a number or a tensor that broadcasts to (*batch, Q)
        """
        logit: Tensor = self.v(torch.tanh(self.project(query)))[..., 0]
        # Not in half precision, which cannot represent large positions.
        wide = torch.promote_types(logit.dtype, torch.float32)
        return lengths * torch.sigmoid(logit.to(wide))

    def forward(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Predict p, normalize within the window, multiply by the Gaussian."""
        if query is None:
            raise RequestError("LocalPredictive expected the queries, got none; pass query=")
        keys = scores.shape[-1]
        place = torch.arange(keys, device=scores.device)
        center = self.centers(query, _lengths(keys, mask, place))[..., None]
        inside = (place - center.detach().floor()).abs() <= self.reach
        weights = masked_softmax(scores, inside if mask is None else inside & mask)
        gauss = torch.exp(-((place - center) ** 2) / (2 * self.sigma**2))
        return weights * gauss.to(weights.dtype), None

    def extra_repr(self) -> str:
        """Say the window."""
        return f"reach={self.reach}"


def _lengths(keys: int, mask: Tensor | None, place: Tensor) -> int | Tensor:
    """S: the number of keys, or one more than the last allowed position, (*batch, Q)."""
    if mask is None or not keys:
        return keys
    return torch.where(mask, place + 1, 0).amax(-1)


def _check(reach: int, least: int, name: str) -> None:
    if reach < least:
        raise RequestError(f"{name} expected a window of {least} or more on each side, got {reach}")
