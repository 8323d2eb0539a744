"""Vectors of words in their context, of an encoder that is not trained along."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["StateMix"]


class StateMix(nn.Module):
    r"""States of some layers, mixed with learned weights and brought to the size of word vectors.

    .. math:: m = \gamma \sum_l \mathrm{softmax}(w)_l\, h_l, \qquad y = W m

    The mixture is that of ELMo (Peters et al. 2018, arXiv 1802.05365, equation 1). W keeps lengths
    and angles at first, as far as its sizes allow.

    Args:
        layers: how many layers' states there are.
        size: of a state.
        dim: of y.

    Shapes:
        states (*batch, layers, size) to (*batch, dim)
    """

    def __init__(self, layers: int, size: int, dim: int) -> None:
        super().__init__()
        self.layers, self.size = layers, size
        self.mix = nn.Parameter(torch.zeros(layers)) if layers > 1 else None  # w
        self.scale = nn.Parameter(torch.ones(()))  # gamma
        self.project = nn.Linear(size, dim, bias=False)  # W
        nn.init.orthogonal_(self.project.weight)

    def forward(self, states: Float[Tensor, "*batch layers size"]) -> Float[Tensor, "*batch dim"]:
        """Mix, then project."""
        states = states.to(self.project.weight.dtype)
        if self.mix is None:
            mixed = states[..., 0, :]
        else:
            mixed = torch.einsum("...ls,l->...s", states, self.mix.softmax(0))
        found: Tensor = self.project(self.scale * mixed)
        return found
