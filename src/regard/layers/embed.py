"""Embeddings, with ids whose vector is fixed to zero."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.contextual import StateMix
from regard.layers.dropout import dropout as drop
from regard.native.operation import is_recorded

__all__ = ["Embed"]

PADDING = 0  # protocols.PAD, which is a floor above


class Embed(nn.Module):
    r"""A vector for each id, and what is known of it in its context.

    .. math:: e(i) = s\, E_i, \quad e(i) = 0 \text{ for } i \in zeros

    With the states h of an encoder (`take_states`) it is :math:`e(i) + W m(h)`, see `StateMix`: a
    linear layer on both, joined.

    Args:
        vocabulary: number of ids.
        dim: size of a vector.
        zeros: ids whose vector is zero and gets no gradient: padding, and in Cho et al. (2014) also
            the start symbol, :math:`e(y_0) = 0`.
        scale: s; the Transformer's is the root of `dim`.
        dropout: of the elements of vectors, in training.
        contextual: the model that it belongs to gives states beside ids, where there are some.
        apart: the size of W m(h) where it is not added, and the model asks `in_context` for it; 0:
            it is added.

    Shapes:
        ids (*batch), states (*batch, layers, size) to (*batch, dim)

    Example:
        >>> Embed(10, 4)(torch.tensor([[0, 3]]))[0, 0].tolist()
        [0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        *,
        zeros: tuple[int, ...] = (PADDING,),
        scale: float = 1.0,
        dropout: float = 0.0,
        contextual: bool = False,
        apart: int = 0,
    ) -> None:
        super().__init__()
        self.contextual, self.apart = contextual, apart
        self.states: StateMix | None = None
        self.zeros, self.scale, self.dropout = zeros, scale, dropout
        self.weight = nn.Parameter(torch.empty(vocabulary, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)
        self.silence()

    @torch.no_grad()
    def silence(self) -> None:
        """Set the vectors of `zeros` to zero, after a custom initialization."""
        for i in self.zeros:
            self.weight[i].zero_()

    @torch.no_grad()
    def take_states(self, layers: int, size: int, words: bool = True) -> None:
        """From here on read the states of an encoder, too.

        Args:
            layers, size: of the states.
            words: whether words keep vectors of their own; else these are 0 and stay so.
        """
        self.states = StateMix(layers, size, self.apart or self.weight.shape[1]).to(self.weight)
        if not words:
            self.weight.zero_().requires_grad_(False)

    def forward(
        self,
        ids: Int[Tensor, "*batch"],
        states: Float[Tensor, "*batch layers size"] | None = None,
    ) -> Float[Tensor, "*batch dim"]:
        """Look up.

        Raises:
            RequestError: there are no states where they are read, or of other layers and sizes.
        """
        first = self.zeros[0] if self.zeros else None
        x = F.embedding(ids, self.weight, padding_idx=first)  # no gradient reaches row `first`
        for i in self.zeros[1:]:
            x = x * (ids != i).unsqueeze(-1)
        x = x if self.scale == 1.0 else x * self.scale
        if self.states is not None and not self.apart:
            x = x + self.in_context(states)
        return drop(x, self.dropout, self.training)

    def in_context(
        self, states: Float[Tensor, "*batch layers size"] | None
    ) -> Float[Tensor, "*batch dim"]:
        """W m(h), after `take_states`.

        Raises:
            RequestError: see `forward`.
        """
        assert self.states is not None
        wanted = self.states.layers, self.states.size
        if states is None or tuple(states.shape[-2:]) != wanted:
            got = "none" if states is None else f"shape {tuple(states.shape)}"
            raise RequestError(
                f"this model reads the states of an encoder, {wanted[0]} layers of {wanted[1]} "
                f"numbers for each word in extras['states'], and got {got}"
            )
        found: Tensor = self.states(states)
        return found

    def through(
        self,
        ids: Int[Tensor, "*batch"],
        change: Callable[[Tensor], Tensor],
        vectors: Float[Tensor, "*batch dim"] | None = None,
    ) -> Float[Tensor, "*batch changed"]:
        """The same as `change(self(ids))` for a `change` that maps each vector separately.

        If there are fewer ids than words (letters, phonemes) and no dropout, each id is mapped once
        and the results are looked up.

        Args:
            ids: the ids to look up.
            change: for example a linear layer.
            vectors: `self(ids)`, if it was computed already.
        """
        vocabulary = self.weight.shape[0]
        if is_recorded() or ids.numel() <= vocabulary or (self.training and self.dropout):
            return change(self(ids) if vectors is None else vectors)
        every = torch.arange(vocabulary, device=ids.device)
        return F.embedding(ids, change(self(every)))

    def extra_repr(self) -> str:
        """Say the sizes."""
        vocabulary, dim = self.weight.shape
        scale = "" if self.scale == 1.0 else f", scale={self.scale:g}"
        dropout = "" if self.dropout == 0.0 else f", dropout={self.dropout:g}"
        return f"{vocabulary}, {dim}, zeros={self.zeros}{scale}{dropout}"
