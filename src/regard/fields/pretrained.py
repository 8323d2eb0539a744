"""Word vectors that somebody else has trained, for a model to start from."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.data import sources
from regard.data.text.normal_form import composed
from regard.data.text.word_vectors import read_word_vectors
from regard.errors import RequestError

__all__ = ["Pretrained"]


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A file of word vectors, and those of its vectors that are used.

    Args:
        path: the file; see `data.text.word_vectors`. Looked up as data are.
        most: this many words from its beginning are known to the model though training lacks them;
            files of vectors begin with the most frequent words.
        tune: whether training changes the vectors.
        normalize: bring every vector to length 1.
        words, vectors: those that were read.
    """

    path: str
    most: int = 0
    tune: bool = False
    normalize: bool = False
    words: Sequence[str] = ()
    vectors: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> "Pretrained":
        """From the section `data.vectors` of a recipe.

        Raises:
            RequestError: it names no file, or a number of words below 0.
        """
        if not section.get("path"):
            raise RequestError("data.vectors: expected a path, the file of word vectors")
        if section.get("most", 0) < 0:
            raise RequestError(f"data.vectors.most is {section['most']}; it must be 0 or more")
        return cls(**section)

    def read(self, wanted: Sequence[str]) -> "Pretrained":
        """With the vectors of these words and of the first `most` of the file.

        Raises:
            RequestError: there is no such file, it holds no word vectors, or none of these words.
        """
        known = set(wanted)
        apart = {unicodedata.normalize("NFD", word) for word in known if not word.isascii()}
        words, vectors = read_word_vectors(sources.find(self.path), known | apart, self.most)
        first: dict[str, int] = {}
        for row, word in enumerate(words):
            first.setdefault(composed(word), row)
        words, vectors = list(first), vectors[list(first.values())]
        if known and known.isdisjoint(words):
            raise RequestError(
                f"data.vectors: {self.path} has none of the {len(known):,} words of the training "
                "data: another language, or capital letters where the tokenizer has small ones?"
            )
        if self.normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return replace(self, words=words, vectors=vectors.astype(np.float32))

    def table(
        self, vocabulary: Sequence[str]
    ) -> tuple[Float[Tensor, "known dim"], Bool[Tensor, " vocabulary"]]:
        """(the vectors of the words that have one, in order; which words have one)."""
        at = {word: i for i, word in enumerate(self.words)}
        places = [at.get(word, -1) for word in vocabulary]
        known = torch.tensor(places) >= 0
        rows = self.vectors[[place for place in places if place >= 0]]
        return torch.from_numpy(rows), known
