"""Values that pass between a model and a decoder: encoded sources, states, outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor

from regard.attention.mask import take

__all__ = ["Decoding", "Encoded", "Output"]


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
