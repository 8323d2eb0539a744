"""Beam search over a batch: sentences side by side, none of which can see another.

At each step every sentence's `beam_size` hypotheses are continued by all V tokens, and the best
2 * beam_size continuations are looked at: at most `beam_size` of them end, so as many that do not
can always go on. An EOS ends a hypothesis when it is among the best `beam_size`; ended ones go to
a list of their own and are ranked by log P(Y|X) / lp(Y). The search of a sentence stops when no
hypothesis alive can enter the best `n_best`, even if it lost no more probability and had the
largest lp within its limit:

    max over alive of log P / lp(limit)  <=  score of the n_best-th best that ended

(with what rules may add to each further token, where they raise scores) so that n_best = 1 is the
first of n_best = 5. Those that the limit cuts rank behind all that ended.
With `coverage_penalty` the score of a hypothesis gains a term that is never above 0 (Wu et al.,
eq. 14),

    cp(X; Y) = beta * sum over source positions i of log min(sum over steps t of p_ti, 1),

p_ti being what the decoder looks at (see `coverage.py`). `diversity_rate` takes gamma * rank from a
continuation's place among those of its own hypothesis while the beam is filled (Li et al. 2016).
Sources: Sutskever et al. 2014; Wu et al. 2016, section 7; `papers/translation.md`, section 12.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.decode.beam_search import BeamSearch
from regard.decode.decoder import Decoder, check
from regard.decode.search_batch import SearchBatch, SoFar, waited_for
from regard.settings.old_names import DECODER, renaming

__all__ = ["Beam"]

BOUNDS = ("limit", "now")


@renaming(DECODER)
@dataclass(frozen=True)
class Beam(Decoder):
    """Keep the `beam_size` likeliest beginnings at every step.

    A beam of 1 is greedy decoding: it stops at its first EOS.

    Args:
        beam_size: how many hypotheses are alive.
        n_best: how many are given back, best first; at most `beam_size`.
        patience: also stop when `patience * beam_size` hypotheses have ended (1 is the habit of
            fairseq; Kasai et al. 2022). None never stops early, which is exact and takes more
            steps.
        coverage_penalty: beta of the coverage penalty; 0 for none. Models with attention alone have
            it.
        diversity_rate: gamma of the penalty on a hypothesis's second, third, … continuation; with
            it the n best differ more.
        bound: what hypotheses alive may still become: "limit", the longest there can be, which is
            exact; or "now", as if they ended here, once `beam_size` have ended: the habit of
            Hugging Face, where `early_stopping` is false.
    """

    beam_size: int = 5
    n_best: int = 1
    patience: float | None = None
    coverage_penalty: float = 0.0
    diversity_rate: float = 0.0
    bound: str = "limit"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        super().__post_init__()
        check(self.beam_size >= 1, "beam_size", "1 or more", self.beam_size)
        most = f"from 1 to beam_size, which is {self.beam_size}"
        check(1 <= self.n_best <= self.beam_size, "n_best", most, self.n_best)
        check(self.patience is None or self.patience >= 1, "patience", "1 or more", self.patience)
        for key in ("coverage_penalty", "diversity_rate"):
            check(getattr(self, key) >= 0, key, "a number from 0 up", getattr(self, key))
        check(self.bound in BOUNDS, "bound", " or ".join(BOUNDS), self.bound)

    def search(self, request: SearchBatch) -> Iterator[SoFar]:
        """Search all sentences of the batch at once."""
        batch, search = waited_for(), BeamSearch(self, request)
        while True:
            keep = search.steps(request.at_once)
            if batch is not None:
                keep = batch.kept(search.rows, keep, search.best)
            yield search.so_far(keep)
            if not keep:
                return
            search.go_on(keep)
