"""An encoder whose words are read by a recorded program, run by C without padding."""

import ctypes
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard import native
from regard.attention import Lengths, Memory
from regard.decode.program.compiled import CompiledProgram
from regard.decode.program.instructions import STEP, CCall, Lowered
from regard.decode.program.lowering_words import PLACES
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.replay import Binding, filler, store
from regard.decode.program.rows import NotLowered
from regard.decode.program.shown_weights import show
from regard.decode.program.tree import refs
from regard.decode.program.work_space import WorkSpace
from regard.protocols import Decoding, Encoded, Inputs, unpacked

__all__ = ["STARTED", "RecordedEncoder", "read_text", "started"]

STARTED = "started"
"""Where `Encoded.extra` has the decoding that was made with it."""

TOGETHER = 256
"""Words of a thread that go through all layers together: what they make stays in its cache."""
MOST_THREADS = 64
TEXT = 2
"""The axes of ids."""


class RecordedEncoder:
    """Reads texts in C. What it gives is zero at padding.

    Args:
        model: whose `encode` was recorded; it is not kept alive.
        lowered: its program as instructions over words.
        precision: of the weights of products, one of `PRECISIONS`; the rest is float32.
    """

    def __init__(self, model: nn.Module, lowered: Lowered, precision: str = "float32") -> None:
        self._compiled = CompiledProgram(model, lowered, precision)
        self.precision = precision
        self.lowered = own = self._compiled.lowered
        program = own.program
        given = [program.outputs[name] for name in ("encoded", "memories", "carried")]
        self._whole = filler(given)
        ((_, self._of_texts),) = self._compiled.pieces
        tokens, lengths = (program.inputs[name].index for name in ("tokens", "lengths"))
        self._passed = {tokens: "tokens", lengths: "lengths"}
        known = {*self._passed, *own.made, *self._compiled.constants}
        known.update(number for host in self._of_texts for number in host.node.makes)
        if set(refs(given)) - known:
            raise NotLowered("an output that C does not make")
        self._ids = own.entered[tokens]
        self._weights = set(refs(program.outputs["weights"]))
        self._rooms: list[Tensor] = []  # work space that no thread uses now
        self._fitting: dict[int, bool] = {}

    @property
    def instructions(self) -> int:
        """How many there are."""
        return len(self._compiled)

    def encode(self, model: Any, ids: Tensor, lengths: Tensor) -> Encoded:
        """Read texts, as the model.

        Args:
            model: its own; watchers see its attention.

        Shapes:
            ids (B, S) int64, lengths (B,)

        Raises:
            NotRecorded: the model would take another way for a text of such a length.
            IndexError: an id is in no vocabulary.
        """
        counts: list[int] = lengths.tolist()
        self._check(ids, counts)
        texts, size = ids.shape
        widest = max(counts)
        if min(counts) == size:
            inside = None
            words = ids.contiguous().view(-1)
        else:
            real = torch.arange(size) < lengths[:, None]
            inside = real.flatten().nonzero()[:, 0]
            words = ids.flatten()[inside]
        made = self._run(words, counts, widest)

        def padded(x: Tensor) -> Tensor:
            if inside is None:
                return x.view(texts, size, -1)
            rows = x.new_zeros(texts * size, x.shape[1]).index_copy_(0, inside, x)
            return rows.view(texts, size, -1)

        shapes = self.lowered.program.shapes
        values = {
            number: ids if name == "tokens" else lengths for number, name in self._passed.items()
        }
        shown = []
        for number, x in made.items():
            whole = padded(x)
            if number in self._weights:
                heads = whole.view(texts, size, -1, widest).transpose(1, 2)
                shown.append(pad(heads, (0, size - widest)))
            else:
                shape = shapes[number]
                if number in self.lowered.turned:
                    values[number] = whole.view(texts, size, shape[1], shape[3]).transpose(1, 2)
                else:
                    values[number] = whole.view(texts, size, *shape[2:])
        show(model, self.lowered.program.shown, shown)
        values |= self._compiled.constants
        sizes = {self.lowered.symbols.batch: texts, self.lowered.symbols.beam: size}
        for host in self._of_texts:
            made_of = host.node.function(*host.args(values, sizes), **host.kwargs(values, sizes))
            store(host.node.out, made_of, values)
        encoded, memories, carried = self._whole(values, sizes)
        if not memories:
            return encoded  # type: ignore[no-any-return]
        mask = None if inside is None else Lengths(lengths)
        begun = Decoding({name: _masked(one, mask) for name, one in memories.items()}, carried)
        return encoded._replace(extra={STARTED: begun})  # type: ignore[no-any-return]

    def _check(self, ids: Tensor, counts: list[int]) -> None:
        """Refuse texts for which the model would take another way than the recorded one."""
        if ids.dtype != torch.int64 or ids.device.type != "cpu" or len(counts) != len(ids):
            raise NotRecorded("other ids")
        if not counts or min(counts) < 1 or max(counts) > ids.shape[1]:
            raise NotRecorded("a text without words")
        symbols = self.lowered.symbols
        for count in set(counts):
            fits = self._fitting.get(count)
            if fits is None:
                binding = Binding(self.lowered.program)
                try:
                    binding.check_way({symbols.batch: 1, symbols.beam: count})
                    fits = True
                except (NotRecorded, KeyError):
                    fits = False
                self._fitting[count] = fits
            if not fits:
                raise NotRecorded(f"a text of {count} words")

    def _run(self, words: Tensor, counts: list[int], widest: int) -> dict[int, Tensor]:
        """What C makes of the words of all texts, a few texts at a time."""
        lowered, total = self.lowered, len(words)
        places = torch.cat([torch.arange(n) for n in counts])
        made = {}
        for number, slot in lowered.made.items():
            own = lowered.slots[slot]
            width = own.times * (own.width if own.width >= 0 else widest)
            made[number] = torch.empty(total, width)
        threads = min(native.threads(total * lowered.products), MOST_THREADS, len(counts))
        begin = 0
        while counts:
            together, rows = 0, 0
            while together < len(counts) and (
                not rows or rows + counts[together] <= TOGETHER * threads
            ):
                rows += counts[together]
                together += 1
            some, counts = counts[:together], counts[together:]
            self._call(words, places, made, begin, some, widest, min(threads, together))
            begin += rows
        return made

    def _call(
        self,
        words: Tensor,
        places: Tensor,
        made: dict[int, Tensor],
        begin: int,
        counts: list[int],
        widest: int,
        threads: int,
    ) -> None:
        lowered, at = self.lowered, self._compiled.places.copy()
        rows = sum(counts)
        given = {self._ids: words, lowered.entered.get(PLACES): places}
        given |= {slot: made[number] for number, slot in lowered.made.items()}
        for slot, x in given.items():
            if slot is not None:
                width = x.stride(0)
                at.put(slot, x.data_ptr() + begin * width * x.element_size(), width)
        spans = (ctypes.c_int64 * (len(counts) + 1))()
        for i, n in enumerate(counts):
            spans[i + 1] = spans[i] + n
        space = WorkSpace(rows, rows, widest, 0, 0, threads, True)
        room = space.floats(lowered.slots, at, self._compiled.widest)
        work = self._rooms.pop() if self._rooms else torch.empty(0)
        work = work if work.numel() >= room else torch.empty(room)
        nothing = (0,) * 6  # no caches
        call = CCall(
            rows, 1, 0, widest, 0, len(self._compiled.slots), *nothing, *at.addresses(),
            work.data_ptr(), work.numel(), len(counts), ctypes.addressof(spans), 0, 0, 0, 0,
        )  # fmt: skip
        STEP(self._compiled.pieces[0][0], call, threads)
        self._rooms[:] = [work]
        del spans


def started(model: Any, encoded: Encoded) -> Decoding:
    """What a generator's `start` gives; a reader may have made it with the rest."""
    begun: Decoding | None = encoded.extra.get(STARTED)
    return model.start(encoded) if begun is None else begun


def _masked(memory: Any, mask: Lengths | None) -> Any:
    """A memory of texts of which some are padded: it was recorded of texts that are not."""
    if mask is None or not isinstance(memory, Memory):
        return memory
    return replace(memory, mask=mask.over_heads(1) if memory.heads else mask)


def read_text(
    reader: RecordedEncoder, model: Any, source: Tensor | Inputs, lengths: Tensor | None
) -> Encoded | None:
    """What a reader makes of a source; None where the model has to read it."""
    if isinstance(source, Inputs) and source.extras:
        return None
    ids, lengths = unpacked(source, lengths)
    if ids.dim() != TEXT or ids.dtype != torch.int64 or lengths is None:
        return None
    try:
        return reader.encode(model, ids, lengths)
    except NotRecorded:
        return None
