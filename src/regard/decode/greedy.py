"""Greedy decoding: always the likeliest next token."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from regard.decode.decoder import Decoder
from regard.decode.search_batch import SearchBatch, SoFar
from regard.decode.single_path import walk
from regard.decode.top import top
from regard.settings.old_names import DECODER, renaming

__all__ = ["Greedy"]


@renaming(DECODER)
@dataclass(frozen=True)
class Greedy(Decoder):
    """Take the likeliest token at every step: y_t = argmax p(y | y_<t, x)."""

    def search(self, request: SearchBatch) -> Iterator[SoFar]:
        """Follow one hypothesis a sentence."""

        def likeliest(scores: Tensor, step: int, rows: Tensor) -> Tensor:
            return top(scores, 1)[1].squeeze(-1)

        return walk(self, request, likeliest, greedy=True)
