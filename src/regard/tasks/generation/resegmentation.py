"""BPE-dropout in training: each batch has its texts in other pieces than the pass before."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
from torch import Tensor

from regard.data.batch import PairBatch, collate
from regard.data.ragged import RaggedIds
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.protocols import EOS, PAD, Inputs

__all__ = ["Recut", "recut"]


def recut(own: "Recut | None", batch: PairBatch) -> PairBatch:
    """A batch in new pieces.

    Raises:
        RequestError: the task has read no data, so that it has no tokenizers to cut texts with.
    """
    if own is None:
        raise RequestError(
            "task.bpe_dropout: the task has no tokenizers to cut texts with; read the training "
            "data by its `data` first"
        )
    return own(batch)


@dataclass(frozen=True)
class Recut:
    """Cuts the sources and targets of a batch again, at random.

    Args:
        sides: what cuts each side; of `source` and `target`, those that are in subwords.
        most: a text of more pieces than this, EOS counted, stays as it is.
    """

    sides: Mapping[str, BpeDropout]
    most: int

    @classmethod
    def of(cls, dropout: float, tokenizers: Mapping[str, Tokenizer], most: int) -> "Recut | None":
        """By the tokenizers of a task; None where nothing is left out.

        Raises:
            RequestError: none of them is of kind "bpe".
        """
        if not dropout:
            return None
        known = {side: own for side, own in tokenizers.items() if own.kind == "bpe"}
        if not known:
            kinds = " and ".join(sorted({own.kind for own in tokenizers.values()}))
            raise RequestError(
                f"task.bpe_dropout is {dropout:g} and data.tokenizer.kind is {kinds}: it must be "
                "bpe, whose merges are left out"
            )
        return cls({side: BpeDropout(own, dropout) for side, own in known.items()}, most)

    def __call__(self, batch: PairBatch) -> PairBatch:
        """The batch in new pieces; its `count` is that of the new target tokens."""
        source, target = batch.source, _rows(batch.target_out)
        if "target" in self.sides:
            target = self._anew("target", target)
        read = self._anew("source", _rows(source)) if self._reads(source) else target
        made = collate(read, target, range(len(target))).to(batch.target_out.device)
        if not self._reads(source):
            made = replace(made, source=source, source_lengths=batch.source_lengths)
        return replace(made, index=batch.index)

    def _reads(self, source: Tensor | Inputs) -> TypeGuard[Tensor]:
        return isinstance(source, Tensor) and "source" in self.sides

    def _anew(self, side: str, rows: RaggedIds) -> RaggedIds:
        found = self.sides[side](rows)
        over = np.flatnonzero((found.sizes >= self.most) & (found.sizes > rows.sizes))
        if len(over):  # those stay: their own rows stand behind the others
            at = np.arange(len(rows))
            at[over] = len(rows) + over
            found = RaggedIds.join([found, rows]).take(at)
        return found


def _rows(padded: Tensor) -> RaggedIds:
    """Rows of ids before EOS and padding."""
    ids = padded.cpu().numpy()
    real = (ids != EOS) & (ids != PAD)
    return RaggedIds.of(ids[real].astype(np.int32), real.sum(1))
