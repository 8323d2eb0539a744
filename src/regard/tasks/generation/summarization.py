"""Summarization: a text to a shorter one, whose words may be copied from it."""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from regard.data.text.copied_words import OwnWords
from regard.data.text.tokenizer import Tokenizer
from regard.datasets.data import Data
from regard.decode.rules.extractive import Extraction, never
from regard.decode.rules.forbidden_words import Rule
from regard.errors import RequestError
from regard.fields import CopiedField, CopyingField, Field
from regard.fields.sets import tokenizers_of
from regard.metrics import Score, copied_names, length_ratio, novelty, repetition, rouge
from regard.metrics.summary_rouge import ROUGE
from regard.protocols import BOS, EOS, UNK, Covering, Inputs
from regard.system.devices import device_of
from regard.tasks import baselines
from regard.tasks.generation import extraction_weights
from regard.tasks.generation.base import Generation
from regard.tasks.generation.options import Spelling
from regard.tasks.generation.pairs import PairDataset
from regard.tasks.phases import Phase
from regard.tasks.prediction import Prediction

__all__ = ["Summarization", "copies"]

log = logging.getLogger(__name__)


class Summarization(Generation):
    """Texts to summaries, scored by ROUGE beside two that are cut out of the texts.

    Args:
        smoothing: label smoothing ε of the training loss.
        max_source: inputs of more tokens than this, EOS counted, are refused; `read_source` comes
            first.
        read_source: only this many tokens of a text are read, in training and in use; 0 for all.
        copying: words that the target's vocabulary lacks and the text has are words of the example:
            they are learned and written out exactly. Only models that copy can do it.
        coverage_after: this many passes over the data are made without coverage at first, as the
            paper's (most of its training); 0 for none. Then the learning rate's schedule starts
            again.
        stemmer, tokenize: of ROUGE; both are in its signature.
        lead_sentences, lead_words: how much of a text's beginning is scored as `lead_…`, 0 for all.
        oracle_sentences: how many of a text's sentences are scored as `oracle_…`.
        extraction: weights of what a summary takes over from its text (ABS+), by the names of
            `decode.rules.extractive.FEATURES`; None: what is decoded depends on the model alone.
        tune_extraction: those weights are found on this many texts of dev when a training ends, for
            the mean of ROUGE-1, 2 and L; 0: they stay as they are.
        guided, scheduled, risk, pointing, self_critical: see `Generation`.
    """

    name: ClassVar[str] = "summarization"
    metric: ClassVar[str] = "rougeL"
    viewed: ClassVar[str] = "generation.summarization_view"
    tokenizer: ClassVar[dict[str, Any]] = {"kind": "spaced", "vocab_size": 20_000}
    max_length: ClassVar[int] = 1024

    def __init__(
        self,
        smoothing: float = 0.0,
        max_source: int = 10_000,
        read_source: int = 0,
        copying: bool = True,
        coverage_after: float = 0.0,
        stemmer: bool = False,
        tokenize: str = "default",
        lead_sentences: int = 3,
        lead_words: int = 0,
        oracle_sentences: int = 3,
        extraction: Mapping[str, float] | None = None,
        tune_extraction: int = 0,
        guided: Mapping[str, Any] | None = None,
        scheduled: Mapping[str, Any] | None = None,
        risk: Mapping[str, Any] | None = None,
        pointing: Mapping[str, Any] | None = None,
        self_critical: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(smoothing, max_source, guided, scheduled, risk, pointing, self_critical)
        self.read_source, self.copying = read_source, copying
        self.coverage_after = coverage_after
        self.stemmer, self.tokenize = stemmer, tokenize
        self.lead_sentences, self.lead_words = lead_sentences, lead_words
        self.oracle_sentences = oracle_sentences
        self.extraction, self.tune_extraction = extraction, tune_extraction
        if extraction is not None:
            Extraction([], extraction)  # refuses wrong names

    # -- data

    def fields(self) -> dict[str, Field]:
        """A text that is read and its summary."""
        source = CopiedField(most=self.read_source, copies=self.copying, **self._cut("source"))
        if not self.copying:
            return {"source": source, "target": super().fields()["target"]}
        return {"source": source, "target": CopyingField(target=True, **self._cut("target"))}

    def pairs(
        self, source: str, target: str, *, training: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """One row is one pair."""
        return [(source, target)], [target]

    # -- learning

    def prepare(self, model: nn.Module, data: Data) -> None:
        """Refuse to teach words of the text to a model that cannot copy them."""
        super().prepare(model, data)
        if self.copying and not copies(model):
            raise RequestError(
                f"task.copying: {type(model).__name__} copies nothing from its source; choose a "
                "model that does, as pointer-generator, or say task.copying=false"
            )

    def phases(self, model: nn.Module) -> Sequence[Phase]:
        """Training without coverage at first, where that is asked for."""
        if not self.coverage_after:
            return ()
        if not isinstance(model, Covering):
            raise RequestError(
                f"task.coverage_after: {type(model).__name__} has no coverage; leave it at 0"
            )
        return [Phase("before coverage", _uncovered, self.coverage_after, ended="coverage begins")]

    # -- predicting

    def rules(
        self, source: Any, tokenizers: Mapping[str, Tokenizer], decoder: Any
    ) -> Sequence[Rule]:
        """Unknown words are not written where they cannot be copied; the weights of ABS+."""
        rules = [] if self.copying else [never(UNK)]
        if self.extraction:
            rules.append(
                Extraction(extraction_weights.in_target_ids(source, tokenizers), self.extraction)
            )
        return rules

    def settled(
        self, model: Any, dev: Any, decoder: Any, fields: Mapping[str, Field], tokens: int
    ) -> dict[str, Any]:
        """The weights of what is taken over, found on evenly spaced texts of dev."""
        if not self.tune_extraction or dev is None or not len(dev):
            return {}
        every = max(1, len(dev) // self.tune_extraction)
        some = dev.subset(range(0, len(dev), every)[: self.tune_extraction])
        beam, trial = extraction_weights.n_best(decoder), copy(self)

        def decoded(weights: Mapping[str, float]) -> Sequence[Prediction]:
            trial.extraction = weights
            return trial.predict(model, some, beam, fields, tokens=tokens)

        def quality(outputs: Sequence[str]) -> Any:
            found = rouge(
                outputs,
                some.references,
                kinds=ROUGE[:3],
                stemmer=self.stemmer,
                tokenize=self.tokenize,
            )
            return sum(one.sums.counts[:, 0] for one in found.values() if one.sums) / len(found)

        sources = extraction_weights.in_target_ids(some.source, tokenizers_of(fields))
        weights, reached = extraction_weights.tuned(
            decoded, sources, quality, beam, self.extraction or {}
        )
        log.info(
            "extraction: %s on dev from %.2f to %.2f", weights, 100 * reached[0], 100 * max(reached)
        )
        return {"extraction": weights}

    def spelling(self, text: str, fields: Mapping[str, Field]) -> Spelling:
        """The target's vocabulary and the words of the text that it lacks."""
        source, target = fields["source"], fields["target"]
        if isinstance(source, CopiedField) and isinstance(target, CopyingField):
            return source.own_words(text, target)[0]
        return super().spelling(text, fields)

    def prediction(self, text: str, hypotheses: list[Any], target: Spelling) -> Prediction:
        """The best hypothesis, with the words that its vocabulary lacks marked."""
        found = super().prediction(text, hypotheses, target)
        if not isinstance(target, OwnWords):
            return found
        known = len(target.tokenizer)
        every = [replace(p, copied=[i >= known for i in p.ids]) for p in found.alternatives]
        return replace(found, copied=[i >= known for i in found.ids], alternatives=every)

    # -- scores

    def score(self, predictions: Sequence[Prediction], examples: PairDataset) -> dict[str, Score]:
        """ROUGE, what it does not say, and ROUGE of two summaries that are cut out of the texts."""
        outputs, right, texts = (
            [p.output for p in predictions],
            examples.references,
            examples.texts,
        )
        told: dict[str, Any] = {"stemmer": self.stemmer, "tokenize": self.tokenize}
        found = {
            **rouge(outputs, right, **told),
            **{
                one.name: one
                for one in (
                    length_ratio(outputs, right),
                    novelty(outputs, texts),
                    repetition(outputs),
                    copied_names(outputs, right, texts),
                )
            },
        }
        first = [baselines.lead(one, self.lead_sentences, self.lead_words) for one in texts]
        best = [
            baselines.oracle(text, of, self.oracle_sentences)
            for text, of in zip(texts, right, strict=True)
        ]
        size = f"{self.lead_sentences or 'all'} sentences"
        size += f", {self.lead_words} words" if self.lead_words else ""
        for name, made, what in (
            ("lead", first, size),
            ("oracle", best, f"{self.oracle_sentences} sentences"),
        ):
            for kind, one in rouge(made, right, kinds=ROUGE[:3], **told).items():
                signature = f"{one.signature}|extract:{name} {what}"
                called = f"{name}_{kind}"
                found[called] = replace(one, name=called, signature=signature)
        return found


def _uncovered(model: nn.Module, on: bool) -> None:
    """The mode of the phase before coverage."""
    assert isinstance(model, Covering)
    model.cover(not on)


def copies(model: Any) -> bool:
    """Whether a `Generator` copies words of its source, told from one place of one output."""
    device = device_of(model)
    end = torch.tensor([[EOS]], device=device)
    source = Inputs(end, torch.ones_like(end[0]), {"copies": end})
    with torch.no_grad():
        found = model(source, torch.full_like(end, BOS), source.lengths)
    return "copying" in found.extra
