"""What `program.json` says of models that answer questions, about documents or stories."""

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.convert._program_parts import (
    check_agreement,
    check_task,
    tokenizer_file,
    weights_of,
)
from regard.convert.recorded.examples import SIZES, UNSEEN
from regard.convert.recorded.readers import ReaderGraph, reader_graph
from regard.convert.recorded.stored import stored_graph
from regard.errors import RequestError
from regard.folder.reading_program import ReadingProgram
from regard.folder.stories_program import StoriesProgram
from regard.layers.sentence_bags import Sentences
from regard.protocols import PAD, UNK, Inputs
from regard.tasks.memory.memory import MemoryQA
from regard.tasks.reading.reading import Reading
from regard.watching.watcher import watch

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["reading_program", "stories_program"]

READING = ("asked", "batches", "words", "outputs", "_logits", "_asked", "_words", "_spans", "join")
"""What a task of reading may not change: the runtime does as `Reading` does."""
STORIES = ("asked", "batches", "outputs", "questions", "join")
"""What a task of stories may not change: the runtime does as `MemoryQA` does."""
SHIFTS = (-1, 2, -8, 5)
"""By how many words a query is longer than its document, in the examples and the unseen one."""


def reading_program(loaded: "Loaded", weights: Collection[str]) -> dict[str, Any]:
    """The program of a model that reads a document and points at the answer.

    Raises:
        RequestError: it does what a program cannot, with the reason.
    """
    task: Any = loaded.task
    check_task(loaded, Reading, READING, ())
    model, words = loaded.model, task.words(loaded.fields)
    if loaded.fields["document"].contextual is not None:  # type: ignore[attr-defined]
        raise RequestError("program: expected a model that reads words alone")

    def logits(document: Inputs, query: Inputs) -> dict[str, Tensor]:
        found = model(document.values, query.values, document.lengths, query.lengths).logits
        found = found if getattr(model, "normalized", False) else found.log_softmax(-1)
        return {"logits": found if found.dim() == 3 else found[:, None]}

    def inputs(size: int, shift: int) -> list[Inputs]:
        count = words.size + words.anonymous
        return [_ids(size, count), _ids(size + shift, count)]

    *examples, unseen = (inputs(n, k) for n, k in zip((*SIZES, UNSEEN), SHIFTS, strict=True))
    made = reader_graph(model, examples, ["document", "query"], fold=False, call=logits)
    _whole(made)
    tokenizer = tokenizer_file(loaded.folder, "document")
    found = {
        "kind": "reading",
        "belongs": [tokenizer],
        "tokenizer": tokenizer,
        "anonymous": task.anonymous,
        "max_document": task.max_document,
        "longest": task.longest,
        "pointers": task.pointers,
        "sizes": made.sizes,
        "graph": stored_graph(made.graph, model, weights),
    }
    program = ReadingProgram(json.loads(json.dumps(found)), loaded.folder, weights_of(model))
    with torch.inference_mode():
        expected = logits(*unseen)["logits"][0].numpy()
    check_agreement(program.logits(*(one.values[0].tolist() for one in unseen)), expected)
    return found


def stories_program(loaded: "Loaded", weights: Collection[str]) -> dict[str, Any]:
    """The program of a model with a memory, with what each hop looks at.

    Raises:
        RequestError: it does what a program cannot, with the reason.
    """
    task: Any = loaded.task
    check_task(loaded, MemoryQA, STORIES, ())
    model = loaded.model

    def answered(story: Inputs, question: Inputs) -> dict[str, Tensor]:
        ids = story.values
        words = torch.cat([ids.new_zeros(1, ids.shape[2]), ids[0]])
        places = torch.arange(1, ids.shape[1] + 1)[None]
        with watch(model) as seen:
            logits = model(Sentences(words, places), question.values, story.lengths).logits
        looks = {f"look.{k}": seen[name].weights for k, name in enumerate(seen)}
        return {"logits": logits, **looks}

    count = len(loaded.tokenizers["story"])
    sizes = zip((*SIZES, UNSEEN), (8, 12, 9, 6), (5, 13, 8, 3), strict=True)
    *examples, unseen = ([_story(n, w, count), _ids(q, count)] for n, w, q in sizes)
    made = reader_graph(model, examples, ["story", "question"], fold=False, call=answered)
    _whole(made)
    tokenizer = tokenizer_file(loaded.folder, "story")
    found = {
        "kind": "stories",
        "belongs": [tokenizer],
        "tokenizer": tokenizer,
        "facts": task.facts,
        "sizes": made.sizes,
        "graph": stored_graph(made.graph, model, weights),
    }
    program = StoriesProgram(json.loads(json.dumps(found)), loaded.folder, weights_of(model))
    with torch.inference_mode():
        expected = answered(*unseen)
    given = program.run(unseen[0].values.numpy(), unseen[1].values.numpy())
    for name, value in expected.items():
        check_agreement(given[name], value.numpy())
    return found


def _whole(made: ReaderGraph) -> None:
    if made.compared:
        raise RequestError("program: the model compares the sizes of its inputs")


def _ids(size: int, count: int) -> Inputs:
    ids = UNK + 1 + torch.arange(size)[None] * 7 % max(1, count - UNK - 1)
    return Inputs(ids, torch.tensor([size]))


def _story(facts: int, words: int, count: int) -> Inputs:
    """Facts of different lengths, the longest of `words`."""
    ids = UNK + 1 + torch.arange(facts * words).view(1, facts, words) * 7 % max(1, count - UNK - 1)
    there = torch.arange(words) <= (words - 1 - torch.arange(facts) % words)[:, None]
    return Inputs(ids.where(there, PAD), torch.tensor([facts]))
