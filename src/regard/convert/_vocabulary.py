"""Another program's vocabulary in the order of ours: padding, start, end, unknown, then the rest.

A program may start its outputs with padding (Marian) or with the end (fairseq): then the start is
one more row here, a copy of that one, which is never an output.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import tokenizers
import torch
from tokenizers import models, pre_tokenizers
from torch import Tensor

from regard.data.text.tokenizer import SPECIALS, Tokenizer
from regard.errors import RequestError
from regard.protocols import BOS

__all__ = ["NEVER", "ConvertedVocabulary", "numbers", "special", "words"]

NEVER = -1e4
"""The logit that is taken from what is never an output: its probability is 0, also in float16."""


@dataclass(frozen=True)
class ConvertedVocabulary:
    """The vocabulary of a source or of a target.

    Args:
        order: for each id of ours, theirs.
        names: for each id of ours, its token; no two are the same.
        copied: whether the start is a copy of another row.
    """

    order: list[int]
    names: list[str]
    copied: bool

    @classmethod
    def of(
        cls, names: Sequence[str], pad: int, start: int, end: int, unknown: int
    ) -> "ConvertedVocabulary":
        """Arrange tokens, given in their order, by which of them are special there."""
        first = [pad, start, end, unknown]
        rest = [i for i in range(len(names)) if i not in first]
        order = [*first, *rest]
        return cls(order, _unique([*SPECIALS, *(names[i] for i in rest)]), start in (pad, end))

    def rows(self, table: Tensor) -> Tensor:
        """The rows of a matrix of theirs, in our order."""
        most = max(self.order)
        if len(table) <= most or len(set(self.order)) != len(table):
            raise RequestError(
                f"the vocabulary has {most + 1} tokens, and the embedding {len(table)} rows: they"
                " are not of one model"
            )
        return table.detach().float()[self.order]

    def bias(self, bias: Tensor | None) -> Tensor:
        """What is added to the logits, in our order."""
        out = torch.zeros(len(self.order)) if bias is None else bias.flatten().float()[self.order]
        if self.copied:
            out[BOS] = NEVER
        return out


def numbers(size: int) -> list[str]:
    """Tokens where no list of them is at hand: their numbers."""
    return [str(i) for i in range(size)]


def special(names: Sequence[str], token: str, where: object) -> int:
    """The place of a special token.

    Raises:
        RequestError: it is not in the list.
    """
    if token not in names:
        raise RequestError(f"{where} has no {token!r}, which the model needs")
    return list(names).index(token)


def words(side: ConvertedVocabulary) -> Tokenizer:
    """Texts are the tokens themselves, with spaces between."""
    inner = tokenizers.Tokenizer(
        models.WordLevel({name: i for i, name in enumerate(side.names)}, unk_token=SPECIALS[-1])
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    layout = json.loads(inner.to_str())
    return Tokenizer.from_json(json.dumps(layout, ensure_ascii=False))


def _unique(names: Sequence[str]) -> list[str]:
    """The same names; those that another has already get their number behind them."""
    seen: set[str] = set()
    found = []
    for i, name in enumerate(names):
        own = name if name not in seen else f"{name}#{i}"
        seen.add(own)
        found.append(own)
    return found
