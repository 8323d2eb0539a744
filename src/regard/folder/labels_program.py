"""The program of a model that gives one label to a text or a pair of texts: one graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.text.cells import Bad, cells_of
from regard.data.text.entity_marks import check_marks
from regard.data.text.input_warnings import warn_unknown
from regard.data.text.sentence_splitters import sentences_of
from regard.data.text.tokenizer import Tokenizer
from regard.folder.without_decoder import WithoutDecoder
from regard.runtime.answer import PlainPrediction
from regard.runtime.labels import ranked_labels, softmax_of
from regard.runtime.ngram_bags import NgramBag
from regard.runtime.operators import Array
from regard.runtime.special_ids import EOS, PAD
from regard.runtime.stored_program import fit, graph_of

__all__ = ["LabelsProgram"]

Rows = Sequence[Sequence[int]]
"""The ids of a text: one row, or a row for each sentence."""


class LabelsProgram(WithoutDecoder):
    """A model that labels texts.

    Args:
        stored: what `program.json` says.
        folder: has the tokenizer.
        weights: of the folder.
    """

    def __init__(
        self, stored: Mapping[str, Any], folder: Path, weights: Mapping[str, Array]
    ) -> None:
        own = stored["graph"]
        self._graph = None if own is None else graph_of(own, weights)
        self._bags = [NgramBag(one, weights) for one in stored["bags"]]
        self.tokenizer = Tokenizer.load(folder / stored["tokenizer"])
        self._inputs: list[str] = stored["inputs"]
        self.end: list[int] = [EOS] if stored["end"] else []
        self._marked: bool = stored["marked"]
        self._sentences: str = stored["sentences"]
        self._names: list[str] = stored["names"]
        self._temperature: float = stored["temperature"]
        self._sizes: Mapping[str, tuple[int, int | None]] = stored["sizes"]

    @property
    def inputs(self) -> Sequence[str]:
        """The names of its texts."""
        return self._inputs

    def predict(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """Label each text, in order; an empty one gets no label.

        Raises:
            BeyondProgram: a text is longer or shorter than the graph is for.
        """
        found = [PlainPrediction(text, "") for text in texts]
        values: dict[int, list[str]] = {}
        for place, text in enumerate(texts):
            if text.strip():
                try:
                    values[place] = self._read(text)
                except ValueError as error:
                    found[place] = PlainPrediction(text, "", refused=str(error))
        rows = {place: [self._cut(cell) for cell in cells] for place, cells in values.items()}
        for k, name in enumerate(self._inputs):
            if not self._sentences:
                pairs = [(values[place][k], own[k][0]) for place, own in rows.items()]
                warn_unknown(pairs, self.tokenizer, len(pairs))
            for own in rows.values():
                fit(name, sum(map(len, own[k])) + len(self.end), self._sizes[name])
        for place, given in rows.items():
            found[place] = self._label(texts[place], given)
        return found

    def logits(self, rows: Sequence[Rows]) -> Array:
        """The logits (C,) of an example.

        Args:
            rows: of each of its texts.
        """
        found: Any = 0
        if self._graph is not None:
            given = self._document(rows[0]) if self._sentences else self._texts(rows)
            found = self._graph.run(given)["logits"][0]
        for bag in self._bags:
            found = found + bag.logits(rows[0])
        return np.asarray(found)

    def _texts(self, rows: Sequence[Rows]) -> dict[str, Array]:
        pairs = zip(self._inputs, rows, strict=True)
        return {name: np.array([[*ids, *self.end]]) for name, (ids,) in pairs}

    def _document(self, rows: Rows) -> dict[str, Array]:
        lengths = np.array([len(ids) for ids in rows])
        words = np.full((len(rows), lengths.max()), PAD)
        for row, ids in zip(words, rows, strict=True):
            row[: len(ids)] = ids
        return {"words": words, "lengths": lengths}

    def _read(self, text: str) -> list[str]:
        cells = [cell.strip() for cell in cells_of(text, self._inputs)]
        for name, cell in zip(self._inputs, cells, strict=True):
            if not cell:
                raise Bad(f"{name} is empty")
            if self._marked:
                check_marks(cell)
        return cells

    def _cut(self, text: str) -> Rows:
        """The ids of a text, or of its sentences that have some."""
        if not self._sentences:
            ids: Rows = [self.tokenizer.encode_all([text])[0].tolist()]
            return ids
        every = self.tokenizer.encode_all(sentences_of(text, self._sentences))
        return [row for ids in every if (row := ids.tolist())]

    def _label(self, text: str, rows: Sequence[Rows]) -> PlainPrediction:
        probabilities = softmax_of(self.logits(rows), self._temperature)
        ranked = ranked_labels(probabilities, self._names)
        best, *others = (PlainPrediction(text, *one) for one in ranked)
        best.alternatives.extend(others)
        return best
