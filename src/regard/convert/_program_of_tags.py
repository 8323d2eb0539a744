"""What `program.json` says of a tagger."""

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.convert._program_parts import (
    check_agreement,
    check_task,
    tokenizer_file,
    weights_of,
)
from regard.convert._tagger_graph import tagger_graph
from regard.convert.recorded.examples import UNSEEN
from regard.convert.recorded.stored import stored_graph
from regard.errors import RequestError
from regard.folder.tags_program import TagsProgram
from regard.protocols import UNK, Inputs
from regard.tasks.tags.tagging import Tagging

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["tags_program"]

TAGGING = (
    "asked",
    "batches",
    "outputs",
    "fields",
    "_scores",
    "_inputs",
    "_decoded",
    "join",
    "reads_files",
)
"""What a task that tags may not change: the runtime does as `Tagging` does."""


def tags_program(loaded: "Loaded", weights: Collection[str]) -> dict[str, Any]:
    """The program of a tagger.

    Raises:
        RequestError: it does what a program cannot, with the reason.
    """
    task: Any = loaded.task
    check_task(loaded, Tagging, TAGGING, ())
    for name in ("features", "window"):
        if getattr(task, name):
            raise RequestError(f"program: models with task.{name} have no form there yet")
    text: Any = loaded.fields["text"]
    if text.contextual is not None:
        raise RequestError(
            "program: expected a model that reads words alone; this one reads the states of an "
            "encoder (data.vectors.encoder)"
        )
    graph = tagger_graph(loaded.model, fold=False)
    tokenizer, found = tokenizer_file(loaded.folder, "text"), ""
    if task.marks and loaded.fields["predicates"].learned:
        found = "field.predicates.json"
    files = [tokenizer, "field.tags.json", *([found] if found else [])]
    made = {
        "kind": "tags",
        "belongs": files,
        "tokenizer": tokenizer,
        "characters": text.characters,
        "marks": task.marks,
        "predicates": found,
        "tags": loaded.fields["tags"].names,  # type: ignore[attr-defined]
        "scheme": task.scheme,
        "learned_as": task.learned_as,
        "constraints": task.constraints,
        "outside": task.outside,
        "temperature": task.temperature,
        "most": graph.most,
        "graph": stored_graph(graph, loaded.model, weights),
    }
    _check(loaded, made)
    return made


def _check(loaded: "Loaded", stored: Mapping[str, Any]) -> None:
    """Compare the program with the model for one text."""
    model = loaded.model
    program = TagsProgram(json.loads(json.dumps(stored)), loaded.folder, weights_of(model))
    ids = UNK + 1 + np.arange(UNSEEN) * 7 % max(1, len(loaded.tokenizers["text"]) - UNK - 1)
    marks = [UNSEEN // 2]
    letters = None
    extras = {"marks": torch.zeros(1, UNSEEN, dtype=torch.int64)}
    extras["marks"][0, marks] = 1
    if stored["characters"]:
        most = len(loaded.fields["text"].rows()["num_characters"])
        grid = UNK + 1 + np.arange(UNSEEN * 5).reshape(1, UNSEEN, 5) % max(1, most - UNK - 1)
        letters = np.where(np.arange(5) <= np.arange(UNSEEN)[:, None] % 5, grid, 0)
        extras["characters"] = torch.from_numpy(letters)
    with torch.inference_mode():
        output = model(Inputs(torch.from_numpy(ids)[None], torch.tensor([UNSEEN]), extras))
    found = program.run(ids.tolist(), marks, letters)
    check_agreement(found["emissions"], output.logits.numpy())
