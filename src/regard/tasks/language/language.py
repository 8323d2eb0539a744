"""Language modelling: how likely each word of a text is, from those before it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.data.passages import running_text
from regard.datasets.data import Data
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError
from regard.fields import Field, TextField
from regard.fields.sets import as_fields, tokenizers_of
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.metrics import Score, perplexity
from regard.protocols import UNK
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.inputs import Asked
from regard.tasks.language.reader import RunningTextReader
from regard.tasks.language.text_blocks import TextBlockBatch, TextBlocks
from regard.tasks.phases import Phase, linear_start
from regard.tasks.prediction import Prediction

__all__ = ["Language", "ScoredText"]

NEXT = 5
"""Words that are named as the likeliest behind a text."""


@dataclass(frozen=True, eq=False)
class ScoredText(Prediction):
    """A text with the log-probability of each of its tokens and of its end.

    Args:
        words: how many words it has.
        following: what is likeliest behind it, with probabilities, the end among it; none where a
            whole data set is judged.
    """

    words: int = 0
    following: list[tuple[str, float]] = field(default_factory=list)

    @property
    def perplexity(self) -> float:
        """Per word, the end counted as one."""
        return math.exp(min(-sum(self.token_scores) / (self.words + 1), 700.0))

    def as_json(self) -> dict[str, Any]:
        """As every prediction, with the perplexity and the words that are likeliest behind."""
        following = [{"token": token, "probability": p} for token, p in self.following]
        return {**super().as_json(), "perplexity": self.perplexity, "next": following}


class Language(Task):
    """A task on a `LanguageModel`, from running text.

    Args:
        context: words before a stretch that are read with it: at least as many as a model with a
            memory of the last words looks at.
        block: tokens of a training example; longer lines are scored in blocks of this size.
        linear_start: passes over the data at first without the softmaxes inside the model.
    """

    name: ClassVar[str] = "language"
    metric: ClassVar[str] = "perplexity"
    viewed: ClassVar[str] = "language.view"
    reader: ClassVar[type[SplitReader[Any, Any]]] = RunningTextReader
    most = None

    def __init__(self, context: int = 100, block: int = 64, linear_start: float = 0.0) -> None:
        for name, value in (("context", context), ("block", block)):
            if value < 1:
                raise RequestError(f"task.{name} is {value}; it must be 1 or more")
        self.context, self.block, self.linear_start = context, block, linear_start

    def fields(self) -> dict[str, Field]:
        """Running text."""
        return {"text": TextField("words", 10_000)}

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """One vocabulary: what is read is what is predicted."""
        words = tokenizers_of(as_fields(fields, self.fields()))["text"]
        return {"vocab_size": len(words)}

    def phases(self, model: nn.Module) -> Sequence[Phase]:
        """The linear start, where it is wanted."""
        return linear_start(model, self.linear_start)

    def prepare(self, model: nn.Module, data: Data) -> None:
        """See that stretches are read with as much as the model looks at.

        Raises:
            RequestError: they are not.
        """
        memory = getattr(model, "memory", 0)
        if memory > self.context:
            raise RequestError(
                f"task.context is {self.context}, but the model looks at the last {memory} words: "
                f"give task.context={memory} or model.memory={self.context}"
            )

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the tokens of the stretches."""
        normalized = bool(getattr(model, "normalized", False))
        parts = [
            smoothed_cross_entropy(
                logits, batch.target[:, start : start + logits.shape[1]], normalized=normalized
            )
            for start, logits in self._spans(model, batch)
        ]
        return torch.stack(parts).sum(), batch.count

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Texts that know nothing of each other; an empty one gives an empty output."""
        refused = [Prediction(text, "") for text in texts]
        places = [i for i, text in enumerate(texts) if text.strip()]
        if not places:
            return Asked(None, places, refused)
        lines = ((i, texts[i]) for i in places)
        encoded = running_text.encode(lines, tokenizers_of(fields)["text"], keep=True)
        made = TextBlocks.of_lines(encoded, self.context, apart=True)
        return Asked(made, places, refused)

    def outputs(
        self,
        model: nn.Module,
        dataset: TextBlocks,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """Texts judged: the output is the log-probability of each, its end included.

        Texts that stand alone come with what is likeliest behind them.
        """
        words, device = tokenizers_of(fields)["text"], device_of(model)
        batch = dataset.collate(indices).to(device)
        sizes = torch.as_tensor(dataset.sizes[indices, 0], device=device)
        scores, likely = self._scored(model, batch, sizes, NEXT if dataset.apart else 0)
        gold, made = batch.target.tolist(), list[Prediction]()
        for row, i in enumerate(indices):
            size = int(dataset.sizes[i, 0])
            own, ids = scores[row, :size].tolist(), gold[row][:size]
            total = math.fsum(own)
            following = [(words.vocabulary[k], p) for p, k in likely[row]]
            made.append(
                ScoredText(
                    dataset.texts[i],
                    f"{total:.4f}",
                    total,
                    words.tokens(ids),
                    own,
                    ids=ids,
                    words=0 if dataset.words is None else int(dataset.words[i]),
                    following=following,
                )
            )
        return made

    def score(self, predictions: Sequence[Prediction], examples: TextBlocks) -> dict[str, Score]:
        """Perplexity per word."""
        assert examples.words is not None
        return {
            "perplexity": perplexity(
                [math.fsum(p.token_scores) for p in predictions],
                examples.words.tolist(),
                sum(p.ids.count(UNK) for p in predictions),
            )
        }

    # -- parts

    def _spans(self, model: nn.Module, batch: TextBlockBatch) -> Iterator[tuple[int, Tensor]]:
        """(where, logits (B, n, V)) of at most `block` columns of the target at a time."""
        width = batch.target.shape[1]
        before = batch.tokens.shape[1] - width  # C - 1
        for start in range(0, width, self.block):
            count = min(self.block, width - start)
            yield start, model(batch.tokens[:, start : start + before + count], count).logits

    def _scored(
        self, model: nn.Module, batch: TextBlockBatch, sizes: Tensor, more: int
    ) -> tuple[Tensor, list[list[tuple[float, int]]]]:
        """The log-probability of every target (B, T), and the likeliest in the place of its end."""
        parts = []
        likely: list[list[tuple[float, int]]] = [[] for _ in range(len(batch))]
        for start, logits in self._spans(model, batch):
            logits = logits.float()
            if not getattr(model, "normalized", False):
                logits = logits.log_softmax(-1)
            gold = batch.target[:, start : start + logits.shape[1]]
            parts.append(logits.gather(-1, gold[..., None])[..., 0])
            ends = sizes - 1 - start
            for row in torch.nonzero((ends >= 0) & (ends < logits.shape[1]))[:, 0].tolist():
                best = logits[row, int(ends[row])].exp().topk(min(more, logits.shape[-1]))
                likely[row] = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
        return torch.cat(parts, 1).double().cpu(), likely
