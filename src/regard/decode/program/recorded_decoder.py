"""A generator whose step is a recorded program, run by C."""

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard import native
from regard.attention.recording import active, wants_calls
from regard.decode.program.best_words import BestWords
from regard.decode.program.caches import PackedPast
from regard.decode.program.compiled import CompiledProgram
from regard.decode.program.in_c import InC
from regard.decode.program.instructions import STEP, CCall, Lowered
from regard.decode.program.recorded_encoder import RecordedEncoder, read_text, started
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.replay import Binding, store, with_lengths
from regard.decode.program.search_in_c import (
    SearchInC,
    States,
    StepsMade,
    StoppingRule,
    steps_at_once,
)
from regard.decode.program.shown_weights import say_watched, show
from regard.decode.program.staggered import Staggered, by_steps, joined, own_steps, unjoined_reason
from regard.decode.program.step_values import (
    Host,
    MemoryPlaces,
    ReadyStep,
    StepValues,
    size_of,
    weak_references,
)
from regard.decode.program.tree import Ref, map_leaves, refs, tensors
from regard.decode.program.work_space import WorkSpace, wide
from regard.decode.program.written import CACHES, addresses_of, as_memories, blocks_of
from regard.decode.top import MOST, leading
from regard.errors import RequestError
from regard.native.gate import expect
from regard.protocols import EOS, Decoding, Encoded, Inputs

__all__ = ["RecordedDecoder"]

MOST_THREADS = 64


class RecordedDecoder(InC):
    """A `Generator` that does its steps in C, as a program that was recorded of its model.

    A step for which the program is not (a first step of another structure, a table's end) is done
    by the model: what is carried is the same. Results do not depend on the batch.

    Args:
        model: whose step was recorded; it is not kept alive.
        lowered: its program as instructions.
        precision: of the weights of products, one of `PRECISIONS`; the rest is float32.
    """

    def __init__(self, model: nn.Module, lowered: Lowered, precision: str = "float32") -> None:
        super().__init__(model, precision)
        self.normalized = bool(getattr(model, "normalized", False))
        self._compiled = CompiledProgram(model, lowered, precision)
        self.lowered = self._compiled.lowered
        self._hosts = [host.node for host in lowered.hosts]
        program = lowered.program
        self._memories = refs(program.inputs["memories"])
        self._beside, self._carried = (  # without caches
            {name: x for name, x in tree["carried"].items() if name not in lowered.caches}
            for tree in (program.inputs, program.outputs)
        )
        self._states = States(self.lowered)
        self._last: MemoryPlaces | None = None
        self._rooms: list[Tensor] = []  # work space that no thread uses now
        self.steps_of_model = 0
        self.reader: RecordedEncoder | None = None
        """What reads sources in C."""
        self.begins = True
        """Whether the program may take the first step, from caches without keys."""

    @property
    def unjoined_reason(self) -> str | None:
        """Why sentences cannot join those under way, in a clause; None: they can."""
        own = "its first step is not that of its program"
        return unjoined_reason(self.lowered) if self.begins else own

    @property
    def one_by_one_reason(self) -> str | None:
        """Why a search takes its steps one by one, in a clause; None: C takes several at once."""
        return self._states.reason

    @property
    def instructions(self) -> int:
        """How many there are."""
        return len(self._compiled)

    @property
    def pieces(self) -> int:
        """How many pieces of C they are, between which PyTorch computes."""
        return sum(piece.instructions > 0 for piece, _ in self._compiled.pieces)

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """As the model, in C where its encoder is."""
        model, reader = self.model, self.reader
        if reader is not None and not active():
            read = read_text(reader, model, source, lengths)
            if read is not None:
                return read
        found: Encoded = model.encode(source, lengths)
        return found

    def start(self, encoded: Encoded) -> Decoding:
        """As the model."""
        return started(self.model, encoded)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V).

        Who watches sees the weights that the program gives; where it gives none, or more than
        weights is wanted, the steps of the model, in float32.
        """
        return self._stepped(tokens, decoding, None)

    def leading(
        self, tokens: Tensor, decoding: Decoding, first: int, count: int
    ) -> tuple[Tensor, Tensor, Decoding]:
        """A step and its best next words; C writes no logits where these are a product."""
        words = self.target_vocab_size
        if self.lowered.output < 0 or self.normalized or words is None or count > words - first:
            return super().leading(tokens, decoding, first, count)
        best = BestWords.of(tokens, first, count)
        logits, decoding = self._stepped(tokens, decoding, best)
        if logits is not None:  # the model took the step
            return *leading(logits, first, count, self.normalized), decoding
        return best.values, best.ids, decoding

    def _stepped(
        self, tokens: Tensor, decoding: Decoding, best: BestWords | None
    ) -> tuple[Any, Decoding]:
        """A step with its logits, or None in their place where the best words are wanted."""
        shows = active() and bool(self.lowered.program.shown) and not wants_calls()
        try:
            if active() and not shows:
                if isinstance(decoding, Staggered):
                    raise RequestError("watch: steps of sentences that joined cannot be watched")
                say_watched(self.precision)
                raise NotRecorded("somebody watches")
            batch = self._batch(decoding)
            binding = self._bind(batch, tokens, decoding)
        except NotRecorded:
            if isinstance(decoding, Staggered):
                return by_steps(self.lowered, tokens, decoding, self.step)
            self.steps_of_model += 1
            known = as_memories(self.lowered.caches, decoding)
            stepped: tuple[Tensor, Decoding] = self.model.step(tokens, known)
            return stepped
        past = self._longer(tokens, decoding)
        ready = self._ready(batch, tokens, decoding, binding, past, best)
        values = self._run(ready, binding.sizes, tokens.shape)
        outputs = self.lowered.program.outputs
        if shows:
            weights = [values[one.index] for one in outputs["weights"]]
            show(self.model, self.lowered.program.shown, weights)
        given = None if best is not None else values[outputs["logits"].index]
        return given, self._after(decoding, values, past)

    def search(
        self, tokens: Tensor, decoding: Decoding, totals: Tensor, rule: StoppingRule, most: int
    ) -> StepsMade | None:
        """As `InC` says."""
        states, words = self._states, self.target_vocab_size
        # One more where sentences joined, as EOS may be left out for some.
        count = rule.continuations + isinstance(decoding, Staggered)
        fits = words is not None and count <= min(MOST, words - EOS - 1)
        if states.reason is not None or not fits or active():
            return None
        tokens = tokens.clone()  # C writes the next ones into it
        try:
            batch = self._batch(decoding)
            binding = self._bind(batch, tokens, decoding)
        except NotRecorded:
            return None
        own = own_steps(decoding)
        starts = decoding.starts.tolist() if isinstance(decoding, Staggered) else [0] * len(tokens)
        left = min(n + at for n, at in zip(rule.limits, starts, strict=True)) - decoding.step
        most = min(most, steps_at_once(left, len(tokens), tokens.numel(), self.lowered))
        steps = states.steps(binding, own, most)
        direct = self.lowered.output >= 0 and not self.normalized
        best = BestWords.of(tokens, EOS, count) if direct else None
        past = self._longer(tokens, decoding)
        blocks = torch.empty(steps - 1, tokens.numel(), self.lowered.block)
        later = () if past is None else blocks.unbind()
        ready = self._ready(batch, tokens, decoding, binding, past, best, later)
        ((plan, _),) = self._compiled.pieces
        search = SearchInC(plan, ready, states, rule, totals, steps, count)
        made, past = search.run(past, later, best, self.normalized)
        self._rooms[:] = [ready.work]
        after = self._after(decoding, ready.values, past, len(made.tokens))
        return made._replace(state=after)

    def _after(
        self, decoding: Decoding, values: StepValues, past: PackedPast | None, steps: int = 1
    ) -> Decoding:
        """What is carried after some steps, the last of which made these values."""

        def leave(leaf: Any) -> Any:
            return values[leaf.index] if isinstance(leaf, Ref) else leaf

        carried = {
            name: values[x.index] if isinstance(x, Ref) else map_leaves(x, leave)
            for name, x in self._carried.items()
        }
        if past is not None:
            carried[CACHES] = past
        return replace(decoding, carried=carried, step=decoding.step + steps)

    def joined(self, first: Decoding, second: Decoding) -> Staggered:
        """A decoding with the sentences of a second one, which has read nothing yet, behind."""
        return joined(self.lowered, first, second)

    def _batch(self, decoding: Decoding) -> MemoryPlaces:
        """What all steps over the same memories share."""
        last = self._last  # another thread may replace it
        if last is not None and last.has(decoding.memories):
            return last
        own = tensors(dict(decoding.memories))
        if last is not None and last.is_of(own):
            return last
        program = self.lowered.program
        binding = Binding(program)
        binding.match(program.inputs["memories"], self._memories_of(decoding), "memories")
        batch = MemoryPlaces(
            [weakref.ref(x) for x in own],
            weak_references(decoding.memories),
            binding,
            self._compiled.places.copy(),
        )
        given = {id(x) for x in own}
        for number, x in binding.values.items():
            slot = self.lowered.entered.get(number)
            if slot is not None and x.dim():
                turned = number in self.lowered.turned
                own_form = x.transpose(1, 2) if turned else x
                batch.places.read(slot, own_form, len(x), borrowed=not turned and id(x) in given)
        binding.values.clear()  # the batch belongs to its decoder
        self._last = batch
        return batch

    def _memories_of(self, decoding: Decoding) -> Any:
        program = self.lowered.program
        return with_lengths(program, program.inputs["memories"], dict(decoding.memories))

    def _bind(self, batch: MemoryPlaces, tokens: Tensor, decoding: Decoding) -> Binding:
        """The sizes and tensors of a step."""
        inputs = self.lowered.program.inputs
        binding = Binding(self.lowered.program, batch.binding)
        binding.match(inputs["tokens"], tokens, "tokens")
        known, carried = inputs["carried"], dict(decoding.carried)
        past, caches = carried.pop(CACHES, None), self.lowered.caches
        if not decoding.step and not self.begins:
            raise NotRecorded("the first step is another one")
        if past is None and not decoding.step:  # nothing was written yet
            past = PackedPast()
            carried = {k: x for k, x in carried.items() if k not in caches or x is not None}
        if past is not None:  # a size of caches is that of the step
            known = self._beside
            for cache in caches.values():
                binding.match(cache.size, len(past.blocks), "the size of a cache")
        binding.match(known, carried, "carried")
        binding.match(inputs["step"], decoding.step, "step")
        binding.check()
        if isinstance(decoding, Staggered):
            self._check_ways(binding, own_steps(decoding))
        return binding

    def _check_ways(self, binding: Binding, steps: list[int]) -> None:
        """Refuse steps of sentences at which the model would take another way."""
        symbol = self.lowered.symbols.step
        if symbol is not None:
            for step in steps:
                binding.check_way({**binding.sizes, symbol: step})

    def _run(self, made: ReadyStep, sizes: dict[int, int], shape: Sequence[int]) -> StepValues:
        """One step, piece by piece."""
        for piece, hosts in self._compiled.pieces:
            if piece.instructions:
                STEP(piece, made.call, made.threads)
            for host in hosts:
                self._by_torch(host, made, sizes, shape)
        self._rooms[:] = [made.work]
        return made.values

    def _ready(
        self,
        batch: MemoryPlaces,
        tokens: Tensor,
        decoding: Decoding,
        binding: Binding,
        written: PackedPast | None,
        best: BestWords | None,
        later: Sequence[Tensor] = (),
    ) -> ReadyStep:
        """A call of C with all that it reads and writes.

        Args:
            later: the blocks of caches of further steps in the same call.
        """
        lowered, sizes, places = self.lowered, binding.sizes, batch.places.copy()
        sentences, width = tokens.shape
        rows = sentences * width
        for number, x in binding.values.items():
            slot = lowered.entered.get(number)
            if slot is not None:
                places.read(slot, x, sentences if lowered.slots[slot].space else rows)
        keys, words = (size_of(x, sizes) for x in (lowered.keys, lowered.words))
        values = StepValues(lowered, sizes, {**self._compiled.constants, **binding.values})
        logits = None if best is None else lowered.program.outputs["logits"].index
        for number, slot in lowered.made.items():
            if number != logits:
                made = values.made(number)
                places.read(slot, made, sentences if lowered.slots[slot].space else rows)
        unread = [lowered.entered.get(n) for node in self._hosts for n in node.makes]
        unread += [] if logits is None else [lowered.made[logits]]
        for slot_or_none in unread:  # until they are made nothing of them can be read
            if slot_or_none is not None:
                places.put(slot_or_none, ctypes.addressof(self._compiled.slots), 0)
        if self._hosts:
            values |= zip(self._memories, tensors(self._memories_of(decoding)), strict=True)
        past = 0 if written is None else len(written.blocks)
        blocks, held = addresses_of(written, later)
        starts = decoding.starts.contiguous() if isinstance(decoding, Staggered) else None
        threads = min(native.threads(rows * lowered.products), MOST_THREADS)
        most = wide(past + len(later))
        space = WorkSpace(sentences, rows, keys, words, most, threads, best=best is not None)
        if space not in batch.rooms:
            batch.rooms[space] = space.floats(lowered.slots, places, self._compiled.widest)
        room = batch.rooms[space]
        work = self._rooms.pop() if self._rooms else torch.empty(0)
        work = work if work.numel() >= room else torch.empty(room)
        call = CCall(
            sentences,
            width,
            decoding.step,
            keys,
            words,
            len(self._compiled.slots),
            past,
            lowered.block,
            *blocks,
            0 if starts is None else expect("starts", starts, torch.int64, (sentences,)),
            *places.addresses(),
            work.data_ptr(),
            work.numel(),
        )
        if best is not None:
            best.ask(call)
        return ReadyStep(call, values, places, threads, work, (held, starts))

    def _longer(self, tokens: Tensor, decoding: Decoding) -> PackedPast | None:
        """The caches with a block for this step, into which C writes; None where there are none."""
        lowered = self.lowered
        if not lowered.caches:
            return None
        past = blocks_of(lowered.caches, lowered.block, decoding)
        return past.longer(torch.empty(tokens.numel(), lowered.block), *tokens.shape)

    @torch.no_grad()
    def _by_torch(
        self, host: Host, made: ReadyStep, sizes: dict[int, int], shape: Sequence[int]
    ) -> None:
        """Compute a node that C does not know; what C reads of it gets a place."""
        node, values = host.node, made.values
        store(
            node.out, node.function(*host.args(values, sizes), **host.kwargs(values, sizes)), values
        )
        for number in node.makes:
            slot = self.lowered.entered.get(number)
            if slot is not None:
                x, own = values[number], self.lowered.slots[slot]
                if x.dtype != self.lowered.program.dtypes[number]:
                    raise RuntimeError(f"{node.name} made {x.dtype} in the place of floats")
                made.places.read(slot, x, shape[0] if own.space else shape[0] * shape[1])
