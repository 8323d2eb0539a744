"""What a reader looked at: both ways between question and document, and the attended attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.passages.questions import Question, parse
from regard.errors import RequestError
from regard.tasks.answer_panels import bars, ranked
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.tasks.reading.questions import QuestionDataset
from regard.views import Axis, Map, MapPanel, Panel, Run, ValuesPanel, View, ViewOptions
from regard.watching.watcher import watch

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
        roles: what each of them declares.
    """

    model: str
    question: Question
    answers: list[tuple[str, float]]
    maps: dict[str, Tensor]
    roles: dict[str, str]

    @property
    def pointers(self) -> list[Tensor]:
        """What points at the answer (at its first and its last word): (document,) each."""
        return [weights[0] for n, weights in self.maps.items() if self.roles[n] == "answer"]

    def places(self, most: int = MOST) -> tuple[int, ...]:
        """The words of the document that the answer weighs most, in order."""
        at = torch.stack(self.pointers).sum(0).topk(min(most, len(self.question.words)))
        return tuple(at.indices.sort().values.tolist())

    def weight_of_query(self) -> list[float]:
        """β̄: how much each word of the query counts; nothing where the model has none."""
        for name, weights in self.maps.items():
            if self.roles[name] == "query":
                return [float(w) for w in weights.mean(1)]
        return []

    def result(self) -> dict[str, Any]:
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


def look(loaded: LoadedModel, text: str) -> ReaderLook:
    """Answer one question, watched.

    Raises:
        RequestError: the input is no question.
    """
    task = loaded.task
    refused = task.predict(loaded.model, [text], None, loaded.fields)[0]
    if refused.refused or not text.strip():
        raise RequestError(refused.refused or "the input is empty: there is nothing to look at")
    asked = parse(text)
    examples = QuestionDataset([asked], task.words(loaded.fields), task.pointers)
    batch = examples.collate([0]).to(next(loaded.model.parameters()).device)
    with watch(loaded.model) as seen, torch.inference_mode():
        loaded.model(batch.document, batch.query, batch.lengths, batch.query_lengths)
    maps = {name: record.of(0)[0].float().cpu() for name, record in seen.items()}
    roles = {name: record.role for name, record in seen.items()}
    return ReaderLook(name_of(loaded), asked, ranked(refused), maps, roles)


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Every attention over the whole document; pictures have the words that the answer weighs."""
    options.only(task=loaded.task.name)
    looks = [look(loaded, text) for text in inputs]
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for one in looks:
        document = len(axes)
        axes += [_words(one.question.words), _words(one.question.query), Axis([ANSWER], "steps")]
        kept: list[int] = []
        for name, weights in one.maps.items():
            role = one.roles[name]
            rows = document + (2 if role == "answer" else 1)
            layer = sum(maps[m].kind == role for m in kept) + 1
            kept.append(len(maps))
            maps.append(Map.of(name, rows, document, weights[None].numpy(), kind=role, layer=layer))
        kept.reverse()  # the attention that answers comes first
        answer, probability = one.answers[0]
        runs.append(
            Run(
                kept,
                input=" ".join(one.question.query),
                output=answer,
                model=one.model,
                folder=options.folder,
                score=probability,
                title=f"{one.model} · {answer} {probability:.2f}",
                panels=_panels(one, maps, kept),
                result=one.result(),
            )
        )
    return View(axes, maps, runs, f"{options.folder or looks[0].model} · {looks[0].answers[0][0]}")


def _panels(one: ReaderLook, maps: Sequence[Map], kept: Sequence[int]) -> list[Panel]:
    places = one.places()
    panels: list[Panel] = [
        MapPanel("matrix", maps[m].name, map=m, columns=places) for m in reversed(kept)
    ]
    panels += [
        MapPanel("text", "the document", map=m) for m in reversed(kept) if maps[m].kind == "answer"
    ]
    if weights := one.weight_of_query():
        query = tuple(one.question.query)
        panels.append(ValuesPanel("shaded", "the question", labels=query, values=tuple(weights)))
    return [*panels, bars(one.answers)]


def _words(words: list[str]) -> Axis:
    """Words that are whole, whatever they look like."""
    return Axis(words, groups=[[i] for i in range(len(words))], texts=words)
