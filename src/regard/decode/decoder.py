"""What every decoder shares: its limits, its forced prefixes, and the set-up of a search."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from regard.decode.eval_mode import frozen
from regard.decode.hypothesis import Hypothesis
from regard.decode.program.in_c import PRECISIONS, InC
from regard.decode.program.model_state import ModelState
from regard.decode.program.readers import read
from regard.decode.program.recorded_encoder import started
from regard.decode.program.recordings import recorded_form, rests
from regard.decode.rules.forbidden_words import Phrases, Rule
from regard.decode.rules.repetition import no_repeat_ngram, repetition_penalty
from regard.decode.search_batch import (
    SearchBatch,
    SoFar,
    Sources,
    _table,
    waited_for,
)
from regard.errors import RequestError, nearest
from regard.protocols import Generator, Inputs
from regard.runtime.penalties import PENALTIES, most_tokens
from regard.settings import old_names
from regard.settings.old_names import renaming

__all__ = ["Decoder", "check"]

log = logging.getLogger(__name__)

TEXT, PICTURE = 2, 4
"""The axes of pictures: (B, C, H, W)."""
MOST_AT_ONCE, ASKING = 1 << 20, 4
"""Steps that C may take in one call, and between two questions whether anybody still waits."""


@dataclass(frozen=True, kw_only=True)
class Decoder(ABC):
    """Turns a `Generator` and a batch of sources into hypotheses, best first.

    Args:
        length_penalty: alpha of the length penalty; 0 ranks by plain log-probability.
        penalty: "power" or "gnmt" (see `penalties`).
        max_ratio, max_extra: a hypothesis has at most `ceil(max_ratio * source length) + max_extra`
            tokens; EOS counts on both sides (see `limit`).
        max_length: never more than this many tokens, whatever the source (None: no such limit).
        min_length: EOS is not allowed before it would be token number `min_length`.
        no_repeat_ngram: no n-gram of this length is repeated; 0 for no such rule.
        repetition_penalty: what the log-probability of tokens written before is multiplied by:
            above 1 they come less often. Scores count it.
        precision: of the weights of a decoder in C, on a CPU: "float32", "bfloat16" or "int8".

    A forced prefix or `min_length` always fits: the limit is raised to hold it and an EOS.
    PAD and BOS are never produced; probabilities are the model's own, over its whole vocabulary.
    """

    length_penalty: float = 1.0
    penalty: str = "power"
    max_ratio: float = 2.0
    max_extra: int = 10
    max_length: int | None = None
    min_length: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    precision: str = "float32"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check(self.length_penalty >= 0, "length_penalty", "a number from 0 up", self.length_penalty)
        if self.penalty not in PENALTIES:
            hint = nearest(self.penalty, PENALTIES)
            raise RequestError(f"decode.penalty: no length penalty {self.penalty!r}; {hint}")
        check(self.max_ratio >= 0, "max_ratio", "a number from 0 up", self.max_ratio)
        check(self.max_extra >= 0, "max_extra", "0 or more", self.max_extra)
        some = self.max_ratio + self.max_extra > 0
        check(some, "max_extra", "1 or more, as max_ratio is 0", self.max_extra)
        check(self.min_length >= 0, "min_length", "0 or more", self.min_length)
        most = self.max_length
        fits = most is None or most >= max(1, self.min_length)
        check(fits, "max_length", "1 or more, and no less than min_length", most)
        ngram, penalty = self.no_repeat_ngram, self.repetition_penalty
        check(ngram >= 0, "no_repeat_ngram", "0 (no such rule) or more", ngram)
        check(penalty >= 1, "repetition_penalty", "a number from 1 up", penalty)
        hint = " or ".join(PRECISIONS)
        check(self.precision in PRECISIONS, "precision", hint, self.precision)

    @renaming(old_names.ASKED)
    def __call__(
        self,
        model: Generator,
        source: Tensor | Inputs,
        lengths: Tensor | None = None,
        prefix: Sequence[Sequence[int]] | None = None,
        *,
        force_words: Phrases | None = None,
        rules: Sequence[Rule] = (),
        deadline: float | None = None,
    ) -> list[list[Hypothesis]]:
        """Decode a batch; a sentence for which nothing fits what is asked has no hypothesis.

        Args:
            model: any `Generator`, or what `decoder_in_c` made of one.
            lengths: (B,) of the sources, EOS counted; None counts what is not PAD.
            source: (B, S) ids ending in EOS, right-padded, or any `Inputs` that the model reads.
            prefix: how each output must begin: one list of ids a sentence, of any lengths, no BOS.
            force_words: for each sentence, sequences of ids that its output must have (`Beam`
                alone).
            rules: more rules than the decoder's own (see `rules`), `Avoid` for one.
            deadline: seconds after which no further step begins. What comes back then is the best
                so far; a hypothesis that had not ended has `finished` False.
        """
        end = _end(deadline)
        asked = Sources.of(source, lengths, prefix, force_words, rules)
        if not len(source):
            return []
        found: SoFar = list
        batch = waited_for()
        with frozen(model) as in_training, torch.inference_mode():
            request = self._request(model, asked, record=not in_training)
            at_once = 1 if end is not None else ASKING if batch is not None else MOST_AT_ONCE
            for so_far in self.search(replace(request, at_once=at_once)):
                found = so_far
                if end is not None and time.monotonic() >= end:
                    break
                if batch is not None and batch.over():
                    break
            return found()

    def steps(
        self,
        model: Generator,
        source: Tensor | Inputs,
        lengths: Tensor | None = None,
        prefix: Sequence[Sequence[int]] | None = None,
        *,
        force_words: Phrases | None = None,
        rules: Sequence[Rule] = (),
        deadline: float | None = None,
    ) -> Iterator[list[list[Hypothesis]]]:
        """Decode a batch step by step: what has been found so far, after each step.

        Each item is what a call would give back if its deadline were now: for each sentence its
        hypotheses, best first, those that have not ended ranked as if they ended here. The last
        item is the result of the call. The steps are those of the call, those in C included; an
        item costs the time to trace its hypotheses. Closing the generator ends the work; nothing
        runs, and the model is in the mode it was in, while an item is looked at.

        Args:
            model, source, lengths, prefix, force_words, rules: see `__call__`.
            deadline: seconds from now after which no further step begins.

        Example:
            >>> from regard.models.transformer import Transformer
            >>> from regard.decode import Greedy
            >>> model = Transformer(9, 9, dim=8, heads=2, layers=1, ffn_dim=8)
            >>> decoder = Greedy(min_length=3, max_length=3)
            >>> steps = decoder.steps(model, torch.tensor([[5, 6, 2]]))
            >>> print(*(len(best.tokens) for ((best,),) in steps))
            1 2 3
        """
        end = _end(deadline)
        asked = Sources.of(source, lengths, prefix, force_words, rules)
        return self._steps(model, asked, end)

    def _steps(
        self, model: Generator, asked: "Sources", end: float | None
    ) -> Iterator[list[list[Hypothesis]]]:
        search: Iterator[SoFar] | None = None
        while len(asked.source):
            # Nothing is left set while somebody else's code runs: each step sets it up again.
            with frozen(model) as in_training, torch.inference_mode():
                if search is None:
                    search = self.search(self._request(model, asked, record=not in_training))
                so_far = next(search, None)
                if so_far is None:
                    return
                found = so_far()
            yield found
            if end is not None and time.monotonic() >= end:
                return

    def _request(self, model: Generator, asked: "Sources", *, record: bool = True) -> SearchBatch:
        """Read the sources, in inference mode and with the model in eval mode.

        Args:
            record: read and take steps by recorded programs, which are made if there are none. A
                model in training, whose weights are about to change, is recorded when they were
                the same in the batch before.
        """
        source, starts, wanted = asked.source, asked.starts, asked.wanted
        own = [no_repeat_ngram(self.no_repeat_ngram)] if self.no_repeat_ngram else []
        if self.repetition_penalty > 1:
            own += [repetition_penalty(self.repetition_penalty)]
        _check_precision(model, self.precision)
        state = ModelState(model) if isinstance(model, nn.Module) else None
        # The model's own steps are float32.
        record = record or self.precision != "float32" or (state is not None and rests(state))
        engine: Generator = model
        try:
            encoded = (
                read(engine, asked.inputs, asked.lengths, self.precision, state)
                if record
                else engine.encode(asked.inputs, asked.lengths)
            )
        except IndexError:
            _check_ids(source, model)
            raise
        decoding = started(engine, encoded)
        if record:
            watched = getattr(self, "coverage_penalty", 0) > 0
            engine = recorded_form(engine, encoded, self.precision, watched=watched, state=state)
        # A picture has no length of its own: it has this many regions.
        sizes = encoded.lengths if source.dim() == PICTURE else asked.lengths
        usual = max(map(self.limit, sizes.tolist()), default=self.min_length)
        if self.min_length > usual:
            _say_raised(self.min_length, usual)
        limits = [
            max(self.limit(n), self.min_length, sum(map(len, [start, *words])) + 1)
            for n, start, words in zip(sizes.tolist(), starts, wanted, strict=True)
        ]
        table = _table(starts).to(source.device) if any(starts) else None
        return SearchBatch(
            engine,
            decoding,
            limits,
            table,
            source,
            asked.lengths,
            [*own, *asked.rules],
            wanted if any(wanted) else None,
            encoded.lengths,
        )

    @abstractmethod
    def search(self, request: SearchBatch) -> Iterator[SoFar]:
        """Go one step after the other; each item gives what is found so far, if it is called.

        The last one gives the result. Resumed in inference mode, with the model in eval mode.
        """

    def limit(self, source_length: int) -> int:
        """Give the most tokens, with EOS, for a source of `source_length` tokens with EOS.

        Of a sound or a clip its frames count, of a picture the regions that the model sees.
        """
        return most_tokens(source_length, self.max_ratio, self.max_extra, self.max_length)

    def normalizer(self, length: int) -> float:
        """Give what the log-probability of `length` tokens, with EOS, is divided by."""
        return PENALTIES[self.penalty](length, self.length_penalty)


def _check_precision(model: Generator, precision: str) -> None:
    """Refuse another precision than the one that a decoder in C has."""
    if isinstance(model, InC) and precision not in ("float32", model.precision):
        raise RequestError(
            f"decode.precision: {precision} is asked of a decoder in {model.precision}; "
            "make one in it of the model itself"
        )


def _check_ids(source: Tensor, model: Generator) -> None:
    """Refuse ids that are in no vocabulary."""
    words = getattr(model, "source_vocab_size", None)
    if words is None or source.dim() != TEXT or source.dtype.is_floating_point:
        return
    low, high = (int(x) for x in source.aminmax()) if source.numel() else (0, 0)
    if source.numel() and (low < 0 or high >= words):
        wrong = low if low < 0 else high
        raise RequestError(f"source: expected ids from 0 to {words - 1}, got {wrong}")


@lru_cache(maxsize=64)
def _say_raised(least: int, most: int) -> None:
    """Say once for each pair that `min_length` is above what an output may have."""
    log.warning(
        "decode.min_length is %d, and max_ratio and max_extra allow %d tokens: the limit is raised "
        "to min_length, and models write badly beyond it",
        least,
        most,
    )


def check(holds: bool, key: str, expected: str, value: object) -> None:
    """Raise a RequestError that names the recipe key unless `holds`."""
    if not holds:
        raise RequestError(f"decode.{key}: expected {expected}, got {value!r}")


def _end(deadline: float | None) -> float | None:
    """The moment of a deadline that begins to run now."""
    if deadline is None:
        return None
    if not deadline > 0:
        raise RequestError(f"deadline: expected seconds, a number above 0, got {deadline!r}")
    return time.monotonic() + deadline
