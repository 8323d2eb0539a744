"""How caches are lowered: a key more at each step, and attention to what they hold."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention import (
    BucketBias,
    Causal,
    Directional,
    Dot,
    General,
    Memory,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    Softmax,
    Uniform,
    WeightedSum,
)
from regard.decode.program.boundary import parts_of
from regard.decode.program.instructions import (
    BY_PAST,
    LONGEST_TABLE,
    PAST_BIASED,
    PAST_ONLY,
    GrowingMemory,
    Leaf,
    Operand,
)
from regard.decode.program.lowering import Lowering, handles, weight_of
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    CONSTANT,
    PER_ROW,
    HeadWeights,
    NotLowered,
    RowAxis,
    RowValue,
    Sum,
)
from regard.decode.program.tree import Extent

__all__ = ["asked_row", "attend_past", "check_dots", "distance_tables", "named"]


@handles("append")
def append(
    low: Lowering, node: Node, memory: Any, key: Any, value: Any, prepared: Any = None
) -> None:
    """C writes the new key and value into the block of the step."""
    out: Any = node.out
    carried = low.program.inputs["carried"]
    name = next((k for k, x in carried.items() if isinstance(x, Memory) and x == memory), None)
    if name is None or name in low.caches:
        raise NotLowered("a cache that is no input, or grows twice")
    olds, news, outs = (parts_of(x) for x in (memory, Memory(key, value, None, prepared), out))
    if not len(olds) == len(news) == len(outs):
        raise NotLowered("append of other tensors than the cache has")
    pairs = [(old.index, new.index) for old, new in zip(olds, news, strict=True)]
    kinds = [pairs.index(pair) for pair in pairs]
    shape = low.program.shapes[out.key.index]
    labels = [low.symbols.label(n) for n in shape]
    heads = shape[2] if memory.heads else 1
    past = shape[-2]
    if labels[:2] != ["B", "W"] or len(shape) != 4 + memory.heads or not low.symbols.at_step(past):
        raise NotLowered("a cache of another form")
    if low.past not in (None, past):
        raise NotLowered("caches of different sizes")
    rows = {i: low.straight(low.rows(news[i])) for i in set(kinds)}
    sizes = {i: low.program.shapes[outs[i].index][-1] for i in rows}
    if any(x.space != PER_ROW or x.width != heads * sizes[i] for i, x in rows.items()):
        raise NotLowered("keys of another form")
    read = {i: low.operand(x) for i, x in rows.items()}
    leaves, at = {}, low.block
    for i, a in read.items():
        low.emit("APPEND", n=sizes[i], heads=heads, key_at=at, a=a)
        leaves[i] = Leaf(at, heads, sizes[i])
        at += heads * sizes[i]
    low.past, low.block = past, at
    low.values.update({one.index: None for one in outs})
    size = low.program.shapes[olds[0].index][-2]
    numbers = [one.index for one in outs]
    low.caches[name] = GrowingMemory(memory, size, [leaves[i] for i in kinds], numbers)


def attend_past(low: Lowering, node: Node, query: Any, memory: Any, call: Any, at: Any) -> bool:
    """Lower attention to a cache by dot products; whether it is to one."""
    own = memory.key if memory.prepared is None else memory.prepared
    caches = low.cached
    if isinstance(own, tuple) or own.index not in caches or memory.value.index not in caches:
        return False
    score, mask = call.score, call.mask
    kind = _sees(mask)
    check_dots(call)
    if memory.mask is not None:
        raise NotLowered("attend to a cache with a mask")
    if at is not None and at != Extent(low.past.c - 1, 1, low.past.symbols):
        raise NotLowered("a query at another place than the last")
    keys, values = (low.program.shapes[x.index] for x in (own, memory.value))
    n, m, heads = keys[-1], values[-1], keys[2] if memory.heads else 1
    x, scale = asked_row(low, query, score, n, heads)
    biases, slots, columns = distance_tables(low, call, heads, _backwards)
    made = low.fresh(heads * m, low.symbols.axes(low.program.shapes[node.out.context.index]))
    if node.out.weights is not None:
        slots["weights"] = low.slot(BY_PAST, times=heads)
        low.values[node.out.weights.index] = HeadWeights(slots["weights"])
    low.emit(
        "ATTEND_PAST",
        kind=kind + (0 if biases is None else PAST_BIASED),
        n=n,
        m=m,
        heads=heads,
        before=-1 if getattr(mask, "left", None) is None else mask.left,
        columns=columns,
        key_at=caches[own.index].at,
        value_at=caches[memory.value.index].at,
        x=scale / call.select.temperature,
        y=Operand(made.slot),
        a=low.operand(x),
        memory=slots,
        **({} if biases is None else {"c": biases}),
    )
    low.values[node.out.context.index] = made
    return True


def asked_row(
    low: Lowering, query: Any, score: Any, n: int, heads: int = 1
) -> tuple[RowValue, float]:
    """The query of a score by dot products, n numbers a head, and what its products are times."""
    if type(score) is Uniform:  # all scores are equal, whatever the query is
        zeros = torch.zeros(heads * n)
        x: Any = low.copied(RowValue(CONSTANT, zeros, (RowAxis("R"), RowAxis("f", heads * n, 1))))
    else:
        x = low.straight(low.rows(query))
    if type(score) is General:
        if heads > 1:
            raise NotLowered("General with several heads")
        x = low.solid(
            Sum(((x, weight_of(score.project)),), None, (RowAxis("R"), RowAxis("f", n, 1)))
        )
    if x.space != PER_ROW or x.width != heads * n:
        raise NotLowered("a query of another form")
    scale = {
        Dot: getattr(score, "scale", 1.0),
        General: 1.0,
        ScaledDot: 1 / math.sqrt(n),
        RelativeKeys: 1 / math.sqrt(n),
        Uniform: 0.0,
    }[type(score)]
    return x, scale


def named(call: Any) -> str:
    """The parts of a call that are not the usual ones."""
    parts = call.score, call.select, call.read, call.position, call.mask, call.carry
    kinds = [type(part) for part in parts if part is not None]
    return ", ".join(kind.__name__ for kind in kinds if kind not in (Softmax, WeightedSum))


def _sees(mask: Any) -> int:
    """What a mask leaves of the past, where the query stands at its end."""
    if mask is None or (type(mask) is Causal and mask.right == 0):
        return 0
    if type(mask) is Directional and mask.direction == "forward":
        return PAST_ONLY
    raise NotLowered(f"attend with a {type(mask).__name__}")


def _backwards(x: Tensor, clip: int) -> Tensor:
    """Of a table of distances, those from the query's own place on backwards."""
    return x[:, : clip + 1].flip(1)


def distance_tables(
    low: Lowering, call: Any, heads: int, cut: Callable[[Tensor, int], Tensor]
) -> tuple[Operand | None, dict[str, int], int]:
    """What belongs to distances: biases, slots of vectors, and how many distances there are.

    Args:
        cut: which distances of a table (heads, 2 clip + 1, …) are needed, given its clip.
    """
    slots: dict[str, int] = {}
    sizes = set()

    def table(part: Any, axes: int) -> Operand:
        """A table for each head."""
        x = part.table.detach()
        x = cut(x if x.dim() == axes else x.expand(heads, *x.shape), part.clip)
        sizes.add(x.shape[1])
        return low.constant_rows(x)

    biases = None if call.position is None else table(call.position, 2)
    if type(call.score) is RelativeKeys:
        slots["packed"] = table(call.score, 3).slot
    if type(call.read) is RelativeValues:
        slots["state"] = table(call.read, 3).slot
    columns = max(sizes, default=0)
    if len(sizes) > 1 or columns > LONGEST_TABLE:
        raise NotLowered("relative positions of different reach, or of a long one")
    if biases is not None and call.select.temperature != 1:
        raise NotLowered("biases and a temperature")
    return biases, slots, columns


def check_dots(call: Any) -> None:
    """Refuse attention of a sequence to itself that is not by dot products.

    Raises:
        NotLowered: names the parts.
    """
    known = (
        type(call.select) is Softmax
        and type(call.score) in (Dot, General, ScaledDot, RelativeKeys)
        and type(call.read) in (WeightedSum, RelativeValues)
        and type(call.position) in (type(None), RelativeBias, BucketBias)
    )
    if not known or call.carry is not None or getattr(call.read, "scale", None) is not None:
        raise NotLowered(f"attend with {named(call)}")
