"""Several steps of a beam, or of greedy decoding, in one call of C: see `native/search.c`.

A step of a small model takes C less time than Python takes to begin it. Here C also finds each
sentence's best continuations and re-orders what the next step reads. A call ends with the step
after which a sentence is finished; what it found is entered in the books of the search as if it had
been found step by step, by the same code.
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decode.program.best_words import BestWords
from regard.decode.program.caches import PackedPast
from regard.decode.program.instructions import Lowered
from regard.decode.program.replay import Binding
from regard.decode.program.step_values import ReadyStep
from regard.decode.program.tree import Extent, Ref, leaves
from regard.native.gate import Function, declare
from regard.protocols import EOS
from regard.runtime.penalties import PENALTIES

__all__ = [
    "SearchInC",
    "States",
    "StepsMade",
    "StoppingRule",
    "normalizers",
    "steps_at_once",
]

NEVER = 1 << 40
"""As many hypotheses never end."""
MOST_STEPS, MOST_BYTES, MOST_PRODUCTS = 64, 1 << 25, 1 << 34
"""Of a call, what their caches may take, and about a second's multiplications: keys that interrupt
are heard between two calls."""
FEW_STEPS, SEVERAL = 16, 4
"""Of a call with more sentences than this, one of which is finished soon."""


class StoppingRule(NamedTuple):
    """When the search of a sentence is over; see `Beam` and `Greedy`.

    Args:
        greedy: one hypothesis a sentence, which ends with its first EOS.
        size: hypotheses that go on.
        ending: the first step, counted from 0, at which EOS may come.
        limits: the most tokens of each sentence.
        normalizers: what log-probabilities of 1, 2, … tokens are divided by.
        wanted: how many hypotheses that ended a search needs.
        enough: how many end it in any case; infinity: none.
        now: hope is what is alive as if it ended now, not at the limit.
        scores: of the hypotheses of each sentence that ended before, best first.
    """

    greedy: bool
    size: int
    ending: int
    limits: list[int]
    normalizers: Tensor
    wanted: int
    enough: float
    now: bool
    scores: list[list[float]]

    @classmethod
    def greedy_one(cls, ending: int, limits: list[int]) -> "StoppingRule":
        """One hypothesis a sentence, to its first EOS."""
        ended: list[list[float]] = [[] for _ in limits]
        lengths = normalizers("power", 0.0, max(limits))
        return cls(True, 1, ending, limits, lengths, 1, math.inf, False, ended)

    @property
    def continuations(self) -> int:
        """How many continuations of a hypothesis are looked at."""
        return 1 if self.greedy else 2 * self.size


class StepsMade(NamedTuple):
    """What some steps made of each hypothesis.

    Shapes:
        parents, tokens and totals (steps, n, width); end_parents, of those that ended, best first
        and then -1, and end_totals (steps, n, size). The state is that of the last step, not
        re-ordered yet.
    """

    parents: Tensor
    tokens: Tensor
    totals: Tensor
    end_parents: Tensor
    end_totals: Tensor
    state: Any = None


@lru_cache(maxsize=64)
def normalizers(penalty: str, alpha: float, longest: int) -> Tensor:
    """What log-probabilities of 1 to `longest` tokens are divided by."""
    each = [PENALTIES[penalty](n, alpha) for n in range(1, longest + 1)]
    return torch.tensor(each, dtype=torch.float64)


class States:
    """Which tensors of a step the next one reads, and which sizes grow with it.

    Args:
        lowered: a program.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.pairs: list[tuple[int, int]] = []
        """Of what C reads, the number of the input and that of the value it comes from."""
        self.reason = self._found()
        """Why C cannot take one step after the other, in a clause; None: it can."""
        program = lowered.program
        self.tokens = lowered.entered.get(program.inputs["tokens"].index, -1)
        self.logits = lowered.made.get(_base(lowered, program.outputs["logits"].index), -1)
        """The slots of the ids that are read, and of the logits; -1: C does not read them."""
        self._holds: dict[tuple[int, ...], bool] = {}

    def _found(self) -> str | None:
        lowered = self.lowered
        program, step = lowered.program, lowered.symbols.step
        if lowered.hosts:
            return "PyTorch computes a part of a step"
        if program.shown:
            return "its steps show what they look at"
        own, made = (
            {name: x for name, x in tree["carried"].items() if name not in lowered.caches}
            for tree in (program.inputs, program.outputs)
        )
        before, after = leaves(own, object), leaves(made, object)
        if own.keys() != made.keys() or len(before) != len(after):
            return "a step carries something else than it was given"
        carried = {x.index for x in before if isinstance(x, Ref)}
        for one, next_one in zip(before, after, strict=True):
            if isinstance(one, Ref) and isinstance(next_one, Ref):
                why = self._pair(one.index, next_one.index, carried)
                if why is not None:
                    return why
            elif isinstance(one, Ref | Extent) or one != next_one:
                return "a step carries a number that changes"
        sizes = [cache.size for cache in lowered.caches.values()]
        moving = [x for x in (*sizes, lowered.past) if isinstance(x, Extent)]
        if any(len(x.symbols) != 1 or x.a != 1 for x in moving):
            return "its caches grow by more than a key"
        self.moving = {x.symbols[0] for x in moving} | ({step} if step is not None else set())
        fixed = [lowered.keys, lowered.words, *(program.shapes[o] for _, o in self.pairs)]
        if any(self.moving & set(x.symbols) for x in leaves(fixed, Extent)):
            return "what it carries grows with every step"
        self.varying = [
            one
            for one in program.comparisons
            if any(self.moving & set(x.symbols) for x in leaves([one.left, one.right], Extent))
        ]
        used = leaves([[one.left, one.right] for one in self.varying], Extent)
        self._symbols = sorted({symbol for x in used for symbol in x.symbols})
        return None

    def _pair(self, given: int, made: int, carried: set[int]) -> str | None:
        lowered = self.lowered
        made = _base(lowered, made)
        if {given, made} & lowered.turned:
            return "what it carries is laid out in another way"
        if made not in lowered.made and made not in carried:
            return "a step carries what it was not given"
        if given in lowered.entered and (made in lowered.made or made in lowered.entered):
            self.pairs.append((given, made))
            return None
        # What C does not read is that of the last step, if every step makes it.
        return None if made in lowered.made else "a step carries what it does not read"

    def slots(self, pair: tuple[int, int]) -> tuple[int, int]:
        """The slots of a pair: from which and to which C copies."""
        lowered, (given, made) = self.lowered, pair
        return lowered.made.get(made, lowered.entered.get(made, -1)), lowered.entered[given]

    def steps(self, binding: Binding, own: list[int], most: int) -> int:
        """How many of the next `most` steps the model takes in the same way.

        Args:
            own: the steps that sentences are at.
        """
        symbol = self.lowered.symbols.step
        for later in range(1, most):
            sizes = {s: n + later * (s in self.moving) for s, n in binding.sizes.items()}
            each = [sizes] if symbol is None else [{**sizes, symbol: n + later} for n in own]
            if not all(map(self._same_way, each)):
                return later
        return most

    def _same_way(self, sizes: dict[int, int]) -> bool:
        key = tuple(sizes[symbol] for symbol in self._symbols)
        if key not in self._holds:
            if len(self._holds) > 1 << 16:
                self._holds.clear()
            self._holds[key] = all(
                one.holds(*(x.at(sizes) if isinstance(x, Extent) else x for x in each))
                for one in self.varying
                for each in [(one.left, one.right)]
            )
        return self._holds[key]


def _base(lowered: Lowered, number: int) -> int:
    """The value of which another one is a view."""
    while number in lowered.aliases:
        number = lowered.aliases[number]
    return number


class CCarriedState(ctypes.Structure):
    """C's `carried_state`."""

    _fields_ = [
        ("source", ctypes.c_int64),
        ("to", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("room", ctypes.c_int64 * 2),
    ]


_NUMBERS = (
    "steps greedy size best end ending wanted now enough logits normalized tokens states state"
    " limits normalizers longest totals scores ended values ids"
).split()
_MADE = "made_tokens made_parents made_totals end_parents end_totals done".split()


class CSearch(ctypes.Structure):
    """C's `program_search`."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("ancestors", ctypes.c_int64 * 2),
        *((name, ctypes.c_int64) for name in _MADE),
    ]


declare("carried_state", CCarriedState)
declare("program_search", CSearch)
SEARCH = Function(
    "regard_program_search",
    "plan: struct plan",
    "call: struct call",
    "search: struct search",
    "threads: threads",
)


def steps_at_once(left: int, sentences: int, rows: int, lowered: Lowered) -> int:
    """How many steps a call may take.

    Args:
        left: until the first sentence is at its limit.
        rows: hypotheses of all sentences.
    """
    most = MOST_STEPS if sentences <= SEVERAL else FEW_STEPS
    held = MOST_BYTES // max(1, 4 * rows * lowered.block)
    quick = MOST_PRODUCTS // max(1, rows * lowered.products)
    return max(1, min(left, most, held, quick))


class SearchInC:
    """One call of C for several steps, from one that is ready.

    Args:
        plan: the program, one piece of C.
        ready: the call of its first step.
        states: what one step leaves to the next.
        rule: when it ends.
        totals: (n, width) log-probabilities so far.
        steps: the most that it takes.
        looked_at: continuations of each hypothesis.
    """

    def __init__(
        self,
        plan: Any,
        ready: ReadyStep,
        states: States,
        rule: StoppingRule,
        totals: Tensor,
        steps: int,
        looked_at: int,
    ) -> None:
        self.plan, self.ready, self.states, self.looked_at = plan, ready, states, looked_at
        n, width = totals.shape
        long, real = torch.int64, torch.float64
        sizes = steps, n, width
        self.parents, self.tokens, self.ends = (torch.empty(sizes, dtype=long) for _ in range(3))
        self.totals, self.end_totals = (torch.empty(sizes, dtype=real) for _ in range(2))
        self.read = totals.to(real).clone()
        self.limits = torch.tensor(rule.limits)
        self.ended = torch.tensor([len(each) for each in rule.scores])
        self.scores = torch.zeros(n, rule.wanted, dtype=real)
        for row, each in enumerate(rule.scores):
            for place, score in enumerate(each[: rule.wanted]):
                self.scores[row, place] = score
        self.search = CSearch(
            steps=steps,
            greedy=rule.greedy,
            size=rule.size,
            best=rule.continuations,
            end=EOS,
            ending=rule.ending,
            wanted=rule.wanted,
            now=rule.now,
            enough=math.ceil(min(rule.enough, NEVER)),
            tokens=states.tokens,
            limits=self.limits.data_ptr(),
            normalizers=rule.normalizers.data_ptr(),
            longest=len(rule.normalizers),
            totals=self.read.data_ptr(),
            scores=self.scores.data_ptr(),
            ended=self.ended.data_ptr(),
            made_tokens=self.tokens.data_ptr(),
            made_parents=self.parents.data_ptr(),
            made_totals=self.totals.data_ptr(),
            end_parents=self.ends.data_ptr(),
            end_totals=self.end_totals.data_ptr(),
        )

    def run(
        self, past: PackedPast | None, later: Sequence[Tensor], best: Any, normalized: bool
    ) -> tuple[StepsMade, PackedPast | None]:
        """Take the steps; give what they made, and the caches. The state is still missing.

        Args:
            past, later: the caches of the first step, and the blocks of those behind it.
            best: the best next words of each hypothesis, where C finds them without logits.
            normalized: the program gives log-probabilities.
        """
        search, rooms = self.search, self._rooms()
        steps, n, width = self.tokens.shape
        if best is None:
            best = BestWords.of(self.tokens[0], EOS, self.looked_at)
            self.ready.call.first, self.ready.call.count = EOS, self.looked_at
            search.logits, search.normalized = self.states.logits, normalized
        else:
            search.logits = -1
        search.values, search.ids = best.values.data_ptr(), best.ids.data_ptr()
        keys = 0 if past is None else len(past.blocks) + steps - 1
        ancestors = torch.empty(2, n * width * keys, dtype=torch.int32)
        for turn in range(2 if keys else 0):
            search.ancestors[turn] = ancestors[turn].data_ptr()
        SEARCH(self.plan, self.ready.call, search, self.ready.threads)
        done = search.done
        if done > 1:
            turn = (done - 1) % 2
            for (given, _), own in zip(self.states.pairs, rooms, strict=True):
                self.ready.values[given] = own[turn]
            if past is not None:
                size = len(past.blocks) + done - 1
                table = ancestors[turn, : n * width * size].view(n, width, size)
                past = replace(past, blocks=(*past.blocks, *later[: done - 1]), ancestors=table)
        made = self.parents, self.tokens, self.totals, self.ends, self.end_totals
        return StepsMade(*(x[:done] for x in made)), past

    def _rooms(self) -> list[list[Tensor]]:
        """Two places for each tensor that a step leaves to the next, of which C takes turns."""
        pairs, ready = self.states.pairs, self.ready
        table = (CCarriedState * len(pairs))()
        rooms = []
        for to, pair in zip(table, pairs, strict=True):
            (source, into), x = self.states.slots(pair), ready.values[pair[0]]
            rooms.append([torch.empty(x.shape, dtype=x.dtype) for _ in range(2)])
            to.source, to.to = source, into
            to.bytes = ready.places.apart[into] * x.element_size()
            for turn, room in enumerate(rooms[-1]):
                to.room[turn] = room.data_ptr()
        self._table = table
        self.search.states, self.search.state = len(pairs), ctypes.addressof(table)
        return rooms
