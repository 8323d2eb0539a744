"""The few shapes that models can have. Tasks and decoders speak to these and to nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from regard.attention.mask import take

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Decoding",
    "Encoded",
    "Generator",
    "LanguageModel",
    "Output",
    "Reader",
    "StartsLinear",
    "lengths_of",
]

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""The first four ids of every vocabulary: padding, start, end, unknown."""


class Output(NamedTuple):
    """What every `forward` returns.

    `logits` are scores before the softmax (log-probabilities where the model says `normalized`);
    `extra` carries what a loss needs beside them (sampled log-probabilities, penalties,
    alignments).
    """

    logits: Tensor
    extra: dict[str, Tensor] = {}  # noqa: RUF012  (a NamedTuple default; never mutated)


class Encoded(NamedTuple):
    """A source as the decoder meets it.

    Shapes:
        states (B, S, D), lengths (B,), final: the encoder's last state(s) in the model's own form.
    """

    states: Tensor
    lengths: Tensor
    final: Any = None
    extra: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Decoding:
    """The state of decoding between two steps: a value, never kept on a module.

    Args:
        memories: what stays one per sentence, batch axis (B, ...): prepared encoder memories.
        carried: what belongs to a hypothesis, axes (B, beam, ...): tensors, Memories (KV caches) or
            tuples of them.
        step: how many tokens each hypothesis has read; the position of the next token.
    """

    memories: Mapping[str, Any]
    carried: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0

    def select(self, index: Tensor) -> "Decoding":
        """Re-order hypotheses: slot j of sentence b continues old slot `index[b, j]`.

        Shapes:
            index (B, n) int64; every carried (B, beam, ...) becomes (B, n, ...).
        """
        return replace(self, carried={k: _select(v, index) for k, v in self.carried.items()})

    def rows(self, index: Tensor) -> "Decoding":
        """Keep the sentences `index` (n,), in that order: how finished ones leave a batch."""
        return replace(
            self,
            memories={k: _rows(v, index) for k, v in self.memories.items()},
            carried={k: _rows(v, index) for k, v in self.carried.items()},
        )

    def advance(self, **carried: Any) -> "Decoding":
        """The decoding after one more step, with these carried values replaced."""
        return replace(self, carried={**self.carried, **carried}, step=self.step + 1)


@runtime_checkable
class Generator(Protocol):
    """A conditional generator: source in, target out, token by token.

    `forward` is teacher forced (all positions at once where the paper's model allows it); `start`
    calls every attention's `remember` once; `step` reads one token per hypothesis. Beams are the
    query axis.
    """

    normalized: bool

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Encoded:
        """Read sources (B, S) ending in EOS, right-padded."""
        ...

    def __call__(self, source: Tensor, target_in: Tensor, lengths: Tensor | None = None) -> Output:
        """Score every next token of target_in (B, T), which starts with BOS: logits (B, T, V)."""
        ...

    def start(self, encoded: Encoded) -> Decoding:
        """The decoding before the first token, one hypothesis a sentence."""
        ...

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """Read tokens (B, beam); give logits (B, beam, V) of the next ones."""
        ...


@runtime_checkable
class Reader(Protocol):
    """Reads a document with a question in mind, and says where or what the answer is.

    Its logits are a distribution over what can be answered: (B, T) over the places of the document,
    (B, 2, T) over its first and its last place, or (B, answers) over fixed answers; scores before
    the softmax, or log-probabilities where the model says `normalized` (minus infinity at padding).
    """

    normalized: bool

    def __call__(
        self,
        document: Tensor,
        query: Tensor,
        lengths: Tensor | None = None,
        query_lengths: Tensor | None = None,
    ) -> Output:
        """Read documents of words (B, T), or of sentences (B, S, W), and queries (B, Q).

        Lengths (B,) count words (sentences) of each; where not given, what is not padding.
        """
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """Predicts each token of a text from those before it; `step` reads one token a hypothesis."""

    normalized: bool

    def __call__(self, tokens: Tensor, last: int | None = None) -> Output:
        """Score the token behind each of (B, T), or of the `last` so many: logits (B, last, V).

        Padding on the left is never looked at.
        """
        ...

    def start(self, batch: int) -> Decoding:
        """The decoding before the first token of so many texts, one hypothesis each."""
        ...

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """Read tokens (B, beam); give logits (B, beam, V) of the next ones."""
        ...


@runtime_checkable
class StartsLinear(Protocol):
    """A model that can be trained without its inner softmaxes at first (Sukhbaatar et al. 2015)."""

    def linear_start(self, on: bool) -> None:
        """Take the softmaxes out, or put them back; parameters stay as they are."""
        ...


def lengths_of(source: Tensor, lengths: Tensor | None = None) -> Tensor:
    """`lengths` if given, else the number of ids before the padding in each row: (B, S) -> (B,)."""
    return (source != PAD).sum(1) if lengths is None else lengths


def _select(value: Any, index: Tensor) -> Any:
    if isinstance(value, Tensor):
        return take(value, index)
    if isinstance(value, tuple):
        return tuple(_select(v, index) for v in value)
    return value if value is None else value.select(index)


def _rows(value: Any, index: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, index)
    if isinstance(value, tuple):
        return tuple(_rows(v, index) for v in value)
    return value if value is None else value.rows(index)
