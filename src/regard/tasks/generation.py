"""What all tasks share whose model is a `Generator`: a sequence in, a sequence out."""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard._recipe.check import check
from regard.data.batch import PairBatch, plan
from regard.data.packed import Packed
from regard.data.problems import Problems
from regard.data.tokenize import Tokenizer
from regard.decode.rules import Avoid, Rule
from regard.errors import RequestError
from regard.layers.project import deferring
from regard.protocols import EOS, PAD, UNK
from regard.tasks import corpus
from regard.tasks.base import Data, Examples, Prediction, Task
from regard.tasks.guided import Guided
from regard.tasks.loss import smoothed_cross_entropy
from regard.tasks.risk import Risk
from regard.tasks.scheduled import Scheduled

__all__ = ["Generation"]

log = logging.getLogger(__name__)


class Generation(Task):
    """A task on a `Generator`.

    Args:
        smoothing: label smoothing ε of the training loss (see `tasks.loss`).
        max_source: inputs of more tokens than this, EOS counted, are refused by `predict`.
        guided, scheduled, risk: settings of `tasks.guided`, `tasks.scheduled` and `tasks.risk`,
            where they are wanted. They change what training minimizes, and no other loss.
    """

    data_types: ClassVar[Mapping[str, Any]] = corpus.TYPES
    columns: ClassVar[dict[str, str | int]] = {"source": "source", "target": "target"}
    """Columns where a recipe names none."""
    header: ClassVar[bool] = True
    tokenizer: ClassVar[dict[str, Any]] = {"kind": "bpe", "size": 8000}
    """Tokenizers where a recipe says nothing else."""

    def __init__(
        self,
        smoothing: float = 0.0,
        max_source: int = 1024,
        guided: Mapping[str, Any] | None = None,
        scheduled: Mapping[str, Any] | None = None,
        risk: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0.0 <= smoothing < 1.0:
            raise RequestError(f"task.smoothing is {smoothing}; it must be from 0 to below 1")
        if max_source < 1:
            raise RequestError(f"task.max_source is {max_source}; it must be 1 or more")
        self.smoothing, self.max_source = smoothing, max_source
        self.guided = _settings(Guided, guided, "guided")
        self.scheduled = _settings(Scheduled, scheduled, "scheduled")
        self.risk = _settings(Risk, risk, "risk")

    @abstractmethod
    def pairs(
        self, source: str, target: str, *, training: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """The pairs to learn from one row, and all its right outputs."""

    def rules(
        self, source: Packed, tokenizers: Mapping[str, Tokenizer], decoder: Any
    ) -> Sequence[Rule]:
        """What outputs of these sources must keep to, whatever is asked; by default nothing."""
        return ()

    def data(
        self,
        config: Mapping[str, Any],
        tokenizers: dict[str, Tokenizer] | None = None,
        splits: Sequence[str] = ("train", "dev", "test"),
    ) -> Data:
        """Read the splits, leaving out (and reporting) lines that are empty, too long or broken.

        Args:
            config: the keys of `corpus.Config`.
            tokenizers: those of a trained model; trained on the training split where not given.
            splits: which of train, dev and test to read.

        Raises:
            RequestError: see `corpus`.
        """
        self.check_data(config)
        found = corpus.Config.of(config, self.columns, self.header, self.tokenizer)
        problems = Problems()
        texts = {
            split: corpus.read(path, found, self.pairs, split, problems)
            for split, path in found.files(splits).items()
        }
        if tokenizers is None:
            if "train" not in texts:
                raise RequestError("there is no training file to learn the tokenizers from")
            tokenizers = found.train_tokenizers(texts["train"])
        if self.guided and "train" in texts:
            rows = texts["train"]
            first = 2 if found.has_header("train") else 1
            texts["train"].links = self.guided.read(
                [line - first for line in rows.lines],
                list(zip(rows.source, rows.target, strict=True)),
                tokenizers,
            )
        examples = {
            split: corpus.encode(rows, found, tokenizers, split, problems)
            for split, rows in texts.items()
        }
        train, dev, test = (examples.get(split) for split in ("train", "dev", "test"))
        return Data(train, dev, test, tokenizers, problems)

    def model_arguments(self, tokenizers: Mapping[str, Tokenizer]) -> dict[str, int]:
        """The sizes of both vocabularies."""
        return {f"{side}_vocab_size": len(tokenizers[side]) for side in ("source", "target")}

    def loss(self, model: nn.Module, batch: PairBatch) -> tuple[Tensor, int]:
        """Teacher-forced cross-entropy: (its sum over the real target tokens, their number)."""
        with deferring(_whole()):
            output = model(batch.source, batch.target_in, batch.source_lengths)
        return self._cross_entropy(model, output.logits, batch), batch.count

    def training_loss(self, model: nn.Module, batch: PairBatch, update: int) -> tuple[Tensor, int]:
        """What a step takes down: the cross-entropy, with what the model and settings add to it.

        Args:
            update: how many steps were made before.
        """
        if self.scheduled:
            batch = self.scheduled.mixed(model, batch, update)
        watching = self.guided.watching(model) if self.guided else nullcontext()
        with watching as seen, deferring(_whole()):
            output = model(batch.source, batch.target_in, batch.source_lengths)
        total = self._cross_entropy(model, output.logits, batch)
        if "penalty" in output.extra:  # of one batch, as the paper adds it to a mean
            total = total + output.extra["penalty"] * batch.count
        if self.guided and seen is not None:
            total = total + self.guided.loss(seen, batch)
        if self.risk and update >= self.risk.after:
            weight = self.risk.weight
            total = (1.0 - weight) * total + weight * self.risk.loss(model, batch, update)
        return total, batch.count

    def _cross_entropy(self, model: nn.Module, logits: Any, batch: PairBatch) -> Tensor:
        normalized = bool(getattr(model, "normalized", False))
        return smoothed_cross_entropy(
            logits, batch.target_out, self.smoothing, normalized=normalized
        )

    def predict(
        self,
        model: nn.Module,
        texts: Sequence[str] | Examples,
        decoder: Any,
        tokenizers: Mapping[str, Tokenizer],
        *,
        tokens: int = 4096,
        prefix: Sequence[str | None] | None = None,
        must: Sequence[Sequence[str]] | None = None,
        never: Sequence[Sequence[str]] | None = None,
    ) -> list[Prediction]:
        """Predict each text, in input order; inputs of like length are decoded together.

        An empty text gives an empty output; one of more than `max_source` tokens, or for which
        nothing fits what is asked, gives an empty output and says so in `refused`.

        Args:
            model: a `Generator`; it stays where it is and in the mode it is in.
            texts: one input each; `Examples` have theirs in tokens already.
            tokenizers: for `source` and `target`.
            decoder: called as `decoder(model, source, lengths)`, and with `prefix`, `must` and
                `rules` where something is asked.
            tokens: the most padded source tokens decoded at once.
            prefix: for each text, what its output must begin with.
            must, never: for each text, words or phrases that its output must and must not have, cut
                in pieces as the tokenizer cuts them; `never` holds however the output is cut.
        """
        inputs = list(texts.texts) if isinstance(texts, Examples) else list(texts)
        if isinstance(texts, Examples):
            source = texts.source
        else:
            source = tokenizers["source"].encode_all(inputs)
        asked = _Asked.of(tokenizers["target"], len(inputs), prefix, must, never)
        sizes = source.sizes + 1
        results = [
            self._undecoded(text, size) for text, size in zip(inputs, sizes.tolist(), strict=True)
        ]
        refused = sum(bool(result.refused) for result in results)
        if refused:
            log.warning(
                "%d of %d inputs have more than %d tokens and are refused",
                refused, len(inputs), self.max_source,
            )  # fmt: skip
        decoded = np.flatnonzero((sizes > 1) & (sizes <= self.max_source))
        for batch in plan(sizes[decoded, None], tokens=tokens, shuffle=False, rows=256):
            at = decoded[batch]
            told = asked.at(at.tolist())
            if own := self.rules(source.take(at), tokenizers, decoder):
                told["rules"] = [*told.get("rules", ()), *own]
            hypotheses = _decode(model, source, at, decoder, told)
            for place, found in zip(at.tolist(), hypotheses, strict=True):
                results[place] = _prediction(inputs[place], found, tokenizers["target"])
        return results

    def _undecoded(self, text: str, size: int) -> Prediction:
        """What stands for an input until, or unless, it is decoded."""
        over = size > self.max_source
        reason = f"too long: {size} tokens, at most {self.max_source}" if over else ""
        return Prediction(text, "", refused=reason)


def _settings(kind: type[Any], given: Mapping[str, Any] | None, name: str) -> Any:
    """Settings of one kind from a recipe's keys; None where there are none."""
    if given is None:
        return None
    return kind(**check(given, kind, section=f"task.{name}", where=lambda key: "", extra=()))


@dataclass(frozen=True)
class _Asked:
    """What is asked of the outputs: beginnings and phrases in ids, and phrases in letters."""

    prefix: Packed | None
    must: Sequence[Sequence[Sequence[int]]] | None
    never: Sequence[Sequence[str]] | None
    spelled: Sequence[str]

    @classmethod
    def of(
        cls,
        target: Tokenizer,
        count: int,
        prefix: Sequence[str | None] | None,
        must: Sequence[Sequence[str]] | None,
        never: Sequence[Sequence[str]] | None,
    ) -> "_Asked":
        given = {"prefix": prefix, "must": must, "never": never}
        for name, own in given.items():
            if own is not None and len(own) != count:
                raise RequestError(f"expected a {name} for each of {count} inputs, got {len(own)}")
        wanted, unwanted = (
            None if own is None else [[_ids(target, name, p) for p in some] for some in own]
            for name, own in (("must", must), ("never", never))
        )
        spelled = target.spelled()
        return cls(
            None if prefix is None else target.encode_all([p or "" for p in prefix]),
            wanted,
            None if unwanted is None
            else [["".join(spelled[i] for i in p) for p in some] for some in unwanted],
            spelled,
        )  # fmt: skip

    def at(self, places: Sequence[int]) -> dict[str, Any]:
        """What a decoder is told of the inputs at some places."""
        told: dict[str, Any] = {}
        if self.prefix is not None:
            told["prefix"] = [self.prefix[i].tolist() for i in places]
        if self.must is not None:
            told["must"] = [self.must[i] for i in places]
        if self.never is not None:
            told["rules"] = [Avoid([self.never[i] for i in places], self.spelled)]
        return told


def _ids(target: Tokenizer, name: str, phrase: str) -> list[int]:
    ids = target.encode(phrase).ids
    if not ids or UNK in ids:
        raise RequestError(f"{name}: the model cannot write {phrase!r}; give words it can write")
    return ids


def _decode(
    model: nn.Module, source: Packed, at: np.ndarray, decoder: Any, told: Mapping[str, Any]
) -> list[list[Any]]:
    """The hypotheses of the sources at some places."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    ids = torch.from_numpy(source.padded(at, PAD, EOS)).to(device)
    lengths = torch.from_numpy(source.sizes_at(at) + 1).to(device)
    found: list[list[Any]] = decoder(model, ids, lengths, **told)
    return found


def _prediction(text: str, hypotheses: list[Any], target: Tokenizer) -> Prediction:
    """The best hypothesis, with the others as its alternatives."""
    if not hypotheses:
        return Prediction(text, "", refused="no output within the length limit fits what is asked")
    best, *others = (
        Prediction(
            text,
            target.decode(h.tokens),
            h.score,
            target.tokens(h.tokens),
            h.token_scores,
            trail=h.trail,
            ids=h.tokens,
        )
        for h in hypotheses
    )
    best.alternatives.extend(others)
    return best


def _whole() -> bool:
    """Whether weights can be used outside their model's call: not where they are in shards."""
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())
