"""What a task is, what its data looks like to a trainer, and what a prediction holds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard._recipe.check import check_keys
from regard.data.batch import PairBatch, collate
from regard.data.packed import Packed
from regard.data.problems import Problems
from regard.data.tokenize import Tokenizer
from regard.metrics import Score
from regard.metrics.alignment import Link

__all__ = ["Data", "Examples", "Prediction", "Task"]


class Examples:
    """Pairs of token sequences with the texts they came from.

    Args:
        source, target: ids without BOS and EOS.
        texts: the source of each example.
        references: every right output of each example, the trained one first.
        links: of each example, pairs of a source and a target place that are aligned: (n, 2).
    """

    def __init__(
        self,
        source: Packed,
        target: Packed,
        texts: Sequence[str],
        references: Sequence[list[str]],
        links: Sequence[NDArray[np.int64]] | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.texts, self.references, self.links = texts, references, links
        self.sizes: NDArray[np.int64] = np.stack([source.sizes, target.sizes], 1) + 1
        """Tokens of source and target, EOS counted: (n, 2)."""

    def __len__(self) -> int:
        return len(self.sizes)

    def count(self, indices: Sequence[int]) -> int:
        """The real target tokens of some examples, EOS counted."""
        return int(self.sizes[list(indices), 1].sum())

    def collate(self, indices: Sequence[int]) -> PairBatch:
        """Those examples as one padded batch."""
        batch = collate(self.source, self.target, indices)
        if self.links is None:
            return batch
        links = [self.links[i] for i in indices]
        return replace(batch, links=torch.from_numpy(numbered(links)))

    def subset(self, indices: Sequence[int]) -> "Examples":
        """Some examples, in that order."""
        at = np.asarray(indices, np.int64)
        return Examples(
            self.source.take(at),
            self.target.take(at),
            [self.texts[i] for i in indices],
            [self.references[i] for i in indices],
            None if self.links is None else [self.links[i] for i in indices],
        )


def numbered(links: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Links of several examples in one array, each with its example's number in front: (n, 3)."""
    rows = np.repeat(np.arange(len(links)), [len(own) for own in links])
    return np.concatenate([rows[:, None], np.concatenate(links)], 1)


@dataclass(frozen=True)
class Data:
    """What `Task.data` read. A split that was not asked for or is not there is None.

    `sizes` are what the model's constructor must know where tokenizers do not say it.
    """

    train: Examples | None
    dev: Examples | None
    test: Examples | None
    tokenizers: dict[str, Tokenizer]
    problems: Problems
    sizes: Mapping[str, int] | None = None


NO_TRAIL = torch.zeros(0, 2, dtype=torch.int64)
"""The trail of what was not decoded step by step."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The output for one input, with its runners-up.

    Args:
        score: of the best hypothesis, as the decoder ranks it; None where nothing was decoded.
        tokens, token_scores: its pieces (with the end token if it ended by itself) and the
            log-probability of each.
        alternatives: the other hypotheses, best first, each a prediction of its own.
        trail: where the hypothesis stood in the beam at each step (`decode.Hypothesis`).
        refused: why the input was not decoded, "" if it was (or was empty).
        ids: of `tokens`.
        alignment: pairs of a source word and the output word it is linked to, both counted from 0;
            None where nobody asked (see `tasks.words`).
    """

    input: str
    output: str
    score: float | None = None
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alternatives: list["Prediction"] = field(default_factory=list)
    trail: Tensor = NO_TRAIL
    refused: str = ""
    ids: list[int] = field(default_factory=list)
    alignment: tuple[Link, ...] | None = None

    @property
    def log_prob(self) -> float | None:
        """What the tokens' scores add up to; `score` is this over the decoder's length penalty."""
        return sum(self.token_scores) if self.token_scores else None

    def as_json(self) -> dict[str, Any]:
        """Plain values: input, output, scores, tokens with theirs, alternatives, alignments."""
        return {"input": self.input, **self._hypothesis(), "alternatives": self._others()}

    def _hypothesis(self) -> dict[str, Any]:
        pairs = zip(self.tokens, self.token_scores, strict=True)
        tokens = [{"token": token, "score": score} for token, score in pairs]
        made = {"output": self.output, "score": self.score, "log_prob": self.log_prob}
        links = {} if self.alignment is None else {"alignment": [list(x) for x in self.alignment]}
        return {**made, "tokens": tokens, **links}

    def _others(self) -> list[dict[str, Any]]:
        return [other._hypothesis() for other in self.alternatives]


class Task(ABC):
    """A kind of work: from files to examples, from a model to a loss, predictions and scores.

    A task holds settings only; it belongs to no model and keeps nothing between calls.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    """The score that early stopping goes by unless the recipe says otherwise."""
    tokenized: ClassVar[bool] = True
    """Does a model folder of this task hold tokenizers?"""
    lower_is_better: ClassVar[frozenset[str]] = frozenset({"loss", "perplexity", "per", "wer"})
    data_types: ClassVar[Mapping[str, Any]]
    """Of each key of `data:` its type; a mapping is that of a section inside."""

    def check_data(
        self, config: Mapping[str, Any], where: Callable[[str], str] = lambda key: ""
    ) -> None:
        """Refuse a `data:` section with a value of another type than its key has, or out of range.

        Args:
            where: gives `file:line` of a dotted key, or "".

        Raises:
            RequestError: with the place, what was expected, and what came.
        """
        check_keys(config, self.data_types, section="data", where=where)

    def noted(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """The task's section of a recipe as a model folder keeps it."""
        return dict(section)

    @classmethod
    def of_folder(cls, spec: Mapping[str, Any]) -> "Task":
        """The task from its section in a model folder, without `name`."""
        return cls(**spec)

    @abstractmethod
    def data(
        self,
        config: Mapping[str, Any],
        tokenizers: dict[str, Tokenizer] | None = None,
        splits: Sequence[str] = ("train", "dev", "test"),
    ) -> Data:
        """Read what a recipe's `data:` section names; tokenizers are trained unless given."""

    @abstractmethod
    def model_arguments(self, tokenizers: Mapping[str, Tokenizer]) -> dict[str, int]:
        """What a model's constructor must know of the data."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: PairBatch) -> tuple[Tensor, int]:
        """(the sum of the losses, how many tokens it is a sum over)."""

    @abstractmethod
    def predict(
        self,
        model: nn.Module,
        texts: Sequence[str] | Examples,
        decoder: Any,
        tokenizers: Mapping[str, Tokenizer],
        *,
        tokens: int = 4096,
        prefix: Sequence[str | None] | None = None,
    ) -> list[Prediction]:
        """Predict each text, in input order."""

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], examples: Examples) -> dict[str, Score]:
        """The official scores of predictions for these examples."""
