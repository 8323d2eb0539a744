"""A model's weights laid out for C: panels of 32 outputs, in float32, bfloat16 or bytes.

See `native/int8_products.h`. Bytes have one step an output, and are multiplied by rows as
bytes with one step a row.
"""

from abc import abstractmethod
from collections.abc import Sequence
from types import NoneType
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

from regard import native
from regard.attention import Softmax, WeightedSum
from regard.attention.plain import PlainForm, plain_form
from regard.decode.top import leading
from regard.errors import RequestError
from regard.native.gate import Function
from regard.native.packed_products import PANEL, PRECISIONS, PackedLinear, in_panels
from regard.protocols import Decoding, Inputs, Output, lengths_of

__all__ = ["PRECISIONS", "PackedLinear", "Panels", "known", "plain"]


def plain(
    attention: Any,
    scores: Sequence[type],
    reads: Sequence[type] = (WeightedSum,),
    positions: Sequence[type] = (),
) -> bool:
    """Whether an attention has one of these scores and reads, a softmax, and nothing else.

    Args:
        positions: of which it may have one.
    """
    form = plain_form(attention)
    return (
        isinstance(form, PlainForm)
        and form.score in scores
        and form.read in reads
        and form.position in (NoneType, *positions)
        and form.select is Softmax
        and form.carry is NoneType
        and not form.scaled
    )


def known(ids: Tensor, words: int, name: str) -> Tensor:
    """Ids as C reads them.

    Raises:
        RequestError: one is negative, or not in a vocabulary of this many words.
    """
    low, high = (int(x) for x in ids.aminmax()) if ids.numel() else (0, 0)
    if ids.numel() and (low < 0 or high >= words):
        wrong = low if low < 0 else high
        raise RequestError(f"{name}: expected ids from 0 to {words - 1}, got {wrong}")
    return ids.long().contiguous()


class Panels(nn.Module):
    """A `Generator` that does its steps in C with packed weights; everything else is the model's.

    Args:
        model: whose weights these are; it is not kept alive.
        precision: one of `PRECISIONS`.
    """

    normalized = False

    def __init__(self, model: nn.Module, precision: str = "float32") -> None:
        super().__init__()
        self._model = ref(model)  # what is kept for a model must not keep it
        self.source_vocab_size = getattr(model, "source_vocab_size", None)
        self.target_vocab_size = getattr(model, "target_vocab_size", None)
        self.precision, self.level = precision, native.level()
        self._held: list[Tensor] = []
        self._kind = PRECISIONS.index(precision)

    @property
    def model(self) -> Any:
        """The model whose weights these are."""
        found = self._model()
        if found is None:
            raise RequestError(
                "the model that was packed is gone; keep it while its decoder is used"
            )
        return found

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """As the model."""
        found: Output = self.model(source, target_in, lengths)
        return found

    @staticmethod
    def _lengths(source: Tensor, lengths: Tensor | None) -> Tensor:
        """Lengths that C may trust: as many as sentences, none beyond the last column."""
        found = lengths_of(source, lengths).long().contiguous()
        rows, columns = source.shape
        fits = found.shape == (rows,)
        if not fits or (rows and not 0 <= int(found.min()) <= int(found.max()) <= columns):
            raise RequestError(
                f"lengths: expected {rows} numbers from 0 to {columns}, got {found.tolist()}"
            )
        return found

    def leading(
        self, tokens: Tensor, decoding: Decoding, first: int, count: int
    ) -> tuple[Tensor, Tensor, Decoding]:
        """One step and its `count` best next words from id `first` up.

        Shapes:
            tokens (B, beam) to log-probabilities and ids (B, beam, count)
        """
        logits, decoding = self.step(tokens, decoding)
        return *leading(logits, first, count, self.normalized), decoding

    @abstractmethod
    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V)."""

    def _run(self, function: Function, plan: Any, call: Any, work: int) -> None:
        function(plan, call, native.threads(work))

    def _linear(self, *layers: nn.Linear) -> PackedLinear:
        """Layers with the same input, their outputs side by side."""
        biases = [
            layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
            for layer in layers
        ]
        biased = any(layer.bias is not None for layer in layers)
        return self._matrix([layer.weight for layer in layers], biases if biased else None)

    def _matrix(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> PackedLinear:
        """Weights (out, in) one below the other, in panels of 32 outputs."""
        weight = torch.cat([one.detach() for one in weights])
        out, inputs = weight.shape
        panels, scale = in_panels(weight, self.precision)
        bias = None
        if biases is not None:
            bias = torch.cat([one.detach() for one in biases])
            bias = nn.functional.pad(bias, (0, -out % PANEL))
        return PackedLinear(self._hold(panels), self._hold(scale), self._hold(bias), inputs, out)

    def _hold(self, x: Tensor | None) -> int:
        """The address of a copy that lives as long as this does."""
        if x is None:
            return 0
        self._held.append(x.clone(memory_format=torch.contiguous_format))
        return self._held[-1].data_ptr()
