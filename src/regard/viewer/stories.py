"""What a memory network looked at: a table of the facts, hop by hop."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.text import Text

from regard.data.stories import told
from regard.errors import RequestError
from regard.store import Loaded
from regard.tasks.memory import Answer
from regard.viewer import terminal
from regard.viewer._view import Map, Run, View
from regard.viewer.picture import Picture
from regard.viewer.sides import Side

__all__ = ["StoryLook", "draw", "look", "view"]

MOST = 24
"""Facts that a picture has room for."""


@dataclass(frozen=True)
class StoryLook:
    """One question, answered and watched."""

    model: str
    question: str
    answer: Answer

    @property
    def answers(self) -> list[tuple[str, float]]:
        """The answer and the next ones, each with its probability."""
        return terminal.ranked(self.answer)

    @property
    def hops(self) -> list[str]:
        """What the columns are called."""
        return [f"hop {n}" for n in range(1, len(self.answer.looks) + 1)]

    def picture(self, most: int | None = None) -> Picture:
        """A row for each fact, a column for each hop; the last `most` facts."""
        facts = self.answer.facts if most is None else self.answer.facts[-most:]
        looks = torch.tensor(self.answer.looks).view(len(self.hops), -1)
        return Picture(facts, self.hops, looks[:, looks.shape[1] - len(facts) :].T)

    def text(self, *, colour: bool = True) -> Text:
        """The table and the answers, for a terminal."""
        made = Text()
        if self.answer.facts:
            width = 3 * max(len(fact) for fact in self.answer.facts)  # a third is the labels'
            made.append_text(
                terminal.draw(self.picture(), width=max(width, 100), colour=colour, values=True)
            )
        else:
            made.append("no facts: answered from the question alone")
        made.append(f"\n\n{self.question}\n\n")
        return made.append(terminal.listed(self.answers))

    def as_json(self) -> dict[str, Any]:
        """Plain values: question, answers, and each fact with its weight at every hop."""
        return {
            "input": self.answer.input,
            "output": self.answer.output,
            "question": self.question,
            "answers": [{"answer": a, "probability": p} for a, p in self.answers],
            "facts": self.answer.as_json()["facts"],
        }


def look(loaded: Loaded, text: str) -> StoryLook:
    """Answer one question, watched.

    Raises:
        RequestError: there is no question.
    """
    (found,) = loaded.predict([text])
    if not isinstance(found, Answer):
        raise RequestError(found.refused or "the input is empty: there is nothing to look at")
    return StoryLook(loaded.config["model"]["name"], told(text)[1], found)


def view(looks: Sequence[StoryLook], *, folder: str = "") -> View:
    """A page of several questions, each with its table of facts, hop by hop.

    Raises:
        RequestError: none of them has a fact to look at.
    """
    sides: list[Side] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for one in looks:
        if not one.answer.facts:
            continue
        rows, columns = len(sides), len(sides) + 1
        sides += [Side([one.question], "steps"), Side(one.answer.facts, "memory")]
        kept = range(len(maps), len(maps) + len(one.hops))
        maps += [
            Map.of(f"hops.{n}", rows, columns, torch.tensor([[weights]]).numpy(), layer=n + 1,
                   scope={"hop": n})
            for n, weights in enumerate(one.answer.looks)
        ]  # fmt: skip
        answer, probability = one.answers[0]
        runs.append(Run(
            list(kept), input=one.question, output=answer, model=one.model, folder=folder,
            score=probability,
        ))  # fmt: skip
    if not runs:
        raise RequestError("there are no facts to look at: expected sentences before the question")
    return View(sides, maps, runs, f"{folder or looks[0].model} · {runs[0].input}")


def draw(one: StoryLook, path: str | Path, *, width: float | str | None = None) -> None:
    """A figure: the last facts, hop by hop.

    Raises:
        RequestError: there are no facts.
    """
    from regard.viewer.figure import alignment

    if not one.answer.facts:
        raise RequestError("there are no facts to draw: expected sentences before the question")
    title = f"{one.question} {one.answers[0][0]} ({one.answers[0][1]:.2f})"
    alignment(one.picture(MOST), path, title=title, width=width, values=True)
