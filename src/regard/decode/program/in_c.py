"""What every generator in C has: the model whose steps it takes, and the best words of a step."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any
from weakref import ref

from torch import Tensor, nn

from regard.decode.top import leading
from regard.errors import RequestError
from regard.native.packed_products import PRECISIONS
from regard.protocols import Decoding, Inputs, Output

if TYPE_CHECKING:
    from regard.decode.program.search_in_c import StepsMade, StoppingRule

__all__ = ["PRECISIONS", "InC"]


class InC(nn.Module):
    """A `Generator` that does its steps in C; everything else is the model's.

    Args:
        model: whose steps these are; it is not kept alive.
        precision: of its weights, one of `PRECISIONS`.
    """

    normalized = False

    def __init__(self, model: nn.Module, precision: str = "float32") -> None:
        super().__init__()
        self._model = ref(model)  # what is kept for a model must not keep it
        self.source_vocab_size = getattr(model, "source_vocab_size", None)
        self.target_vocab_size = getattr(model, "target_vocab_size", None)
        self.precision = precision

    @property
    def model(self) -> Any:
        """The model whose steps these are."""
        found = self._model()
        if found is None:
            raise RequestError("the model of a decoder in C is gone; keep it while this is used")
        return found

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """As the model."""
        found: Output = self.model(source, target_in, lengths)
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

    def search(
        self, tokens: Tensor, decoding: Decoding, totals: Tensor, rule: "StoppingRule", most: int
    ) -> "StepsMade | None":
        """Up to `most` steps of a search, until a sentence is finished; None: step by step.

        Shapes:
            tokens and totals, the log-probabilities so far (B, beam)
        """
        return None
