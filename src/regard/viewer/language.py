"""What a language model looked at: for each word the ones before it, hop by hop."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.text import Text
from torch import Tensor

from regard.attention import watch
from regard.errors import RequestError
from regard.protocols import EOS
from regard.store import Loaded
from regard.tasks.language import Judged
from regard.viewer import terminal
from regard.viewer._view import Map, Run, View
from regard.viewer.picture import Picture
from regard.viewer.sides import Side

__all__ = ["TextLook", "draw", "look", "view"]

MOST = 24
"""Words that a picture has room for."""


@dataclass(frozen=True)
class TextLook:
    """One text, judged and watched.

    Args:
        judged: its words with their log-probabilities.
        read: what was read, the end before the text first.
        looks: name and weights (head, T, T) of each attention, in the order of the calls.
        scopes: in which loops each was.
    """

    model: str
    judged: Judged
    read: list[str]
    looks: list[tuple[str, Tensor]]
    scopes: list[dict[str, int]]

    def pictures(self, most: int | None = None) -> list[tuple[str, Picture]]:
        """For each attention a row for each word that was foretold, a column for each read before.

        Args:
            most: only the last so many words; all where not given.
        """
        start = 0 if most is None else max(len(self.read) - most, 0)
        rows, columns = self.judged.tokens[start:], self.read[start:]
        return [
            (name, Picture(rows, columns, weights.mean(0)[start:, start:]))
            for name, weights in self.looks
        ]

    def text(self, *, colour: bool = True) -> Text:
        """The pictures one below the other, each word's probability, and what is likeliest next."""
        made = Text()
        for name, picture in self.pictures(MOST):
            made.append_text(terminal.draw(picture, width=120, colour=colour, title=name))
            made.append("\n\n")
        pairs = zip(self.judged.tokens, self.judged.token_scores, strict=True)
        made.append("  ".join(f"{token} {math.exp(score):.3f}" for token, score in pairs))
        likely = ", ".join(f"{token} {p:.3f}" for token, p in self.judged.following)
        return made.append(f"\n\nperplexity {self.judged.perplexity:.1f}; next: {likely}\n")

    def as_json(self) -> dict[str, Any]:
        """Plain values: the text judged, and for each attention its weights, heads averaged."""
        return {
            **self.judged.as_json(),
            "read": self.read,
            "attentions": [
                {"attention": name, "weights": [[round(w, 5) for w in row] for row in rows]}
                for name, picture in self.pictures()
                for rows in [picture.weights.tolist()]
            ],
        }


def look(loaded: Loaded, text: str) -> TextLook:
    """Judge one text, watched.

    Raises:
        RequestError: the text is empty, or the model has no attention.
    """
    (judged,) = loaded.predict([text])
    if not isinstance(judged, Judged):
        raise RequestError("the input is empty: there is nothing to look at")
    model, words = loaded.model, loaded.tokenizers["text"]
    ids = [EOS, *judged.ids[:-1]]
    with torch.inference_mode(), watch(model) as seen:
        model(torch.tensor([ids], device=next(model.parameters()).device))
    looks, scopes = [], []
    for name, record in seen.items():
        for weights, scope in zip(record.steps, record.scopes, strict=True):
            turns = [f"{loop} {turn + 1}" for loop, turn in scope.items()]
            own = weights[0] if record.heads else weights
            looks.append((", ".join(turns) or name, own.float().cpu()))
            scopes.append(dict(scope))
    if not looks:
        raise RequestError("this model has no attention to look at")
    return TextLook(loaded.config["model"]["name"], judged, words.tokens(ids), looks, scopes)


def view(looks: Sequence[TextLook], *, folder: str = "") -> View:
    """A page of several texts, each with a map for every attention."""
    sides: list[Side] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for one in looks:
        rows, columns = len(sides), len(sides) + 1
        sides += [Side(one.judged.tokens), Side(one.read)]
        kept = range(len(maps), len(maps) + len(one.looks))
        maps += [
            Map.of(name, rows, columns, weights.numpy(), kind="decoder", layer=n, scope=scope)
            for n, ((name, weights), scope) in enumerate(zip(one.looks, one.scopes, strict=True), 1)
        ]
        runs.append(Run(
            list(kept), input=one.judged.input, output=one.judged.output, model=one.model,
            folder=folder, score=one.judged.score,
        ))  # fmt: skip
    return View(sides, maps, runs, f"{folder or looks[0].model} · {runs[0].input}")


def draw(one: TextLook, path: str | Path, *, width: float | str | None = None) -> None:
    """A figure: the last words, a panel for every attention."""
    from regard.viewer.figure import Panel, grid

    panels = [Panel(name, picture) for name, picture in one.pictures(MOST)]
    grid(panels, path, title=f"perplexity {one.judged.perplexity:.1f}", width=width)
