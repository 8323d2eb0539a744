"""Reading: a document and a question; the answer is a word or a span of the document.

`answer: word` is the cloze: the word for the blank, among candidates where there are some. Its
probability is the sum of what the model gives to its places (Kadlec et al. 2016). `answer: span` is
the most probable pair of a first and a last place, not too far apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data import sources
from regard.data.passages import questions
from regard.data.passages.ranked_answers import asked_question, ranked_spans, ranked_words
from regard.data.passages.reader_vocabulary import ReaderVocabulary
from regard.data.text.count_vectors import count_vectors
from regard.datasets import section
from regard.datasets.data import Data
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError, nearest
from regard.fields import Field, SpansField, TextField
from regard.fields.sets import as_fields, tokenizers_of
from regard.metrics import Score, accuracy
from regard.metrics.squad import exact_match, span_f1
from regard.protocols import PAD
from regard.system.devices import device_of
from regard.tasks import baselines
from regard.tasks.base import Task
from regard.tasks.inputs import Asked
from regard.tasks.prediction import Prediction
from regard.tasks.reading.questions import (
    QuestionBatch,
    QuestionDataset,
    sizes_of,
)
from regard.tasks.reading.reader import ENTRY, QuestionReader

__all__ = ["Reading"]

_COUNTED = 1_500_000
"""Words that word vectors are counted over, about."""
_POINTERS = {"word": 1, "span": 2}
_AMONG = ("document", "candidates")
_METRIC = {"word": "accuracy", "span": "f1"}


class Reading(Task):
    """Answers from documents, by a `Reader` that points.

    Args:
        answer: `word` (cloze) or `span`.
        anonymous: ids for words that are not in the vocabulary; see
            `data.passages.reader_vocabulary`.
        longest: words of the longest span that is answered.
        among: what the loss compares the answer with: every word of the `document` (as the papers
            do), or the `candidates`, between which it is to decide.
        vectors: the size of a number in word vectors counted from the training documents
            (`data.vectors`), which the model starts from; 0: it starts from its own.
        max_document: documents of more words are refused by `predict`.
    """

    name: ClassVar[str] = "reading"
    metric: ClassVar[str] = "accuracy"
    viewed: ClassVar[str] = "reading.view"
    reader: ClassVar[type[SplitReader[Any, Any]]] = QuestionReader

    def __init__(
        self,
        answer: str = "word",
        anonymous: int = 256,
        longest: int = 20,
        max_document: int = 5000,
        vectors: float = 0.0,
        among: str = "document",
    ) -> None:
        if answer not in _POINTERS:
            raise RequestError(f"task.answer: there is no {answer!r}: {nearest(answer, _POINTERS)}")
        if among not in _AMONG:
            raise RequestError(f"task.among: there is no {among!r}: {nearest(among, _AMONG)}")
        least = {"anonymous": anonymous, "longest": longest, "max_document": max_document}
        for key, value in least.items():
            if value < 1:
                raise RequestError(f"task.{key} is {value}; it must be 1 or more")
        self.answer, self.anonymous, self.longest = answer, anonymous, longest
        self.max_document, self.vectors, self.among = max_document, vectors, among
        self.pointers = _POINTERS[answer]
        self.metric = _METRIC[answer]  # type: ignore[misc]

    # -- data

    def fields(self) -> dict[str, Field]:
        """A document, a query with the same vocabulary, and where the answer is."""
        query = TextField("words", end=False, of="document")
        answer = SpansField("document")
        return {"document": TextField("words", 10_000, end=False), "query": query, "answer": answer}

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type."""
        entries = dict.fromkeys(sources.SPLITS, ENTRY | list[ENTRY])
        return {**section.TYPES, **entries, "last_words": int}

    def words(self, fields: Mapping[str, Any]) -> ReaderVocabulary:
        """What makes ids of the words of a document and its query."""
        known = tokenizers_of(as_fields(fields, self.fields()))
        return ReaderVocabulary(known["document"], self.anonymous)

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """The vocabulary with the ids of unknown words, and how many pointers."""
        return dict(sizes_of(self.words(fields), self.pointers))

    # -- learning

    @torch.no_grad()
    def prepare(self, model: nn.Module, data: Data) -> None:
        """Give the model the word vectors it starts from."""
        if not self.vectors:
            return
        train, weight = data.train, model.get_parameter("embed.weight")
        size, dim = len(data.tokenizers["document"]), weight.shape[1]
        every = max(1, len(train.document.flat) // _COUNTED)  # windows of one text overlap
        rows = [train.document[i] for i in range(0, len(train), every)]
        scale = self.vectors * dim**0.5
        weight[:size] = count_vectors(rows, size, dim) * scale
        weight[size:] = torch.randn_like(weight[size:]) * self.vectors
        weight[PAD] = 0.0

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        r"""The sum of :math:`-\log \sum_{i \in gold} s_i` over pointers and questions.

        With `among: candidates` it is divided by what all candidates get, before the logarithm.
        Questions whose answer is not in the document count nothing.
        """
        logits = self._logits(model, batch)
        there = batch.gold.any(-1).all(-1)  # (B,)
        logits = logits[there].float()
        right = torch.logsumexp(logits.masked_fill(~batch.gold[there], -torch.inf), -1)
        if self.among == "candidates":
            rival = batch.allowed[there][:, None] | batch.gold[there]
            right = right - torch.logsumexp(logits.masked_fill(~rival, -torch.inf), -1)
        return -right.sum(), int(there.sum())

    def _logits(self, model: nn.Module, batch: QuestionBatch) -> Tensor:
        """Log-probabilities of places: (B, P, T)."""
        output = model(batch.document, batch.query, batch.lengths, batch.query_lengths)
        logits: Tensor = output.logits
        if not getattr(model, "normalized", False):
            logits = logits.log_softmax(-1)
        return logits if logits.dim() == 3 else logits[:, None]

    # -- answering

    def join(self, lines: Iterator[str]) -> Iterator[str]:
        """Single inputs of a file's lines: the numbered lines of a CBT file belong together."""
        return questions.blocks(lines)

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Questions as `questions.parse` takes them; `refused` says why a text is not one."""
        asked = [self._asked(text) for text in texts]
        good = [one for one in asked if isinstance(one, questions.Question)]
        made = QuestionDataset(good, self.words(fields), self.pointers) if good else None
        refused = [
            Prediction(text, "", refused=one if isinstance(one, str) else "")
            for text, one in zip(texts, asked, strict=True)
        ]
        places = [i for i, one in enumerate(asked) if isinstance(one, questions.Question)]
        return Asked(made, places, refused)

    def outputs(
        self,
        model: nn.Module,
        dataset: QuestionDataset,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """Answers; other candidates (the five best words or spans) are the alternatives.

        Scores are log-probabilities.
        """
        found = []
        best = {1: self._words, 2: self._spans}[self.pointers]
        batch = dataset.collate(indices).to(device_of(model))
        logits = self._logits(model, batch).double().cpu()
        for at, row in zip(indices, logits.numpy(), strict=True):
            ranked = best(dataset, at, row[:, : len(dataset.document[at])])
            first, *rest = (Prediction(dataset.texts[at], text, score) for text, score in ranked)
            first.alternatives.extend(rest)
            found.append(first)
        return found

    def _asked(self, text: str) -> questions.Question | str:
        """The question, or why it is not one."""
        return asked_question(text, self.max_document, blank=self.answer == "word")

    def _words(
        self, examples: QuestionDataset, at: int, logs: np.ndarray
    ) -> list[tuple[str, float | None]]:
        """Words with the logarithm of the sum over their places (None of nothing), best first."""
        return ranked_words(
            examples.questions[at], examples.numbers[at], examples.candidates[at], logs
        )

    def _spans(
        self, examples: QuestionDataset, at: int, logs: np.ndarray
    ) -> list[tuple[str, float | None]]:
        """The five best spans, of at most `longest` words."""
        return ranked_spans(examples.questions[at], logs, self.longest)

    # -- scores

    def score(
        self, predictions: Sequence[Prediction], examples: QuestionDataset
    ) -> dict[str, Score]:
        """Accuracy, or exact match and F1; beside them what is got without reading.

        `random` and `frequent` (the candidate that is most often in the document) for the cloze,
        `window_em` and `window_f1` (a sliding window) for spans.
        """
        outputs, right = [p.output for p in predictions], examples.references
        asked = examples.questions
        if self.answer == "word":
            found = {"accuracy": accuracy(outputs, [r[0] if r else "" for r in right])}
            return {**found, **(baselines.of_words(asked) if asked else {})}
        found = {"em": exact_match(outputs, right), "f1": span_f1(outputs, right)}
        return {**found, **(baselines.of_spans(asked) if asked else {})}
