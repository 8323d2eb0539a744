"""The short road of a decoder's step: `layer(query, memory)`, looked at once.

What all steps over one memory share (that its parts are those which one C call does, the memory's
addresses and sizes) is kept with the memory. What may change between two steps is looked at each
time, and where anything is unusual `attend` does the call: kernels that are forced, watchers,
compilers, transforms, autocast, other parts, other types or shapes. A step that is learnt from is
one node of the graph, its projection included.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard import native
from regard.attention._kernels.cpu import additive_calls as calls
from regard.attention._kernels.cpu.additive_grad import step
from regard.attention._kernels.table import Attended, Call, unforced
from regard.attention._recorder import record, unwatched
from regard.attention.mask import Lengths
from regard.attention.memory import Memory
from regard.attention.read import WeightedSum
from regard.attention.score import Additive
from regard.attention.select import Softmax
from regard.native.followed import followed
from regard.native.gemm import unhooked

if TYPE_CHECKING:
    from regard.attention.module import Attention

__all__ = ["ready", "short"]

_PLAIN = (Tensor, torch.nn.Parameter)


def short(layer: "Attention", query: Tensor, memory: Memory) -> Attended | None:
    """The attention of a step in one C call, or None where `attend` must do it."""
    if torch.compiler.is_compiling():
        return None
    seen, grad, watched = ready(layer, memory), torch.is_grad_enabled(), not unwatched()
    if (
        seen is None
        or seen.table is None
        or not unforced()
        or (watched and not grad)
        or torch.is_autocast_enabled("cpu")
        or followed(query) is not None
    ):
        return None
    try:
        context = seen.learn(query, memory) if grad else seen.step(query)
    except RuntimeError:  # the query does not fit, and `attend` says so
        return None
    if context is None:
        return None
    if watched:  # gradients are added up in the same order as without
        record(seen.as_call(query, memory), Attended(context), layer)
    return Attended(context)


def ready(layer: "Attention", memory: Memory) -> "_Ready | None":
    """What all steps of a layer over a memory share, looked at once; None for unusual layers."""
    found: _Ready | None = memory._ready
    if found is None or not found.fits(layer):
        found = _Ready(layer, memory)
        if not found.fits(layer):  # a position, a mask of its own, a carry
            return None
        object.__setattr__(memory, "_ready", found)
    return found


class _Ready:
    """What is known of the steps of one layer over one memory; `table` is None where C does not."""

    __slots__ = ("held", "read", "score", "select", "shape", "table", "value_dim")

    def __init__(self, layer: "Attention", memory: Memory) -> None:
        own, modules = layer.__dict__, layer._modules
        self.score: Any = modules.get("score")
        self.read: Any = modules.get("read")
        self.select: Any = own.get("select")
        self.table: Any = None
        if native.lacks(calls.STEP.name) is not None or not self._parts():
            return
        tensors = _tensors(memory)
        if tensors is not None:
            key, packed, value, lengths = tensors
            self.shape = key.shape[0], key.shape[2]
            self.value_dim = value.shape[2]
            self.held = tensors  # or what lies at the addresses would be given to others
            self.table = calls.MEMORY(key, packed, value, lengths)

    def _parts(self) -> bool:
        return (
            type(self.score) is Additive
            and self.score.heads == 1
            and type(self.select) is Softmax
            and type(self.read) is WeightedSum
        )

    def fits(self, layer: "Attention") -> bool:
        """Whether the layer's parts are still those that were looked at."""
        own, modules = layer.__dict__, layer._modules
        return (
            modules.get("score") is self.score
            and modules.get("read") is self.read
            and own.get("select", layer) is self.select
            # a part that is a module is in no instance's dictionary
            and own.get("position", layer) is None
            and own.get("mask", layer) is None
            and own.get("carry", layer) is None
        )

    def as_call(self, query: Tensor, memory: Memory) -> Call:
        """What `attend` would say of the step."""
        return Call(
            self.score, self.select, self.read, None, memory.mask, None, query, memory.key,
            memory.value, memory.prepared, None, memory.value.shape[-2] - query.shape[-2],
        )  # fmt: skip

    def _usual(self, v: Any) -> bool:
        """Whether nothing that may change between two steps is in the way."""
        return (
            type(v) in _PLAIN
            and v.dtype == torch.float32
            and v.is_cpu
            and self.score._modules.get("features") is None
            and self.read.scale is None
            and not (self.read.dropout and self.read.training)
        )

    def learn(self, query: Tensor, memory: Memory) -> Tensor | None:
        """One query of each row, as one node of the graph, where the projection is a plain one."""
        v, linear = self.score._parameters["v"], self.score._modules["query"]
        if (
            not self._usual(v)
            or type(linear) is not nn.Linear
            or linear._parameters["bias"] is not None
        ):
            return None
        weight, (key, packed), value = linear.weight, memory.prepared, memory.value
        batch, dim = self.shape
        if (
            query.shape != (batch, 1, linear.in_features)
            or query.dtype != torch.float32
            or type(weight) not in _PLAIN
            or weight.dtype != torch.float32
            or v.shape != (dim,)
            or not (key.requires_grad or value.requires_grad)
            or not (query.is_cpu and weight.is_cpu)
            or not unhooked(linear)
        ):
            return None
        scale = 1.0 / self.select.temperature
        return step(query, weight, v, key, packed, value, self.held[3], scale)

    def step(self, query: Tensor) -> Tensor | None:
        """Project the query and call C, where all is as it mostly is."""
        score = self.score
        v = score._parameters["v"]
        modules = score._modules
        if not self._usual(v):
            return None
        projected: Tensor = modules["query"](query)
        shape = projected.shape
        batch, dim = self.shape
        if (
            type(projected) not in _PLAIN
            or projected.dtype != torch.float32
            or len(shape) != 3
            or shape[0] != batch
            or shape[2] != dim
            or v.shape != (dim,)
            or not projected.is_cpu
        ):
            return None
        projected, v = projected.contiguous(), v.contiguous()
        queries = shape[1]
        context = projected.new_empty(batch, queries, self.value_dim)
        threads = native.threads(batch * queries * dim * self.table.keys // 16)
        calls.STEP(self.table, projected, v, context, 1.0 / self.select.temperature, threads)
        return context


def _tensors(memory: Memory) -> tuple[Tensor, Tensor, Tensor, Tensor | None] | None:
    """Keys, packed keys, values and lengths as C reads them, or None where they are not so."""
    value, mask, prepared = memory.value, memory.mask, memory.prepared
    if not isinstance(prepared, tuple) or (mask is not None and type(mask) is not Lengths):
        return None
    key, packed = prepared
    lengths = None if mask is None else mask.lengths
    if lengths is not None and (
        lengths.dtype != torch.int64
        or lengths.shape != key.shape[:1]
        or not lengths.is_cpu
        or not lengths.is_contiguous()
    ):
        return None
    for x in (key, packed, value):
        if type(x) is not Tensor or x.dtype != torch.float32 or not x.is_cpu or x.dim() != 3:
            return None
        if x.stride(2) != 1 or x.stride(1) != x.shape[2]:
            return None
    sizes = key.shape[:2]
    wide = calls.width(key.shape[2])
    if packed.shape != (*sizes, wide) or value.shape[:2] != sizes:
        return None
    lengths = None if lengths is None else lengths.detach()
    return key.detach(), packed.detach(), value.detach(), lengths
