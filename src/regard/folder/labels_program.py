"""The program of a model that gives one label to a text or a pair of texts: one graph."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.text.cells import cells_of
from regard.data.text.entity_marks import check_marks
from regard.data.text.input_warnings import warn_unknown
from regard.data.text.tokenizer import Tokenizer
from regard.runtime.answer import PlainPrediction
from regard.runtime.labels import ranked_labels, softmax_of
from regard.runtime.operators import Array
from regard.runtime.special_ids import EOS
from regard.runtime.stored_program import BeyondProgram, graph_of

__all__ = ["LabelsProgram"]


class LabelsProgram:
    """A model that labels texts.

    Args:
        stored: what `program.json` says.
        folder: has the tokenizer.
        weights: of the folder.
    """

    def __init__(
        self, stored: Mapping[str, Any], folder: Path, weights: Mapping[str, Array]
    ) -> None:
        self._graph = graph_of(stored["graph"], weights)
        self._tokenizer = Tokenizer.load(folder / stored["tokenizer"])
        self._inputs: list[str] = stored["inputs"]
        self._end: list[int] = [EOS] if stored["end"] else []
        self._marked: bool = stored.get("marked", False)
        self._names: list[str] = stored["names"]
        self._temperature: float = stored["temperature"]
        self._sizes: Mapping[str, tuple[int, int | None]] = stored["sizes"]

    @classmethod
    def maker(
        cls, stored: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> "Callable[[Path, Mapping[str, Array]], LabelsProgram] | None":
        """What makes the program; None where settings of a decoder are given: it has no decoder."""
        return None if changes else partial(cls, stored)

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
        rows = {
            place: [self._tokenizer.encode_all([cell])[0].tolist() for cell in cells]
            for place, cells in values.items()
        }
        for k, name in enumerate(self._inputs):
            pairs = [(values[place][k], own[k]) for place, own in rows.items()]
            warn_unknown(pairs, self._tokenizer, len(pairs))
            for _, ids in pairs:
                self._fit(name, len(ids) + len(self._end))
        for place, own in rows.items():
            found[place] = self._label(texts[place], own)
        return found

    def _read(self, text: str) -> list[str]:
        cells = [cell.strip() for cell in cells_of(text, self._inputs)]
        for name, cell in zip(self._inputs, cells, strict=True):
            if not cell:
                raise ValueError(f"{name} is empty")
            if self._marked:
                check_marks(cell)
        return cells

    def _fit(self, name: str, size: int) -> None:
        low, high = self._sizes[name]
        if size < low or (high is not None and size > high):
            raise BeyondProgram(f"its {name} has {low} to {high} tokens")

    def _label(self, text: str, rows: Sequence[list[int]]) -> PlainPrediction:
        given = {
            name: np.array([[*ids, *self._end]])
            for name, ids in zip(self._inputs, rows, strict=True)
        }
        probabilities = softmax_of(self._graph.run(given)["logits"][0], self._temperature)
        ranked = ranked_labels(probabilities, self._names)
        best, *others = (PlainPrediction(text, *one) for one in ranked)
        best.alternatives.extend(others)
        return best
