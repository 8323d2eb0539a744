"""Several models that write one output together.

    p(y_t | y_<t, x) = mean over models m of p_m(y_t | y_<t, x)

An ensemble is a `Generator`: every decoder takes it, beams and rules included. Its models read the
same tokens, so they must share their vocabularies; their architectures may differ, but all of them
copy or none does.
"""

import math
from collections.abc import Callable, Sequence
from weakref import ref

import torch
from torch import Tensor, nn

from regard.decode.program.recorded_encoder import started
from regard.decode.top import log_probabilities
from regard.errors import RequestError
from regard.protocols import Decoding, Encoded, Generator, Inputs, Output, unpacked

__all__ = ["Ensemble", "encoded_by_each"]


class Ensemble(nn.Module):
    """The mean of the probabilities of some models.

    Args:
        models: `Generator`s over the same vocabularies.
        of: the ensemble whose models these are, in C; it must be kept as long.

    Raises:
        RequestError: no model, or vocabularies of different sizes.

    Shapes:
        as those of any `Generator`; logits are log-probabilities.
    """

    normalized = True

    def __init__(self, models: Sequence[Generator], of: "Ensemble | None" = None) -> None:
        super().__init__()
        if not models:
            raise RequestError("an ensemble expects one model or more, got none")
        sizes = {
            (getattr(m, "source_vocab_size", None), getattr(m, "target_vocab_size", None))
            for m in models
        }
        if len(sizes) > 1:
            shown = " and ".join(f"{s} -> {t}" for s, t in sorted(sizes, key=str))
            raise RequestError(f"an ensemble's models share vocabularies; got sizes {shown}")
        self.models = nn.ModuleList(models)  # type: ignore[arg-type]
        self.source_vocab_size, self.target_vocab_size = next(iter(sizes))
        self._of = None if of is None else ref(of)
        self.training = any(getattr(model, "training", False) for model in models)

    @property
    def model(self) -> "Ensemble":
        """The ensemble of models as they are, where these are in C."""
        found = None if self._of is None else self._of()
        return self if found is None else found

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Every model reads the source; what each gave is in `final`."""
        return encoded_by_each(self, source, lengths, lambda m, s, n: m.encode(s, n))

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: (B, T, V) log-probabilities."""
        given = [(model(source, target_in, lengths).logits, model) for model in self._each()]
        return Output(_mean([log_probabilities(x, m.normalized) for x, m in given]))

    def start(self, encoded: Encoded) -> Decoding:
        """The decodings of all models in one, each under its number."""
        return _joined([started(m, e) for m, e in zip(self._each(), encoded.final, strict=True)])

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """Every model reads a token: (B, beam) to (B, beam, V) log-probabilities."""
        scores, moved = [], []
        for number, model in enumerate(self._each()):
            logits, own = model.step(tokens, _own(decoding, number))
            scores.append(log_probabilities(logits, model.normalized))
            moved.append(own)
        return _mean(scores), _joined(moved)

    def _each(self) -> list[Generator]:
        return list(self.models)  # type: ignore[arg-type]


def encoded_by_each(
    ensemble: Ensemble,
    source: Tensor | Inputs,
    lengths: Tensor | None,
    encode: Callable[[Generator, Tensor | Inputs, Tensor | None], Encoded],
) -> Encoded:
    """What the models of an ensemble make of a source, in `final`; the last one's is the whole's.

    Its attention counts as coverage.
    """
    _, lengths = unpacked(source, lengths)
    each = tuple(encode(model, source, lengths) for model in ensemble._each())
    return Encoded(each[-1].states, each[-1].lengths, each)


def _mean(scores: list[Tensor]) -> Tensor:
    """Log of the mean of probabilities."""
    return torch.logsumexp(torch.stack(scores), 0) - math.log(len(scores))


def _joined(each: list[Decoding]) -> Decoding:
    """The decodings of all models in one; keys say whose they are."""
    memories = {f"{n}.{k}": v for n, one in enumerate(each) for k, v in one.memories.items()}
    carried = {f"{n}.{k}": v for n, one in enumerate(each) for k, v in one.carried.items()}
    return Decoding(memories, carried, each[0].step)


def _own(decoding: Decoding, number: int) -> Decoding:
    """One model's part of a joined decoding."""
    own = f"{number}."
    memories, carried = (
        {k.removeprefix(own): v for k, v in some.items() if k.startswith(own)}
        for some in (decoding.memories, decoding.carried)
    )
    return Decoding(memories, carried, decoding.step)
