"""The fast path of a decoder's step, `layer(query, memory)`: one C call without the usual checks.

What all steps over one memory share is checked once and kept with the memory: that C supports the
layer's parts, and the memory's addresses and sizes. What may change between two steps is checked
each time. `attend` computes everything else: forced kernels, watchers, compilers, transforms,
autocast, other parts, types or shapes. In training a step is one autograd node, including the
projection of its query.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard import native
from regard.attention._kernels.compared import compare, wanted
from regard.attention._ops.cpu import additive_calls as calls
from regard.attention._ops.cpu.additive_grad import step
from regard.attention.call import Attended, Call, unforced
from regard.attention.mask import Lengths
from regard.attention.memory import Memory
from regard.attention.plain import exactly, untouched
from regard.attention.read import WeightedSum
from regard.attention.recording import record, unwatched
from regard.attention.score import Additive
from regard.attention.select import Softmax
from regard.native.gemm import unhooked
from regard.native.operation import is_recorded
from regard.native.transforms import followed

if TYPE_CHECKING:
    from regard.attention.module import Attention

__all__ = ["fast_step", "step_plan"]

_PLAIN = (Tensor, torch.nn.Parameter)


def fast_step(layer: "Attention", query: Tensor, memory: Memory) -> Attended | None:
    """The attention of a step in one C call, or None where `attend` must compute it."""
    if torch.compiler.is_compiling() or is_recorded():
        return None
    seen, grad, watched = step_plan(layer, memory), torch.is_grad_enabled(), not unwatched()
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
    if wanted():
        compare("step", seen.as_call(query, memory), Attended(context))
    if watched:  # gradients are accumulated in the same order as without a watcher
        record(seen.as_call(query, memory), Attended(context), layer)
    return Attended(context)


def step_plan(layer: "Attention", memory: Memory) -> "_StepPlan | None":
    """What all steps of a layer over a memory share; None for layers that C does not support."""
    found: _StepPlan | None = memory._step_plan
    if found is None or not found.is_current(layer):
        found = _StepPlan(layer, memory)
        if not found.is_current(layer):  # a position, a mask of its own, a carry
            return None
        object.__setattr__(memory, "_step_plan", found)
    return found


class _StepPlan:
    """The steps of one layer over one memory; `table` is None where C does not support them."""

    __slots__ = ("held", "read", "score", "select", "shape", "table", "value_dim")

    def __init__(self, layer: "Attention", memory: Memory) -> None:
        own, modules = layer.__dict__, layer._modules
        self.score: Any = modules.get("score")
        self.read: Any = modules.get("read")
        self.select: Any = own.get("select")
        self.table: Any = None
        if native.unavailable_reason(calls.STEP.name) is not None or not self._parts():
            return
        tensors = _tensors(memory)
        if tensors is not None:
            key, packed, value, lengths = tensors
            self.shape = key.shape[0], key.shape[2]
            self.value_dim = value.shape[2]
            self.held = tensors  # keep them alive: C has their addresses
            self.table = calls.MEMORY(key, packed, value, lengths)

    def _parts(self) -> bool:
        return (
            type(self.score) is Additive
            and self.score.heads == 1
            and type(self.select) is Softmax
            and type(self.read) is WeightedSum
        )

    def is_current(self, layer: "Attention") -> bool:
        """Whether the layer still has the parts that were checked."""
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
        """The step as `attend` would call it."""
        return Call(
            self.score,
            self.select,
            self.read,
            None,
            memory.mask,
            None,
            query,
            memory.key,
            memory.value,
            memory.prepared,
            None,
            memory.value.shape[-2] - query.shape[-2],
        )

    def _is_supported(self, v: Any) -> bool:
        """Whether C supports what may change between two steps."""
        return (
            type(v) in _PLAIN
            and v.dtype == torch.float32
            and v.is_cpu
            and untouched(self.score, self.read)
            and self.score._modules.get("features") is None
            and self.read.scale is None
            and not (self.read.dropout and self.read.training)
        )

    def learn(self, query: Tensor, memory: Memory) -> Tensor | None:
        """One query per row as one autograd node; None where the projection is not a plain one."""
        v, linear = self.score._parameters.get("v"), self.score._modules["query"]
        if (
            not self._is_supported(v)
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
        """Project the query and call C; None where C does not support the tensors."""
        score = self.score
        v = score._parameters.get("v")
        modules = score._modules
        if not self._is_supported(v):
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
    if not isinstance(prepared, tuple) or (mask is not None and not exactly(mask, Lengths)):
        return None
    key, packed = prepared
    lengths = mask.lengths if isinstance(mask, Lengths) else None
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
