"""What a recorder writes down of one attention: weights, step by step, with named axes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.axes import Axes
from regard.attention.lazy_weights import LazyWeights
from regard.attention.mask import Edges
from regard.attention.stored_weights import DiskWeights, TopKWeights
from regard.errors import RequestError, nearest

__all__ = ["Facts", "Record"]

_UNDECLARED = ("example",)
"""Batch axes of what declares none: a bare `attend`, or a module that is no attention."""


class Facts(NamedTuple):
    """What was found out about one call of an attention that is not this package's.

    Args:
        kernel: the operation that ran.
        by_pattern: it was told by its pattern: a softmax whose result multiplies values.
        causal: whether no query looks at what comes after it; None where this is not known.
        dropped: dropout followed; weights are those before it.
        empty: how many rows look at nothing; -1 where weights were not kept.
        error: the largest difference between weights times values and the real output, of every
            row, or some of them from the first to the last where there are more than 64; not a
            number where the two cannot be compared.
        projected: of contribution norms, whether the layer W^O was found behind the heads.
    """

    kernel: str
    by_pattern: bool
    causal: bool | None
    dropped: bool
    empty: int
    error: float
    projected: bool | None = None


@dataclass
class Record:
    """What one attention looked at, step by step.

    `steps[t]` has the weights of its t-th call, probabilities before dropout, never averaged, with
    the axes that `axes` names. `scopes[t]` says in which loops the call was (`scope("hop", 2)`),
    and `rows[t]` to what each row of the first axis belongs (`rows_of(example=...)`).

    Args:
        name: path of the module, or the name of a bare `attend`.
        heads: weights have an axis of heads.
        features: scores are feature-wise: weights have an axis of features behind the keys.
        role: what looks at what, as the attention declares it: a key of `ROLES`; "" where it
            declares nothing.
        batch: names of the axes before heads and queries, as the attention declares them.
        edges: of each call over a graph, its edges, whose order the axis `edge` has.
        sources: of each such call, how many nodes are looked at where they are others than those
            that look; 0 where they are the same.
        facts: of each call of an attention that is not this package's, what was found out.
        meaning: of each such call, what its axes are.
    """

    name: str
    heads: bool
    kept: list[Tensor | TopKWeights | DiskWeights | LazyWeights] = field(default_factory=list)
    scopes: list[dict[str, int]] = field(default_factory=list)
    features: bool = False
    role: str = ""
    batch: tuple[str, ...] = _UNDECLARED
    rows: list[dict[str, Tensor]] = field(default_factory=list)
    edges: list[Edges] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    meaning: list[Axes] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Its name; that of a whole model is empty."""
        return self.name or "the model"

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of each step.

        Of a translator's cross-attention (example, head, query, key); of feature-wise scores
        (example, query, key, feature); of a graph (head, edge). Where a beam decodes, each
        hypothesis has a past of its own in (example, hypothesis, head, query, key), and is a query
        where all look at one source. Of an attention that is not this package's, "example" stands
        where the size is that of the batch that the model was given; else the axis has a plain
        name: "window", "frame", "block", "call".
        """
        behind = ("edge",) if self.edges else ("query", "key")
        behind = (*(("head",) if self.heads else ()), *behind)
        behind = (*behind, *(("feature",) if self.features else ()))
        count = len(self.kept[0].shape) - len(behind) if self.kept else len(self.batch)
        more = tuple(f"batch {n}" for n in range(len(self.batch) + 1, count + 1))
        return (*(*self.batch, *more)[:count], *behind)

    def axis(self, name: str) -> int:
        """The place of an axis.

        Raises:
            RequestError: there is none of that name.
        """
        if name not in self.axes:
            raise RequestError(
                f"{self.title} has no axis called {name!r}; {nearest(name, self.axes)}"
            )
        return self.axes.index(name)

    @property
    def steps(self) -> list[Tensor]:
        """Every call's weights; with `top_k`, zeros stand for what was not kept."""
        return [step if isinstance(step, Tensor) else step.dense() for step in self.kept]

    def step(self, number: int) -> Tensor:
        """One call's weights."""
        kept = self.kept[number]
        return kept if isinstance(kept, Tensor) else kept.dense()

    @property
    def shared(self) -> bool:
        """Whether a decoder's step looked at one set of keys a sentence: (B, [head,] beam, K).

        What hypotheses have written themselves is a past of each: (B, beam, [head,] 1, K).
        """
        return "hypothesis" not in self.axes

    def within(self, scope: Mapping[str, int]) -> "Record":
        """The calls of one turn of a loop: `within({"hop": 2})`; turns are counted from 1.

        Raises:
            RequestError: there was no such turn.
        """
        inside = [all(own.get(loop) == turn for loop, turn in scope.items()) for own in self.scopes]
        if not any(inside) and self.scopes:
            turns = ", ".join(dict.fromkeys(map(str, self.scopes)))
            raise RequestError(f"{self.title}: no call within {dict(scope)}; there are {turns}")

        def some(whole: list[Any]) -> list[Any]:
            return [one for one, there in zip(whole, inside, strict=False) if there]

        return replace(
            self,
            kept=some(self.kept),
            scopes=some(self.scopes),
            rows=some(self.rows),
            edges=some(self.edges),
            sources=some(self.sources),
            facts=some(self.facts),
            meaning=some(self.meaning),
        )

    @property
    def weights(self) -> Tensor:
        """All weights in one tensor: a single call's own, or (step, *batch, [head,] Q, K).

        Steps that looked at fewer keys (a growing past) are filled up with zeros.

        Raises:
            RequestError: calls of other sizes, as of a prompt and then of single tokens.
        """
        steps = self.steps
        if not steps:
            raise RequestError(f"{self.title}: nothing was seen")
        if len(steps) == 1:
            return steps[0]
        even = self._even(steps)
        if len({step.shape for step in even}) > 1:
            sizes = ", ".join(dict.fromkeys(str(tuple(step.shape)) for step in steps))
            raise RequestError(
                f"{self.title}: its {len(steps)} calls are of other sizes ({sizes}) and make no "
                "one tensor; take .steps, or .of(row)"
            )
        return torch.stack(even)

    def of(self, row: int = 0) -> Tensor:
        """One example, its queries in order over all steps: (head, Q, K).

        For teacher-forced calls: one call with all queries, or a step for each query. Of `generate`
        of a Hugging Face model, a returned sequence: weights as of one pass over it.

        Args:
            row: the example; the row of the batch where `rows_of` said nothing else; of `generate`,
                the row of the sequences.

        Raises:
            RequestError: no call had the example; the first axis is not of examples; calls that do
                not go on from each other, or runs of `generate` that cannot be put together.
        """
        self.check_row()
        run = self.meaning[0].run if self.meaning else None
        if run is not None:
            return run.of(self, row)
        steps = []
        for step, place in zip(self._even(self.steps), self._places(row), strict=True):
            if place is not None:
                steps.append(self._heads(step[place]))
        if not steps:
            raise RequestError(f"{self.title}: no call had example {row}")
        return torch.cat(steps, dim=1)

    def check_row(self) -> None:
        """Refuse what is no text of one example, by what was noted of each call.

        Raises:
            RequestError: the first axis is not of examples, or the calls are of several texts.
        """
        for axes in self.meaning:
            if axes.batch[:1] not in (("example",), ()):
                raise RequestError(f"{self.title}: {axes.reason}")
            if len(axes.batch) > 1:
                raise RequestError(
                    f"{self.title}: one example has several axes ({', '.join(self.axes)}); "
                    "take .weights"
                )
        if len({axes.run for axes in self.meaning}) > 1:
            raise RequestError(
                f"{self.title}: it ran in several runs of generate, or outside of them too; choose "
                'one by within({"generate": n})'
            )
        if not self.meaning or self.meaning[0].run is not None:
            return
        if len({(axes.batch, axes.heads) for axes in self.meaning}) > 1:
            raise RequestError(f"{self.title}: its calls have other axes; take .steps")
        if not self.grows:
            raise RequestError(
                f"{self.title}: its {len(self.kept)} calls do not go on from each other; choose "
                'one by within({"call": n}), or take .steps'
            )

    @property
    def grows(self) -> bool:
        """Whether each call goes on where the one before ended: as many keys as rows so far.

        Of what looks at something else, that one is the same throughout.
        """
        if len(self.kept) < 2:
            return True
        sizes = [(int(step.shape[-2]), int(step.shape[-1])) for step in self.kept]
        if self.role == "cross":
            return len({keys for _, keys in sizes}) == 1
        total = 0
        for rows, keys in sizes:
            total += rows
            if keys != total:
                return False
        return True

    def _places(self, example: int) -> list[int | None]:
        """At each step the row of an example; None where it is not there."""
        places: list[int | None] = []
        for t in range(len(self.kept)):
            known = self.rows[t].get("example") if t < len(self.rows) else None
            if known is None:
                places.append(example)
            else:
                there = (known == example).nonzero()[:, 0].tolist()
                places.append(there[0] if there else None)
        return places

    def along(self, trail: Tensor) -> Tensor:
        """The hypothesis that a decoder's trail leads to, whatever re-orderings a beam made.

        Args:
            trail: `trail[t] = (row, slot)`, where the hypothesis stood at step t.

        Shapes:
            trail (T, 2); weights (head, T, K)
        """
        if len(trail) > len(self.kept):
            raise RequestError(
                f"{self.title}: the hypothesis has {len(trail)} steps but {len(self.kept)} were "
                "seen; watch the decoding of this one sentence alone"
            )
        rows = []
        for (row, slot), step in zip(trail.tolist(), self._even(self.steps), strict=False):
            one = step[row]
            if not self.shared:  # (B, beam, [H,] 1, K): rows of their own
                rows.append(self._heads(one[slot])[:, -1])
            else:  # (B, [H,] beam, K): beams are the query axis
                rows.append(self._heads(one)[:, slot])
        return torch.stack(rows, dim=1)

    def _heads(self, weights: Tensor) -> Tensor:
        """([head,] Q, K) to (head, Q, K)."""
        return weights if self.heads else weights[None]

    def _even(self, steps: list[Tensor]) -> list[Tensor]:
        """Steps filled up with zeros to the widest one's number of keys."""
        axis = -2 if self.features else -1
        widest = max((s.shape[axis] for s in steps), default=0)
        behind = (0, 0) if self.features else ()
        return [
            s if s.shape[axis] == widest else F.pad(s, (*behind, 0, widest - s.shape[axis]))
            for s in steps
        ]
