"""Stories with questions: an answer from the facts that were told, by a model with a memory."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data import sources
from regard.data.batch import chunks
from regard.data.passages import stories
from regard.data.passages.stories import StoryQuestion
from regard.data.passages.story_answer import NONE, OTHERS, StoryAnswer, warn_unknown_words
from regard.data.text.tokenizer import Tokenizer
from regard.datasets import section
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError
from regard.fields import Field, StoryField, TextField
from regard.fields.sets import as_fields, tokenizers_of
from regard.fields.story import SentenceTable
from regard.metrics import Score
from regard.metrics.story_questions import task_errors
from regard.protocols import UNK
from regard.system.devices import device_of
from regard.tasks import inputs
from regard.tasks.base import Task
from regard.tasks.memory.reader import StoryReader
from regard.tasks.memory.stories import StoryDataset
from regard.tasks.phases import Phase, linear_start
from regard.tasks.prediction import Prediction
from regard.watching.watcher import watch

__all__ = ["Answer", "MemoryQA"]

ROWS = 256
"""Questions answered at once."""


@dataclass(frozen=True, eq=False)
class Answer(StoryAnswer, Prediction):
    """An answer, with the facts that were looked at; see `StoryAnswer`."""


class MemoryQA(Task):
    """Answering questions about stories, one class for each answer (a list is a class too).

    Args:
        facts: this many of a story's last facts are kept, 50 in the paper.
        linear_start: passes over the data at first without the softmaxes inside the model.
    """

    name: ClassVar[str] = "memory"
    metric: ClassVar[str] = "error"
    viewed: ClassVar[str] = "memory.view"
    reader: ClassVar[type[SplitReader[Any, Any]]] = StoryReader
    lower_is_better: ClassVar[frozenset[str]] = Task.lower_is_better | {"error", "failed"}

    def __init__(self, facts: int = 50, linear_start: float = 0.0) -> None:
        if facts < 1:
            raise RequestError(f"task.facts is {facts}; it must be 1 or more")
        self.facts, self.linear_start = facts, linear_start

    def fields(self) -> dict[str, Field]:
        """Facts, a question about them, and the answer; all have one vocabulary."""
        question = TextField("words", 1 << 30, end=False, of="story")
        answer = TextField("words", 1 << 30, end=False, of="story", target=True)
        return {"story": StoryField(self.facts), "question": question, "answer": answer}

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type."""
        return {
            **section.TYPES,
            **dict.fromkeys(sources.SPLITS, str),
            "limit": int,
            "size": str | int,
            "tasks": str | list[str | int],
        }

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """One vocabulary: of facts and questions, and of answers."""
        words = tokenizers_of(as_fields(fields, self.fields()))["story"]
        return {"vocab_size": len(words), "num_answers": len(words)}

    def rows(self, fields: Mapping[str, Field]) -> dict[str, tuple[str, Sequence[str]]]:
        """The words, of stories and of answers."""
        words = fields["story"].rows()["vocab_size"]
        return dict.fromkeys(("vocab_size", "num_answers"), ("story", words))

    def phases(self, model: nn.Module) -> Sequence[Phase]:
        """The linear start, where it is wanted."""
        return linear_start(model, self.linear_start)

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the questions."""
        found = [
            (model(part.story, part.question, part.lengths).logits, part.answer)
            for part in batch.parts()
        ]
        logits, answers = (torch.cat(several) for several in zip(*found, strict=True))
        return F.cross_entropy(logits.float(), answers, reduction="sum"), batch.count

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> inputs.Asked:
        """Sentences, the last of which is the question.

        An empty text gives an empty answer, one without a word is refused; a question without facts
        is answered from itself alone.
        """
        asked = [stories.told(text) for text in texts]
        rows = [
            StoryQuestion(facts, question, "", "", "", "", 0)
            for facts, question in asked
            if question
        ]
        texts_read = [text for row in rows for text in (*row.facts, row.question)]
        warn_unknown_words(texts_read, tokenizers_of(fields)["story"].vocabulary)
        refused = [
            Prediction(text, "", refused="" if question or not text.strip() else NONE)
            for text, (_, question) in zip(texts, asked, strict=True)
        ]
        places = [i for i, (_, question) in enumerate(asked) if question]
        if not rows:
            return inputs.Asked(None, places, refused)
        made = self.questions({"test": rows}, fields)["test"]
        made.given = [texts[i] for i in places]
        return inputs.Asked(made, places, refused)

    def batches(self, dataset: StoryDataset, tokens: int) -> list[list[int]]:
        """So many questions at once; one by one where it is shown what each looks at."""
        size = ROWS if dataset.given is None else 1
        return chunks(len(dataset), size)

    def outputs(
        self,
        model: nn.Module,
        dataset: StoryDataset,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """Answers; those to single texts come with the facts looked at and with other answers."""
        look = dataset.given is not None
        texts = dataset.texts if dataset.given is None else dataset.given
        batch = dataset.collate(indices).to(device_of(model))
        watching: AbstractContextManager[Mapping[str, Any]]
        watching = watch(model) if look else nullcontext({})
        with watching as seen:
            logits = model(batch.story, batch.question, batch.lengths).logits.double()
        logits[:, : UNK + 1] = -torch.inf  # none of these is an answer
        scores = torch.log_softmax(logits, -1).cpu()
        ranked = torch.sort(scores, stable=True, dim=-1, descending=True)
        count = OTHERS if look else 1
        looks = [seen[name].of(0)[0, 0].tolist() for name in seen] if look else []
        values, ids = ranked.values[:, :count].tolist(), ranked.indices[:, :count].tolist()
        words = tokenizers_of(fields)["story"]
        return [
            _answer(dataset, row, texts[row], values[n], ids[n], words, looks)
            for n, row in enumerate(indices)
        ]

    def score(self, predictions: Sequence[Prediction], examples: StoryDataset) -> dict[str, Score]:
        """The mean error over tasks, failed tasks, and each task's error."""
        right = [r[0] for r in examples.references]
        return task_errors([p.output for p in predictions], right, examples.tasks)

    def questions(
        self, found: Mapping[str, Sequence[StoryQuestion]], fields: Mapping[str, Field]
    ) -> dict[str, "StoryDataset"]:
        """All splits on one sheet of sentences."""
        story = fields["story"]
        assert isinstance(story, StoryField)
        sheet = story.sheet()
        answers = sheet.index
        kept = {
            split: (
                story.kept(sheet, [q.facts for q in rows]),
                np.array([sheet.add(q.question) for q in rows], np.int64),
                np.array([answers.get(stories.answer_word(q.answer), UNK) for q in rows], np.int64),
            )
            for split, rows in found.items()
        }
        written = SentenceTable(sheet.texts, sheet.words())
        return {
            split: StoryDataset(
                written,
                *kept[split],
                [[stories.spoken(stories.answer_word(q.answer))] for q in rows],
                [q.task for q in rows],
            )
            for split, rows in found.items()
        }


def _answer(
    questions: StoryDataset,
    row: int,
    text: str,
    values: list[float],
    ids: list[int],
    words: Tokenizer,
    looks: list[list[float]],
) -> Answer:
    names = [stories.spoken(words.vocabulary[i]) for i in ids]
    facts = [questions.sheet.texts[i] for i in questions.story[row]] if looks else []
    others = [
        Prediction(text, name, value, [name], [value], ids=[i])
        for name, value, i in zip(names[1:], values[1:], ids[1:], strict=True)
    ]
    return Answer(
        text,
        names[0],
        values[0],
        names[:1],
        values[:1],
        others,
        ids=ids[:1],
        facts=facts,
        looks=looks,
    )
