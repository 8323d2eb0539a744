r"""Guided alignment: attention is taught to look where given links say.

    loss = cross-entropy - w Σ_t Σ_s A_ts log α_ts

A_ts is 1/n for the n source pieces that belong to the words linked to piece t's word, α the mean
over heads and attentions of what attention gave; pieces without a link and the end symbol teach it
nothing. Chen, Matusov, Khadivi and Peter (2016), "Guided Alignment Training for Topic-Aware Neural
Machine Translation", arXiv 1607.01628; Mi, Wang and Ittycheriah (2016), "Supervised Attentions for
Neural Machine Translation".
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.recording import Seen
from regard.data import sources
from regard.data.batch import PairBatch
from regard.data.files.lines import lines
from regard.data.problems import Problems
from regard.data.text.segmented import units_of_groups
from regard.data.text.tokenizer import Tokenizer, word_groups
from regard.errors import RequestError
from regard.metrics.alignment import Link, read_links
from regard.watching.source_attention import chosen, looked, looking

__all__ = ["Guided", "guiding_loss", "piece_links"]

LEAST = 1e-8
"""The least that attention counts as, so that its logarithm is finite."""


@dataclass(frozen=True)
class Guided:
    """Settings of `task.guided`.

    Args:
        alignments: a file in the Pharaoh format (`0-0 1-2`), a line for each row of the training
            file; every link counts as sure.
        weight: w.
        attention: a name or a pattern; all attentions to the source where not given.
        head: this head alone, counted from 1; the mean of all where not given.
    """

    alignments: str
    weight: float = 1.0
    attention: str | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise RequestError(f"task.guided.weight is {self.weight}; it must be 0 or more")

    def read(
        self,
        rows: Sequence[int],
        texts: Sequence[tuple[str, str]],
        tokenizers: Mapping[str, Tokenizer],
    ) -> list[NDArray[np.int64]]:
        """The links of pieces of each pair of texts.

        Args:
            rows: the row of the training file that each pair came from, counted from 0.
            texts: the pairs.
            tokenizers: for `source` and `target`.

        Raises:
            RequestError: too few lines, a line that is not Pharaoh, a word that is not there.
        """
        path = sources.find(self.alignments)
        problems = Problems()
        read = read_links((text or "" for _, text in lines(path, problems)), name=str(path))
        problems.report(str(path))
        if rows and max(rows) >= len(read):
            raise RequestError(
                f"{path} has {len(read)} lines, but the training file has {max(rows) + 1} rows or "
                "more; give a line for each row, an empty one where there is no alignment"
            )
        found = []
        for row, (one, other) in zip(rows, texts, strict=True):
            heard = tokenizers["source"].encode(one).words
            said = tokenizers["target"].encode(other).words
            try:
                found.append(piece_links(read[row].possible, heard, said))
            except IndexError as error:
                raise RequestError(f"{path}:{row + 1}: {error}") from None
        return found

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[Seen]:
        """See what the model looks at, with its gradient."""
        with looking(model, chosen(model, self.attention), gradient=True) as seen:
            yield seen

    def loss(self, seen: Seen, batch: PairBatch) -> Tensor:
        """What attention is charged for one forward pass over the batch: a sum over pieces."""
        if batch.links is None:
            return next(iter(seen.values())).steps[0].new_zeros(())
        return self.weight * guiding_loss(looked(seen, self.head), batch.links)


def guiding_loss(
    weights: Float[Tensor, "batch target source"], links: Int[Tensor, "links 3"]
) -> Float[Tensor, ""]:
    r"""Sum the cross-entropy of attention against links: :math:`-\sum A_{ts} \log \alpha_{ts}`.

    Shapes:
        weights (B, T, S), probabilities over S; links (n, 3): row, source place, target place
    """
    rows, source, target = links.unbind(1)
    counts = weights.new_zeros(weights.shape[:2])  # n of each target piece
    counts.index_put_((rows, target), weights.new_ones(len(links)), accumulate=True)
    charged = -weights[rows, target, source].float().clamp_min(LEAST).log()
    return (charged / counts[rows, target]).sum()


def piece_links(
    links: Iterable[Link], heard: Sequence[int], said: Sequence[int]
) -> NDArray[np.int64]:
    """Links between words as links between all their pieces: (n, 2), source and target places.

    Args:
        links: of source and target words.
        heard, said: the word of each source and target piece.

    Raises:
        IndexError: a word that is not there.

    Example:
        >>> piece_links([(0, 1)], [0, 0], [0, 1]).tolist()
        [[0, 1], [1, 1]]
    """
    pieces: list[defaultdict[int, list[int]]] = []
    for words in (heard, said):
        places: defaultdict[int, list[int]] = defaultdict(list)
        for group, units in zip(word_groups(words), units_of_groups(words), strict=True):
            for word in units:
                places[word] += group
        pieces.append(places)
    found: list[Any] = []
    for i, j in sorted(links):
        for side, word, words in (("source", i, heard), ("target", j, said)):
            if word > max(words, default=-1):
                raise IndexError(f"{i}-{j} names a {side} word that is not there")
        found += [(s, t) for s in pieces[0][i] for t in pieces[1][j]]
    return np.array(found, np.int64).reshape(-1, 2)
