"""How an encoder is lowered: its rows are the words of all texts, without padding.

It is recorded as it reads texts of one length, and C does for each text what that gives. So a
program has neither lengths nor padding, and a text gets the same bits alone and in any batch.
"""

from typing import Any

from torch import Tensor

from regard.attention import Memory, Window
from regard.decode.program.instructions import (
    BLOCK,
    BY_KEYS,
    PAST_BIASED,
    Lowered,
    Operand,
    TorchNode,
    read_slots,
)
from regard.decode.program.lowering import Lowering
from regard.decode.program.lowering_past import asked_row, check_dots, distance_tables, named
from regard.decode.program.recorder import Node
from regard.decode.program.replay import Program
from regard.decode.program.rows import (
    PER_ROW,
    PER_SENTENCE,
    HeadWeights,
    NotLowered,
    RowAxis,
    RowValue,
)
from regard.decode.program.tree import Ref, refs

__all__ = ["PLACES", "WordLowering", "attend_within"]

PLACES = -1
"""The number of an input that no recording has: the place of each word in its text."""


class WordLowering(Lowering):
    """The state of lowering an encoder.

    The inputs of its program are `tokens` (texts, words) and `lengths`; its outputs are values of
    each word, inputs as they are, and what follows from lengths, which PyTorch computes.
    """

    def __init__(self, program: Program, apart: bool = False) -> None:
        super().__init__(program, apart)
        self.places = self.slot(1, PER_ROW, integers=True, value=PLACES)
        self.entered[PLACES] = self.places

    def run(self, by_torch: dict[int, str]) -> Lowered:
        """Lower all nodes.

        Raises:
            NotLowered: C has no instruction for one, or it is no computation of single words.
        """
        texts = self._of_texts()
        given = self.program
        self.program = given.with_nodes([node for node in given.nodes if node not in texts])
        self._made_of_texts = {number for node in texts for number in node.makes}
        lowered = super().run(by_torch)
        end = len(lowered.code)
        lowered.hosts.extend(TorchNode(end, node, "it is about whole texts") for node in texts)
        if any(slot.space == PER_SENTENCE and slot.width for slot in lowered.slots):
            raise NotLowered("a value of whole texts")
        return lowered

    def _of_texts(self) -> list[Node]:
        """Nodes that compute something of lengths alone, and of which no word knows."""
        nodes, known = self.program.nodes, {self.program.inputs["lengths"].index}
        found = []
        for node in nodes:
            if known.issuperset(node.reads) and node.reads:
                known.update(node.makes)
                found.append(node)
        while True:
            others = {n for node in nodes if node not in found for n in node.reads}
            apart = [node for node in found if others.isdisjoint(node.makes)]
            if len(apart) == len(found):
                return found
            found = apart

    def host(self, node: Node, why: str) -> None:
        """Refuse: PyTorch would need the padding."""
        raise NotLowered(why)

    def leave_all(self) -> None:
        """Have each output as rows of words."""
        given = {*refs(self.program.inputs), *self._made_of_texts}
        for number in dict.fromkeys(refs(self.program.outputs)):
            if number in given:
                continue
            value = self.get(number)
            if not isinstance(value, HeadWeights):
                labels = [axis.label for axis in value.axes]
                heads_first = labels == ["B", "f", "W", "f"]
                if not (heads_first or labels[:2] == ["B", "W"]) or not isinstance(value, RowValue):
                    raise NotLowered(f"an output with axes {' '.join(labels)}")
                if heads_first:
                    self.turned.add(number)
                own = self.slots[value.slot]
                # Behind rows that a product reads there are zeros, but not behind a tensor's.
                read = value.width % BLOCK and any(value.slot in read_slots(i) for i in self.code)
                whole = value.whole and value.flat() == 1 and own.value is None
                if read or not whole:
                    value = self.copied(value, PER_ROW)
            self.slots[value.slot].value = number
            self.made[number] = value.slot

    def of_places(self, table: RowValue, axis: RowAxis, start: int) -> RowValue:
        """The row of a table for the place of each word."""
        own = self.constant_rows(
            table.slot.as_strided(
                [a.size - start if a is axis else a.size for a in table.axes],
                [a.stride for a in table.axes],
                table.slot.storage_offset() + table.offset,
            )
        )
        n = table.width // axis.size
        rest = [a for a in table.axes if a is not axis]
        made = self.fresh(n, [RowAxis("W"), *rest])
        self.emit("GATHER", n=n, y=Operand(made.slot), a=Operand(self.places), b=own)
        return made


def attend_within(
    low: WordLowering, node: Node, query: Any, memory: Any, call: Any, how: Any
) -> None:
    """Attention of the words of each text to each other, by dot products."""
    mask = call.mask
    check_dots(call)
    if type(mask) not in (type(None), Window):
        raise NotLowered(f"attend with {named(call)}")
    if not isinstance(memory, Memory) or memory.mask is not None or how.get("at") is not None:
        raise NotLowered("attend to words of another form")
    keys: Any = memory.key if memory.prepared is None else memory.prepared
    if not isinstance(keys, Ref) or memory.value is None:
        raise NotLowered("attend to keys of another form")
    shape = low.program.shapes
    values: Any = memory.value
    heads = shape[keys.index][1] if memory.heads else 1
    n, m = shape[keys.index][-1], shape[values.index][-1]
    x, scale = asked_row(low, query, call.score, n, heads)
    rows = [low.straight(low.rows(ref)) for ref in (keys, values)]
    for value, size in zip(rows, (n, m), strict=True):
        if value.space != PER_ROW or value.width != heads * size or value.by_step:
            raise NotLowered("keys of another form")
    biases, memories, columns = distance_tables(low, call, heads, _both_ways)
    if biases is not None:
        memories["keys"] = biases.slot
    context = shape[node.out.context.index]
    made = low.fresh(heads * m, low.symbols.axes(context))
    if node.out.weights is not None:
        memories["weights"] = low.slot(BY_KEYS, times=heads)
        low.values[node.out.weights.index] = HeadWeights(memories["weights"], memory.heads)
    low.keys = shape[keys.index][-2]
    low.emit(
        "ATTEND_WITHIN",
        kind=0 if biases is None else PAST_BIASED,
        n=n,
        m=m,
        heads=heads,
        before=-1 if mask is None or mask.left is None else mask.left,
        k=-1 if mask is None or mask.right is None else mask.right,
        columns=columns,
        x=scale / call.select.temperature,
        y=Operand(made.slot),
        a=low.operand(x),
        b=low.operand(rows[0]),
        c=low.operand(rows[1]),
        memory=memories,
    )
    low.values[node.out.context.index] = made


def _both_ways(x: Tensor, clip: int) -> Tensor:
    """A table of the distances before and behind.

    Raises:
        NotLowered: it has others.
    """
    if x.shape[1] != 2 * clip + 1:
        raise NotLowered("a table of other distances")
    return x
