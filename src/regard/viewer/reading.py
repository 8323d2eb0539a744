"""What a reader looked at: both ways between question and document, and the attended attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.text import Text
from torch import Tensor

from regard.attention import watch
from regard.data.reading import Question, parse
from regard.errors import RequestError
from regard.store import Loaded
from regard.tasks.questions import Questions
from regard.tasks.reading import Reading
from regard.viewer._view import Map, Run, View
from regard.viewer.palette import top_of
from regard.viewer.picture import Picture
from regard.viewer.sides import Side
from regard.viewer.terminal import listed, mark, ranked, shading

__all__ = ["ANSWER", "ReaderLook", "look", "view"]

ANSWER = "⇒ answer"
"""The row of the attention that points at the answer."""

MOST = 24
"""Words of the document that a picture has room for."""


@dataclass(frozen=True)
class ReaderLook:
    """One question, answered and watched.

    Args:
        answers: the answer and the next ones, each with its probability.
        maps: by the path of the attention, its weights (rows, document): rows are the words of the
            query, or the answer alone.
    """

    model: str
    question: Question
    answers: list[tuple[str, float]]
    maps: dict[str, Tensor]

    @property
    def pointers(self) -> list[Tensor]:
        """What points at the answer (at its first and its last word): (document,) each."""
        return [weights[0] for weights in self.maps.values() if len(weights) == 1]

    def rows(self, name: str) -> list[str]:
        """The labels of a map's rows."""
        return [ANSWER] if len(self.maps[name]) == 1 else self.question.query

    def picture(self, most: int = MOST) -> list[tuple[str, Picture]]:
        """Each map over the `most` words of the document that the answer weighs most, in order.

        The attention that answers is the last row of those it is made of.
        """
        at = torch.stack(self.pointers).sum(0).topk(min(most, len(self.question.places)))
        order = at.indices.sort().values
        words = self.question.words
        columns = [words[i] for i in order.tolist()]
        made = {n.rpartition(".")[0]: w for n, w in self.maps.items() if len(w) == 1}
        parts = {n: w for n, w in self.maps.items() if len(w) > 1}
        if not parts:
            return [(n, Picture([ANSWER], columns, w[:, order])) for n, w in self.maps.items()]
        rows = [*self.question.query, ANSWER]
        return [
            (n, Picture(rows, columns, torch.cat([w, made[n.rpartition(".")[0]]])[:, order]))
            for n, w in parts.items()
        ]

    def weight_of_query(self) -> list[float]:
        """β̄: how much each word of the query counts; nothing where the model has none."""
        for name, weights in self.maps.items():
            if name.endswith(".query"):
                return [float(w) for w in weights.mean(1)]
        return []

    def text(self, *, colour: bool = True) -> Text:
        """Document and query with shaded words, and the answers, for a terminal."""
        made = Text()
        for pointer in self.pointers:
            made.append_text(_shaded(self.question.words, pointer.tolist(), colour)).append("\n\n")
        weights = self.weight_of_query() or [0.0] * len(self.question.query)
        made.append_text(_shaded(self.question.query, weights, colour)).append("\n\n")
        return made.append(listed(self.answers))

    def as_json(self) -> dict[str, Any]:
        """Plain values: the words, the answers and the weights."""
        return {
            "input": self.question.given,
            "output": self.answers[0][0],
            "answers": [{"answer": a, "probability": p} for a, p in self.answers],
            "document": self.question.words,
            "query": self.question.query,
            "attentions": {
                name: [[round(float(w), 5) for w in row] for row in weights]
                for name, weights in self.maps.items()
            },
        }


def look(loaded: Loaded, text: str) -> ReaderLook:
    """Answer one question, watched.

    Raises:
        RequestError: the input is no question.
    """
    task = loaded.task
    assert isinstance(task, Reading)
    refused = task.predict(loaded.model, [text], None, loaded.fields)[0]
    if refused.refused or not text.strip():
        raise RequestError(refused.refused or "the input is empty: there is nothing to look at")
    asked = parse(text)
    examples = Questions([asked], task.words(loaded.fields), task.pointers)
    batch = examples.collate([0]).to(next(loaded.model.parameters()).device)
    with watch(loaded.model) as seen, torch.inference_mode():
        loaded.model(batch.document, batch.query, batch.lengths, batch.query_lengths)
    maps = {name: record.weights[0].float().cpu() for name, record in seen.items()}
    return ReaderLook(loaded.config["model"]["name"], asked, ranked(refused), maps)


def view(looks: Sequence[ReaderLook], *, folder: str = "") -> View:
    """A page of several questions: every attention over the whole document."""
    sides: list[Side] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for one in looks:
        document = len(sides)
        sides += [_side(one.question.words), _side(one.question.query), Side([ANSWER], "steps")]
        kept = []
        for layer, (name, weights) in enumerate(one.maps.items(), 1):
            rows = document + (2 if len(weights) == 1 else 1)
            kept.append(len(maps))
            maps.append(Map.of(name, rows, document, weights[None], layer=layer))
        kept.reverse()  # the attention that answers comes first
        runs.append(Run(
            kept, input=" ".join(one.question.query), output=one.answers[0][0], model=one.model,
            folder=folder, score=one.answers[0][1],
        ))  # fmt: skip
    return View(sides, maps, runs, f"{folder or looks[0].model} · {looks[0].answers[0][0]}")


def draw(one: ReaderLook, path: str | Path, *, width: float | str | None = None) -> None:
    """A figure: all attentions over the words that the answer weighs most."""
    from regard.viewer.figure import Panel, grid

    title = f"{one.model} · {one.answers[0][0]} {one.answers[0][1]:.2f}"
    grid([Panel(n, p) for n, p in one.picture()], path, across=1, title=title, width=width)


def _side(words: list[str]) -> Side:
    """Words that are whole, whatever they look like."""
    return Side(words, groups=[[i] for i in range(len(words))], texts=words)


def _shaded(words: Sequence[str], weights: Sequence[float], colour: bool) -> Text:
    """Words in the colour of their weight, or with a mark before those that have some."""
    top = top_of([max(weights, default=0.0)])
    made = Text()
    for word, weight in zip(words, weights, strict=True):
        shown = "".join(c if c.isprintable() else "�" for c in word)
        if colour:
            made.append(shown, shading(weight, top))
        else:
            made.append(mark(weight, top).strip() + shown)
        made.append(" ")
    return made
