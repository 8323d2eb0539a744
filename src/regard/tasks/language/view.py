"""What a language model looked at: for each word the ones before it, hop by hop."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention import Record
from regard.errors import RequestError
from regard.protocols import EOS
from regard.tasks.answer_panels import bars
from regard.tasks.language.language import ScoredText
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.views import Axis, Map, MapPanel, Panel, Run, ValuesPanel, View, ViewOptions
from regard.watching.watcher import watch

__all__ = ["view"]

MOST = 24
"""Words that a picture has room for."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Several texts, each with a map for every attention and every turn of a loop.

    Raises:
        RequestError: a text is empty, or the model has no attention.
    """
    options.only(task=loaded.task.name)
    model, words = loaded.model, loaded.tokenizers["text"]
    device = next(model.parameters()).device
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for text in inputs:
        (judged,) = loaded.predict([text])
        if not isinstance(judged, ScoredText):
            raise RequestError("the input is empty: there is nothing to look at")
        ids = [EOS, *judged.ids[:-1]]
        with torch.inference_mode(), watch(model) as seen:
            model(torch.tensor([ids], device=device))
        rows, columns = len(axes), len(axes) + 1
        read = words.tokens(ids)
        axes += [Axis(judged.tokens), Axis(read)]
        kept: list[int] = []
        for record in seen.values():
            for name, scope, weights in _calls(record):
                kept.append(len(maps))
                maps.append(
                    Map.of(
                        name,
                        rows,
                        columns,
                        weights.numpy(),
                        kind=record.role,
                        layer=len(kept),
                        scope=scope,
                    )
                )
        if not kept:
            raise RequestError("this model has no attention to look at")
        runs.append(
            Run(
                kept,
                input=judged.input,
                output=judged.output,
                model=name_of(loaded),
                folder=options.folder,
                score=judged.score,
                title=f"perplexity {judged.perplexity:.1f}",
                panels=_panels(judged, maps, kept),
                result={
                    **judged.as_json(),
                    "read": read,
                    "attentions": [
                        {
                            "attention": maps[m].name,
                            "weights": [
                                [round(float(w), 5) for w in row] for row in maps[m].weights.mean(0)
                            ],
                        }
                        for m in kept
                    ],
                },
            )
        )
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {runs[0].input}")


def _calls(record: Record) -> list[tuple[str, dict[str, int], Tensor]]:
    """Name, loops and weights (head, T, T) of each call."""
    found = []
    for t, scope in enumerate(record.scopes):
        turns = [f"{loop} {turn + 1}" for loop, turn in scope.items()]
        step = record.steps[t][0]
        own = step if record.heads else step[None]
        found.append((", ".join(turns) or record.name, dict(scope), own.float().cpu()))
    return found


def _panels(judged: ScoredText, maps: Sequence[Map], kept: Sequence[int]) -> list[Panel]:
    count = len(judged.tokens)
    last = tuple(range(max(count - MOST, 0), count))
    panels: list[Panel] = [
        MapPanel("matrix", maps[m].name, map=m, rows=last, columns=last) for m in kept
    ]
    likely = tuple(math.exp(score) for score in judged.token_scores)
    panels.append(
        ValuesPanel(
            "shaded",
            "how likely each word is",
            f"perplexity {judged.perplexity:.1f}",
            labels=tuple(judged.tokens),
            values=likely,
        )
    )
    return [*panels, bars(judged.following, "next")]
