"""Language modelling: how likely each word of a text is, from those before it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.data import running
from regard.data.batch import plan
from regard.data.problems import Problems
from regard.data.tokenize import Tokenizer
from regard.errors import RequestError, nearest
from regard.metrics import Score, perplexity
from regard.protocols import UNK
from regard.tasks import corpus
from regard.tasks.base import Data, Examples, Prediction, Task
from regard.tasks.loss import smoothed_cross_entropy
from regard.tasks.stretches import StretchBatch, Stretches

__all__ = ["Judged", "Language"]

KEYS = ("path", "format", "columns", "header", "limit", "tokenizer", "train", "dev", "test")
NEXT = 5
"""Words that are named as the likeliest behind a text."""


@dataclass(frozen=True, eq=False)
class Judged(Prediction):
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
        block: training examples are stretches of so many tokens, and longer lines are judged by so
            many at a time.
    """

    name: ClassVar[str] = "language"
    metric: ClassVar[str] = "perplexity"
    data_types: ClassVar[Mapping[str, Any]] = corpus.TYPES

    def __init__(self, context: int = 100, block: int = 64) -> None:
        for name, value in (("context", context), ("block", block)):
            if value < 1:
                raise RequestError(f"task.{name} is {value}; it must be 1 or more")
        self.context, self.block = context, block

    def data(
        self,
        config: Mapping[str, Any],
        tokenizers: dict[str, Tokenizer] | None = None,
        splits: Sequence[str] = ("train", "dev", "test"),
    ) -> Data:
        """Read texts: every line ends in EOS, and lines follow each other as they stand.

        Args:
            config: `path`, or `train`, `dev`, `test`: plain text, JSONL or TSV (`columns: {text:
                NAME}`), or trees; `format` where the name does not tell it; `limit`: the first so
                many lines (rows) of the training text, or of each split; `tokenizer`: `kind`
                (words), `size` (10,000), `lowercase`, `min_count`.
            tokenizers: those of a trained model.

        Raises:
            RequestError: an unknown key, nothing there, or a text without a line.
        """
        self.check_data(config)
        for key in config:
            if key not in KEYS:
                raise RequestError(f"data has no key {key!r}: {nearest(str(key), KEYS)}")
        column = _column(config.get("columns") or {})
        vocabulary = dict(config.get("tokenizer") or {})
        least = vocabulary.pop("min_count", 1)
        rest = {k: v for k, v in config.items() if k not in ("columns", "tokenizer")}
        found = corpus.Config.of(
            {**rest, "tokenizer": vocabulary}, {}, True, {"kind": "words", "size": 10_000}
        )
        read = {
            split: partial(
                running.lines, path, format=found.format, column=column, header=found.header,
                limit=found.limit.get(split),
            )
            for split, path in found.files(splits).items()
        }  # fmt: skip
        if tokenizers is None:
            if "train" not in read:
                raise RequestError("there is no training file to learn the vocabulary from")
            if str(read["train"].args[0]) == "-":
                raise RequestError("a training text is read twice: give a file, not '-'")
            words = running.vocabulary(
                lambda: read["train"](_Silent()), found.tokenizers["source"], least
            )
            if least > 1 and len(words) == UNK + 1:
                file = read["train"].args[0]
                raise RequestError(f"{file}: no word of it occurs {least} times (min_count)")
            tokenizers = {"source": words, "target": words}
        problems, made = Problems(), {}
        for split, lines in read.items():
            text = running.encode(lines(problems), tokenizers["source"], keep=split != "train")
            problems.report(str(lines.args[0]))
            if not len(text.words):
                told = f": {dict(problems.counts)}" if len(problems) else ""
                raise RequestError(f"{lines.args[0]} has no line of text{told}")
            if split == "train":
                made[split] = Stretches.blocks(text, self.block, self.context)
            else:
                made[split] = Stretches.of_lines(text, self.context)
        train, dev, test = (made.get(split) for split in ("train", "dev", "test"))
        return Data(train, dev, test, tokenizers, problems)

    def model_arguments(self, tokenizers: Mapping[str, Tokenizer]) -> dict[str, int]:
        """One vocabulary: what is read is what is foretold."""
        return {"vocab_size": len(tokenizers["source"])}

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

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the tokens of the stretches."""
        normalized = bool(getattr(model, "normalized", False))
        parts = [
            smoothed_cross_entropy(
                logits, batch.target[:, start : start + logits.shape[1]], normalized=normalized
            )
            for start, logits in self._spans(model, batch)
        ]
        return torch.stack(parts).sum(), batch.count

    @torch.no_grad()
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
        """Judge texts: the output is the log-probability of each, its end included.

        Texts know nothing of each other, and come with what is likeliest behind them; lines of
        `Stretches` follow each other. An empty text gives an empty output.
        """
        if prefix is not None:
            raise RequestError(f"prefix: the task {self.name} writes no text")
        vocabulary = tokenizers["target"]
        if isinstance(texts, Stretches):
            return self._judged(model, texts, vocabulary, tokens, more=0)
        given = list(texts.texts if isinstance(texts, Examples) else texts)
        results = [Prediction(text, "") for text in given]
        places = [i for i, text in enumerate(given) if text.strip()]
        if places:
            lines = ((i, given[i]) for i in places)
            text = running.encode(lines, vocabulary, keep=True)
            stretches = Stretches.of_lines(text, self.context, apart=True)
            found = self._judged(model, stretches, vocabulary, tokens, more=NEXT)
            for place, judged in zip(places, found, strict=True):
                results[place] = judged
        return results

    def score(self, predictions: Sequence[Prediction], examples: Examples) -> dict[str, Score]:
        """Perplexity per word."""
        assert isinstance(examples, Stretches)
        assert examples.words is not None
        return {
            "perplexity": perplexity(
                [math.fsum(p.token_scores) for p in predictions],
                examples.words.tolist(),
                sum(p.ids.count(UNK) for p in predictions),
            )
        }

    # -- parts

    def _spans(self, model: nn.Module, batch: StretchBatch) -> Iterator[tuple[int, Tensor]]:
        """(where, logits (B, n, V)) of at most `block` columns of the target at a time."""
        width = batch.target.shape[1]
        before = batch.tokens.shape[1] - width  # C - 1
        for start in range(0, width, self.block):
            count = min(self.block, width - start)
            yield start, model(batch.tokens[:, start : start + before + count], count).logits

    def _judged(
        self, model: nn.Module, texts: Stretches, words: Tokenizer, tokens: int, *, more: int
    ) -> list[Prediction]:
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        made: list[Prediction] = [Prediction("", "")] * len(texts)
        for indices in plan(texts.sizes, tokens=tokens, shuffle=False):
            batch = texts.collate(indices).to(device)
            sizes = torch.as_tensor(texts.sizes[indices, 0], device=device)
            scores, likely = self._scored(model, batch, sizes, more)
            gold = batch.target.tolist()
            for row, i in enumerate(indices):
                size = int(texts.sizes[i, 0])
                own, ids = scores[row, :size].tolist(), gold[row][:size]
                total = math.fsum(own)
                made[i] = Judged(
                    texts.texts[i], f"{total:.4f}", total, words.tokens(ids), own, ids=ids,
                    words=0 if texts.words is None else int(texts.words[i]),
                    following=[(words.vocabulary[k], p) for p, k in likely[row]],
                )  # fmt: skip
        return made

    def _scored(
        self, model: nn.Module, batch: StretchBatch, sizes: Tensor, more: int
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


class _Silent(Problems):
    """Of a pass over a text that is read again: what is wrong is told then."""

    def add(self, file: str, line: int, what: str, detail: str = "") -> None:
        """Say nothing."""

    def report(self, file: str) -> None:
        """Say nothing."""


def _column(columns: Mapping[str, Any]) -> str | int | None:
    for key in columns:
        if key != "text":
            raise RequestError(f"data.columns has no key {key!r}: {nearest(str(key), ('text',))}")
    found: str | int | None = columns.get("text")
    return found
