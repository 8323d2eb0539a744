"""The perceptron score."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention._ops.additive import additive_scores
from regard.attention._ops.cpu import additive as native
from regard.attention.score.base import AdditiveForm
from regard.errors import RequestError
from regard.native.transforms import followed

__all__ = ["Additive"]


class Additive(nn.Module):
    r"""The perceptron score (Bahdanau et al. 2015, A.1.2; Luong's "concat").

    .. math:: e_{ij} = v^\top \tanh(W q_i + U k_j \; [+\, F f_{ij} + b])

    :math:`U k_j` is computed once per memory. Luong's :math:`W_a[h; \bar h]` is the same function
    with :math:`W_a = [W\, U]`.

    Args:
        hidden: size of the perceptron.
        bias: b inside the tanh; the released code of the paper has none.
        features: size of f, the features of a carry (coverage, previous weights); 0 for none.
        heads: the number of heads with their own W, U, b and v (the last batch axis, as in
            `MultiHead`); 1: all heads share them. F is always shared.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim) to (*batch, Q, K)
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        hidden: int,
        *,
        bias: bool = False,
        features: int = 0,
        heads: int = 1,
    ) -> None:
        super().__init__()
        self.query: nn.Module = _linear(query_dim, hidden, False, heads)
        self.key: nn.Module = _linear(key_dim, hidden, bias, heads)
        self.features = nn.Linear(features, hidden, bias=False) if features else None
        self.v = nn.Parameter(torch.empty(hidden) if heads == 1 else torch.empty(heads, hidden))
        self.heads = heads
        nn.init.uniform_(self.v, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    @property
    def feature_dim(self) -> int:
        """The number of features of a carry that it reads."""
        return 0 if self.features is None else self.features.in_features

    def prepare(self, key: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Project the keys: (*batch, K, hidden), and prepare them for C if it is available.

        On a CPU low precision is converted to float32 here, once, and not at each step. Keys that
        features are added to have an empty tensor beside them: C gathers their gradients there.
        """
        projected: Tensor = self.key(key)
        if projected.device.type != "cpu" or torch.compiler.is_compiling():
            return projected
        if projected.dtype in (torch.bfloat16, torch.float16):
            projected = projected.float()
        if followed(projected) is not None:
            return projected
        if self.features is not None:
            return projected, projected.new_empty(*projected.shape[:-1], 0)
        if projected.numel() == 0 or native.unsupported_reason(projected) is not None:
            return projected
        return projected, native.pack(projected)

    def parts(self, prepared: Any) -> tuple[Tensor, Tensor | None]:
        """The projected keys, and what C packed of them; with features nothing is packed."""
        keys, packed = prepared if isinstance(prepared, tuple) else (prepared, None)
        return keys, packed if self.features is None else None

    def additive(
        self,
        query: Tensor,
        key: Tensor,
        prepared: Any = None,
        features: Tensor | None = None,
    ) -> AdditiveForm:
        """Both projections and v; features are added to the keys, so then Q is 1."""
        keys, packed = (self.key(key), None) if prepared is None else self.parts(prepared)
        if features is not None:
            keys = keys + self.shown(features).squeeze(-3)
        query = self.query(query)
        self.check_fits(query, keys)
        return AdditiveForm(query, keys, self.v, packed, self.heads)

    def stream(self, query: Tensor, key: Any, *, features: Tensor | None = None) -> Tensor:
        """The same by blocks: (*batch, Q, K, hidden) is never stored, also not for backward.

        With features, which are one vector per pair, each query is a row with its own keys.
        """
        keys, packed = self.parts(key)
        query = self.query(query)
        self.check_fits(query, keys)
        if features is None:
            return additive_scores(query, keys, self.v, packed=packed, heads=self.heads)
        keys = keys.unsqueeze(-3) + self.shown(features)  # (*batch, Q, K, hidden)
        query = query.unsqueeze(-2)  # (*batch, Q, 1, hidden)
        if self.heads == 1:
            return additive_scores(query, keys, self.v).squeeze(-2)
        # Heads are the last of the batch, so that queries go to the front.
        query, keys = query.movedim(-3, 0), keys.movedim(-3, 0)
        scores = additive_scores(query, keys, self.v, heads=self.heads)
        return scores.squeeze(-2).movedim(0, -2)

    def check_fits(self, query: Tensor, keys: Tensor) -> None:
        """Refuse prepared keys of another size, where C would read out of bounds."""
        if query.shape[-1] != keys.shape[-1]:
            raise RequestError(
                f"Additive with hidden={query.shape[-1]} expected keys that it prepared itself, "
                f"got keys of size {keys.shape[-1]}; call remember of the same layer"
            )

    def shown(self, features: Tensor) -> Tensor:
        """The features inside the tanh: (*batch, Q, K, feature) to (*batch, Q, K, hidden)."""
        if self.features is None:
            raise RequestError(
                "this Additive score was built without features but its carry gives some; "
                f"build it with Additive(..., features={features.shape[-1]})"
            )
        # A carry counts in float32 at least, whatever the weights are (quantized: no dtype).
        weight = self.features.weight
        if isinstance(weight, Tensor):
            features = features.to(weight.dtype)
        added: Tensor = self.features(features)
        return added

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Any,
        *,
        at: int | Tensor = 0,
        features: Float[Tensor, "*#batch q k feature"] | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """The equation as written; `key` is the result of `prepare`."""
        keys = key[0] if isinstance(key, tuple) else key
        hidden = self.query(query).unsqueeze(-2) + keys.unsqueeze(-3)  # (*batch, Q, K, hidden)
        if features is not None:
            hidden = hidden + self.shown(features)
        v = self.v if self.heads == 1 else self.v[:, None, :, None]
        scores = torch.tanh(hidden) @ v.to(hidden.dtype)
        return scores if self.heads == 1 else scores.squeeze(-1)

    def extra_repr(self) -> str:
        """Say the number of heads where there are several."""
        return f"heads={self.heads}" if self.heads > 1 else ""


class _HeadLinear(nn.Module):
    """A linear layer for each head: (*batch, head, N, in) to (*batch, head, N, out)."""

    def __init__(self, size: int, out: int, bias: bool, heads: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(size)  # as nn.Linear's
        self.weight = nn.Parameter(torch.empty(heads, out, size).uniform_(-bound, bound))
        self.bias = (
            nn.Parameter(torch.empty(heads, 1, out).uniform_(-bound, bound)) if bias else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out = x @ self.weight.mT
        return out if self.bias is None else out + self.bias


def _linear(size: int, out: int, bias: bool, heads: int) -> nn.Module:
    if heads == 1:
        return nn.Linear(size, out, bias=bias)
    return _HeadLinear(size, out, bias, heads)
