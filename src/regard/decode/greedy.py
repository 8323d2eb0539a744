"""Greedy decoding: always the likeliest next token."""

from dataclasses import dataclass

from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.search import Decoder, Request
from regard.decode.top import top
from regard.decode.walk import walk

__all__ = ["Greedy"]


@dataclass(frozen=True)
class Greedy(Decoder):
    """Take the likeliest token at every step: y_t = argmax p(y | y_<t, x)."""

    def search(self, request: Request) -> list[list[Hypothesis]]:
        """Follow one hypothesis a sentence."""

        def likeliest(scores: Tensor, step: int, rows: Tensor) -> Tensor:
            return top(scores, 1)[1].squeeze(-1)

        return walk(self, request, likeliest)
