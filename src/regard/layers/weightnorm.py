"""Linear and convolutional layers with weight normalization."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["NormedConv", "NormedLinear"]


class NormedLinear(nn.Module):
    r"""A linear layer with weight normalization (Salimans and Kingma 2016, eq. 2).

    .. math:: y = W x + b, \qquad W_i = g_i\, v_i / \lVert v_i \rVert

    Initially :math:`W = v` is drawn from :math:`N(0, \sqrt{gain \cdot p / n})` for n inputs, as
    in Gehring et al. (2017, section 3.5).

    Args:
        gain: 1; 4 before a gated linear unit, which halves the standard deviation.
        retain: p, the probability that dropout before this layer keeps an input.

    Shapes:
        x (*batch, inputs) to (*batch, outputs)
    """

    def __init__(
        self, inputs: int, outputs: int, *, gain: float = 1.0, retain: float = 1.0
    ) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.randn(outputs, inputs) * math.sqrt(gain * retain / inputs))
        self.g = nn.Parameter(self.v.detach().norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def weight(self) -> Float[Tensor, "outputs inputs"]:
        """W; a decoder computes it once, not at every step."""
        return torch._weight_norm(self.v, self.g, 0)

    def forward(
        self, x: Float[Tensor, "*batch inputs"], weight: Tensor | None = None
    ) -> Float[Tensor, "*batch outputs"]:
        """The product, with `weight()` if it was computed already."""
        return F.linear(x, self.weight() if weight is None else weight, self.bias)

    def extra_repr(self) -> str:
        """Say the sizes."""
        return f"{self.v.shape[1]}, {self.v.shape[0]}"


class NormedConv(NormedLinear):
    r"""A convolution over time that doubles its channels, for a gated linear unit.

    .. math:: y_t = W [x_{t-l}; \dots; x_{t-l+k-1}] + b

    Args:
        inputs, outputs: channels.
        kernel: k.
        before: l, the number of the k positions before t: k - 1 is causal, (k - 1) / 2 is centered.
            Positions outside the text are zeros.

    Shapes:
        x (*batch, T, inputs) to (*batch, T, outputs)
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, before: int, retain: float = 1.0
    ) -> None:
        super().__init__(kernel * inputs, outputs, gain=4.0, retain=retain)
        self.kernel, self.before = kernel, before

    def forward(
        self, x: Float[Tensor, "*batch time inputs"], weight: Tensor | None = None
    ) -> Float[Tensor, "*batch time outputs"]:
        """All positions at once."""
        length = x.shape[-2]
        x = F.pad(x, (0, 0, self.before, self.kernel - 1 - self.before))
        windows = [x[..., i : i + length, :] for i in range(self.kernel)]
        return super().forward(torch.cat(windows, -1), weight)

    def extra_repr(self) -> str:
        """Say the sizes, the kernel and where it stands."""
        return f"{super().extra_repr()}, kernel={self.kernel}, before={self.before}"
