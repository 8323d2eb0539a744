"""Attention as modules, which own the parameters of the parts and nothing else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention._combinations import check, check_heads
from regard.attention._diagnosis import RAW, refuse_keys, refuse_projection
from regard.attention._part_kinds import check_kinds
from regard.attention._turning import appended, entering, unturned
from regard.attention.call import Attended
from regard.attention.carry import Carry, CarryState
from regard.attention.declaring import Declaring
from regard.attention.mask import Mask, as_mask
from regard.attention.memory import Memory, memory_mask
from regard.attention.op import attend
from regard.attention.plain import is_itself
from regard.attention.position import Position
from regard.attention.ragged import (
    Ragged,
    attend_ragged,
    check_ragged,
    padded_batch,
    ragged_is_faster,
)
from regard.attention.read import Read, WeightedSum
from regard.attention.score import ScaledDot, Score
from regard.attention.select import Select, Softmax
from regard.attention.single_step import fast_step
from regard.errors import RequestError
from regard.native.gemm import linear

__all__ = ["Attention", "MultiHead"]


class Attention(Declaring):
    """The operation with its parts chosen.

    Args:
        score, position, mask, select, read, carry: the six parts. `mask` applies to every call
            (`Causal()`); pass masks that differ between calls in the call.
        role: what looks at what, a key of `ROLES`, for those who watch.
        batch_axes: names of the axes before the queries, for those who watch; see `roles`.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim), value (*batch, K, value_dim) to
        context (*batch, Q, value_dim)

    Raises:
        RequestError: for parts that cannot be combined.

    Example:
        >>> from regard.attention import Additive, Lengths
        >>> layer = Attention(score=Additive(8, 16, hidden=4))
        >>> memory = layer.remember(torch.randn(2, 7, 16), mask=Lengths(torch.tensor([7, 5])))
        >>> layer(torch.randn(2, 3, 8), memory).context.shape
        torch.Size([2, 3, 16])
    """

    def __init__(
        self,
        score: Score | None = None,
        *,
        position: Position | None = None,
        mask: Mask | None = None,
        select: Select | None = None,
        read: Read | None = None,
        carry: Carry | None = None,
        role: str = "",
        batch_axes: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.declare(role, batch_axes)
        mask = as_mask(mask) if isinstance(mask, Tensor) else mask
        parts = {"score": score, "position": position, "mask": mask}
        check_kinds(type(self).__name__, **parts, select=select, read=read, carry=carry)
        self.score = ScaledDot() if score is None else score
        self.position = position
        self.mask = mask
        self.select = Softmax() if select is None else select
        self.read = WeightedSum() if read is None else read
        self.carry = carry
        self.expected_mask: Mask | None = None
        """The mask that callers will pass; used only by `explain`."""
        check(self.score, self.select, self.read, position, carry)

    @property
    def parts(self) -> dict[str, Any]:
        """The parts as `attend` takes them, without the mask."""
        return {
            "score": self.score,
            "position": self.position,
            "select": self.select,
            "read": self.read,
            "carry": self.carry,
        }

    def remember(
        self, key: Tensor, value: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Memory:
        """Compute once what depends only on the keys.

        Args:
            mask: a Mask, a bool tensor (*batch, K) or (*batch, Q, K), or integer lengths (*batch).

        Shapes:
            key (*batch, K, key_dim), value (*batch, K, value_dim) or None for the keys themselves
        """
        own = memory_mask(mask, key)
        value = key if value is None else value
        try:
            key, prepared, turned = entering(self.score, self.position, key)
            return Memory(key, value, own, prepared, turned=turned)
        except RAW:
            refuse_keys(self.score, key)
            raise

    def extend(self, memory: Memory, key: Tensor, value: Tensor | None = None) -> Memory:
        """A new Memory with keys appended; see `Memory.append`."""
        value = key if value is None else value
        return appended(self.score, self.position, memory, key, value)

    def forward(
        self,
        query: Float[Tensor, "*batch q query_dim"],
        key: Tensor | Memory,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        state: CarryState | None = None,
        at: int | Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend: `layer(query, memory)` or `layer(query, key, value)`; see `attend`."""
        given = value is not None or mask is not None or state is not None
        if type(key) is Memory and not (given or need_weights):
            step = fast_step(self, query, key)
            if step is not None:
                return step
        return attend(
            query,
            key,
            value,
            mask=_joined(self.mask, mask),
            state=state,
            at=at,
            need_weights=need_weights,
            name=self,
            **self.parts,
        )

    def scores(self, query: Tensor, key: Tensor | Memory) -> Tensor:
        """The scores before position, mask and select: (*batch, Q, K)."""
        prepared = unturned(key) if isinstance(key, Memory) else self.score.prepare(key)
        return self.score(query, prepared)

    def extra_repr(self) -> str:
        """Say the parts that are not modules."""
        plain = {
            "position": self.position,
            "mask": self.mask,
            "select": self.select,
            "read": self.read,
            "carry": self.carry,
        }
        return ", ".join(
            f"{name}={part}"
            for name, part in plain.items()
            if part is not None and not isinstance(part, nn.Module)
        )


class MultiHead(Declaring):
    r"""Several attentions in parallel, each with its own projections (Vaswani et al. 2017, 3.2.2).

    .. math:: \mathrm{MultiHead}(Q, K, V) = [head_1; \dots; head_H]\, W^O, \quad
              head_h = \mathrm{Attention}(Q W^Q_h,\, K W^K_h,\, V W^V_h)

    Args:
        dim: size of queries and of the output.
        heads: H.
        attention: the attention of each head; scaled dot product by default. Its parts receive
            projected queries and keys of the head size and share their parameters over heads.
        key_dim, value_dim: sizes of keys and values, `dim` by default.
        head_dim: d_k of one head, `dim / heads` by default.
        value_head_dim: d_v of one head, d_k by default.
        bias: whether the four projections have biases; the paper's have none.
        role, batch_axes: as in `Attention`, whose own hold where they are not given.

    Shapes:
        query (*batch, Q, dim), key (*batch, K, key_dim), value (*batch, K, value_dim) to
        context (*batch, Q, dim); weights (*batch, head, Q, K). Or `Ragged` sequences: query
        (N, dim), key (M, key_dim), value (M, value_dim) to context (N, dim)
    """

    head_axis: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        heads: int,
        attention: Attention | None = None,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        bias: bool = False,
        role: str = "",
        batch_axes: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if head_dim is None and dim % heads:
            raise RequestError(
                f"MultiHead expected dim to be a multiple of heads, got dim={dim}, heads={heads}; "
                "or give head_dim"
            )
        self.heads = heads
        head_dim = dim // heads if head_dim is None else head_dim
        value_head_dim = head_dim if value_head_dim is None else value_head_dim
        key_dim = dim if key_dim is None else key_dim
        given: object = attention
        if not isinstance(given, Attention | None):
            made = given.__name__ if isinstance(given, type) else type(given).__name__
            raise RequestError(
                f"MultiHead expected an Attention for its heads, got {made}; put parts into one: "
                "MultiHead(dim, heads, Attention(score=...))"
            )
        self.attention = Attention(role=role) if attention is None else attention
        if batch_axes is None and not role:
            batch_axes = self.attention.batch_axes
        self.declare(role or self.attention.role, batch_axes)
        check_heads(heads, self.attention.score, self.attention.position, self.attention.read)
        self.query = nn.Linear(dim, heads * head_dim, bias=bias)
        self.key = nn.Linear(key_dim, heads * head_dim, bias=bias)
        self.value = nn.Linear(
            key_dim if value_dim is None else value_dim, heads * value_head_dim, bias=bias
        )
        self.out = nn.Linear(heads * value_head_dim, dim, bias=bias)
        for projection in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(projection.weight)
            if bias:
                nn.init.zeros_(projection.bias)

    def remember(
        self, key: Tensor, value: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Memory:
        """Project keys and values once and split them into heads; see `Attention.remember`."""
        own = memory_mask(mask, key)
        keys, values = self._key_value(key, value)
        own = None if own is None else own.over_heads(key.dim() - 2)
        keys, prepared, turned = entering(self.attention.score, self.attention.position, keys)
        return Memory(keys, values, own, prepared, heads=True, turned=turned)

    def extend(self, memory: Memory, x: Tensor, value: Tensor | None = None) -> Memory:
        """A new Memory with `x` projected and appended: the KV cache of a decoder."""
        keys, values = self._key_value(x, value)
        own = self.attention
        return appended(own.score, own.position, memory, keys, values)

    def forward(
        self,
        query: Float[Tensor, "*batch q dim"] | Ragged,
        key: Tensor | Memory | Ragged,
        value: Tensor | Ragged | None = None,
        *,
        mask: Mask | Tensor | None = None,
        state: CarryState | None = None,
        at: int | Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend with every head: `layer(query, memory)` or `layer(query, key, value)`.

        If all three are `Ragged` sequences, this is `attend_ragged`, and of the other arguments
        only a mask is supported.
        """
        if isinstance(query, Ragged) or isinstance(key, Ragged) or isinstance(value, Ragged):
            read: Any = key if value is None else value
            if isinstance(query, Ragged) and isinstance(key, Ragged) and isinstance(read, Ragged):
                more = {"state": state, "at": at, "need_weights": need_weights or None}
                return self._ragged(query, key, read, mask, more)
            raise RequestError(
                "MultiHead expected keys and values as ragged as the queries are, got "
                f"{type(query).__name__}, {type(key).__name__} and {type(read).__name__}; for a "
                "batch with padding give ragged.padded()"
            )
        memory = key if isinstance(key, Memory) else self.remember(key, value)
        inner = self.attention
        given: dict[str, Any] = {"state": state, "need_weights": need_weights}
        given["at"] = at[..., None] if isinstance(at, Tensor) else at  # the same for each head
        heads = self._heads(self.query, query)
        if is_itself(inner):
            mask = _joined(inner.mask, mask)
            mask = None if mask is None else mask.over_heads(query.dim() - 2)
            attended = attend(heads, memory, mask=mask, name=self, **given, **inner.parts)
        else:
            mask = None if mask is None else as_mask(mask).over_heads(query.dim() - 2)
            self._check_own_mask(query.dim() - 2)
            attended = inner(heads, memory, mask=mask, **given)
        joined = attended.context.transpose(-3, -2).flatten(-2)  # (*batch, Q, H * D)
        context = linear(self.out, joined)
        after = attended.state
        if after is not None:
            after = replace(after, heads=True)
        return Attended(context, attended.weights, attended.log_prob, after)

    def scores(self, query: Tensor, key: Tensor | Memory) -> Tensor:
        """The scores of each head: (*batch, head, Q, K)."""
        memory = key if isinstance(key, Memory) else self.remember(key)
        return self.attention.scores(self._heads(self.query, query), memory)

    def ragged_is_faster(self, longest: int) -> bool:
        """Whether `Ragged` sequences of at most `longest` positions are one fast C call.

        Otherwise (on a GPU, in a compiled graph, with other parts) a padded batch is faster.
        """
        weight = self.query.weight
        return (
            not torch.compiler.is_compiling()
            and is_itself(self.attention)
            and isinstance(weight, Tensor)  # of a quantized layer it is a method
            and weight.is_cpu
            and weight.dtype == torch.float32
            and ragged_is_faster({**self.attention.parts, "mask": self.attention.mask}, longest)
        )

    def _ragged(
        self, query: Ragged, key: Ragged, value: Ragged, mask: Any, given: dict[str, Any]
    ) -> Attended:
        """The same for sequences without padding."""
        if not is_itself(self.attention):
            check_ragged({"carry": self.attention.carry, **given})
            given = {name: one for name, one in given.items() if one is not None}
            x, more = padded_batch(query, key, value, {"mask": mask, **given})
            context = self(*x, **more).context
            return Attended(Ragged.from_padded(context, query.offsets.diff()).tensor)

        def heads(layer: nn.Module, x: Ragged) -> Ragged:
            projected = linear(layer, x.tensor)
            size = projected.shape[-1] // self.heads
            return x.with_tensor(projected.unflatten(-1, (self.heads, size)))  # (N, H, D)

        always = self.attention.mask
        parts = {**self.attention.parts, "mask": _joined(always, mask), "name": self, **given}
        context = attend_ragged(
            heads(self.query, query),
            heads(self.key, key),
            heads(self.value, value),
            **{name: part for name, part in parts.items() if part is not None},
        )
        return Attended(linear(self.out, context.tensor.flatten(-2)))

    def _check_own_mask(self, batch_axes: int) -> None:
        """Refuse an altered inner attention whose own mask would need the axis of the heads."""
        own = self.attention.mask
        if own is not None and own.over_heads(batch_axes) is not own:
            raise RequestError(
                f"MultiHead calls its {type(self.attention).__name__}, which has a forward or hooks"
                f" of its own, and whose mask {type(own).__name__} differs between the rows of a "
                "batch; give that mask in the call"
            )

    def _key_value(self, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor]:
        values = self._heads(self.value, key if value is None else value)
        return self._heads(self.key, key), values

    def _heads(self, projection: nn.Module, x: Tensor) -> Tensor:
        """Project (*batch, N, size) and split it into heads."""
        try:
            return self._split(linear(projection, x))
        except RAW:
            refuse_projection(self, projection, x)
            raise

    def _split(self, x: Tensor) -> Tensor:
        """(*batch, N, H * D) to (*batch, H, N, D)."""
        size = x.shape[-1] // self.heads  # -1 is ambiguous for an empty batch
        return x.view(*x.shape[:-1], self.heads, size).transpose(-3, -2)

    def extra_repr(self) -> str:
        """Say the number of heads."""
        return f"heads={self.heads}"


def _joined(always: Mask | None, now: Mask | Tensor | None) -> Mask | None:
    """Both masks, either, or none."""
    if now is None:
        return always
    mask = as_mask(now)
    return mask if always is None else always & mask
