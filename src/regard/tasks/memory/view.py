"""What a memory network looked at: a table of the facts, hop by hop."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.data.passages.stories import told
from regard.errors import RequestError
from regard.tasks.answer_panels import bars, ranked
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.tasks.memory.memory import Answer
from regard.views import Axis, Map, MapPanel, Panel, Run, View, ViewOptions

__all__ = ["view"]

MOST = 24
"""Facts that a picture has room for."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Several questions, each with its table of facts, hop by hop.

    Raises:
        RequestError: an input without a question.
    """
    options.only(task=loaded.task.name)
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    model = name_of(loaded)
    for text, found in zip(inputs, loaded.predict(inputs), strict=True):
        if not isinstance(found, Answer):
            raise RequestError(found.refused or "the input is empty: there is nothing to look at")
        question, answers = told(text)[1], ranked(found)
        panels: list[Panel] = []
        kept: list[int] = []
        if found.facts:
            rows, columns = len(axes), len(axes) + 1
            axes += [Axis([question], "steps"), Axis(found.facts, "memory")]
            for hop, weights in enumerate(found.looks):
                kept.append(len(maps))
                maps.append(
                    Map.of(
                        f"hops.{hop}",
                        rows,
                        columns,
                        np.array([[weights]], np.float32),
                        kind="hop",
                        layer=hop + 1,
                        scope={"hop": hop},
                    )
                )
            last = tuple(range(max(len(found.facts) - MOST, 0), len(found.facts)))
            panels.append(MapPanel("hops", map=kept[0], columns=last))
        answer, probability = answers[0]
        note = "" if found.facts else "no facts: answered from the question alone"
        runs.append(
            Run(
                kept,
                input=question,
                output=answer,
                model=model,
                folder=options.folder,
                score=probability,
                title=f"{question} {answer} ({probability:.2f})",
                panels=[*panels, replace(bars(answers), note=note)],
                result={
                    "input": found.input,
                    "output": found.output,
                    "question": question,
                    "answers": [{"answer": a, "probability": p} for a, p in answers],
                    "facts": found.as_json()["facts"],
                },
            )
        )
    return View(axes, maps, runs, f"{options.folder or model} · {runs[0].input}")
