"""The best next words of each hypothesis, which C finds without writing logits."""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.program.instructions import CCall

__all__ = ["BestWords"]


class BestWords(NamedTuple):
    """The best next words of each hypothesis from an id up, which C fills in.

    Shapes:
        values and ids (B, beam, count)
    """

    first: int
    values: Tensor
    ids: Tensor

    @classmethod
    def of(cls, tokens: Tensor, first: int, count: int) -> "BestWords":
        """Room for those of hypotheses (B, beam)."""
        shape = *tokens.shape, count
        return cls(first, torch.empty(shape), torch.empty(shape, dtype=torch.int64))

    def ask(self, call: CCall) -> None:
        """Let a call of C fill them in."""
        call.first, call.count = self.first, self.values.shape[-1]
        call.values, call.ids = self.values.data_ptr(), self.ids.data_ptr()
