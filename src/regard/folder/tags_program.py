"""The program of a tagger: one graph, and a search for the best tags."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.annotations.predicate_finder import PredicateFinder
from regard.data.annotations.predicate_texts import (
    AskedText,
    asked_texts,
    merged_roles,
    places_of,
)
from regard.data.annotations.tag_schemes import allowed, convert, repaired
from regard.data.annotations.tagged_text import TaggedText
from regard.data.text.cells import Bad, cells_of
from regard.data.text.input_warnings import warn_unknown
from regard.data.text.normal_form import composed
from regard.data.text.tokenizer import Tokenizer
from regard.folder.without_decoder import WithoutDecoder
from regard.runtime.answer import PlainPrediction
from regard.runtime.labels import LEAST
from regard.runtime.operators import Array
from regard.runtime.role_search import RoleSearch
from regard.runtime.special_ids import UNK
from regard.runtime.stored_program import BeyondProgram, graph_of
from regard.runtime.tag_paths import TagChain, best_tags

__all__ = ["TagsProgram"]


class TagsProgram(WithoutDecoder):
    """A model that tags the words of a text.

    Args:
        stored: what `program.json` says.
        folder: has the tokenizer, and what finds predicates.
        weights: of the folder.
    """

    def __init__(
        self, stored: Mapping[str, Any], folder: Path, weights: Mapping[str, Array]
    ) -> None:
        self._graph = graph_of(stored["graph"], weights)
        text = (folder / stored["tokenizer"]).read_text("utf-8")
        letters: list[str] = []
        if stored["characters"]:
            both = json.loads(text)
            text, letters = json.dumps(both["tokenizer"]), both["letters"]
        self.tokenizer = Tokenizer.from_json(text)
        self._letters = {letter: i for i, letter in enumerate(letters, UNK + 1)}
        self._marks: bool = stored["marks"]
        self._finder: PredicateFinder | None = None
        if stored["predicates"]:
            known = json.loads((folder / stored["predicates"]).read_text("utf-8"))
            self._finder = PredicateFinder(known["weights"], float(known["bias"]))
        self._tags: list[str] = stored["tags"]
        self._scheme: str = stored["scheme"]
        self._learned_as: str = stored["learned_as"]
        self._temperature: float = stored["temperature"]
        self._raised = np.zeros(len(self._tags))
        if "O" in self._tags:
            self._raised[self._tags.index("O")] = stored["outside"]
        self._rules: TagChain | None = None
        self._roles = RoleSearch(self._tags) if stored["constraints"] == "roles" else None
        if stored["constraints"] == "scheme":
            self._rules = TagChain(*allowed(self._tags, self._learned_as or self._scheme))
        self._most: int | None = stored["most"]

    @property
    def inputs(self) -> Sequence[str]:
        """The words, and which of them are marked where the model reads that."""
        return ("text", "predicate") if self._marks else ("text",)

    def predict(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """Tag each text, in order; an empty one gets no tags.

        Of a text without marks, the roles of each predicate that is found in it.

        Raises:
            BeyondProgram: a text is longer than the graph is for, or has no words as blanks divide
                them.
        """
        asked = [AskedText(text) for text in texts]
        if self._marks:
            asked = asked_texts(texts, self._finder)
        every = iter(self._examples([one for own in asked for one in own.examples]))
        found = []
        for own in asked:
            parts = [next(every) for _ in own.examples]
            found.append(merged_roles(own, parts, self._scheme) if own.plain else parts[0])
        return found

    def run(
        self, ids: Sequence[int], marks: Sequence[int], letters: Array | None
    ) -> dict[str, Array]:
        """The emissions (1, L, C) of a text, and the weights of the chain where there is one.

        Args:
            ids: of its words.
            marks: the places of marked words.
            letters: ids (1, L, letters) of the characters of each word, where the model reads them.
        """
        inputs = {"words": np.array([ids]), "lengths": np.array([len(ids)])}
        if self._marks:
            inputs["marks"] = np.zeros((1, len(ids)), np.int64)
            inputs["marks"][0, marks] = 1
        if letters is not None:
            inputs["characters"] = letters
        return self._graph.run(inputs)

    def _examples(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """The tags of each text; one has marks where the model reads them."""
        found = [PlainPrediction(text, "") for text in texts]
        read: dict[int, tuple[str, list[int]]] = {}
        for place, text in enumerate(texts):
            if text.strip():
                try:
                    read[place] = self._read(text)
                except ValueError as error:
                    found[place] = PlainPrediction(text, "", refused=str(error))
        rows = self.tokenizer.encode_all([text for text, _ in read.values()])
        ids = {place: row.tolist() for place, row in zip(read, rows, strict=True)}
        for place, (text, _) in read.items():
            if len(ids[place]) != len(text.split()):
                raise BeyondProgram("a word has a character in it that divides words")
            if self._most is not None and len(ids[place]) > self._most:
                raise BeyondProgram(f"its texts have at most {self._most} words")
        pairs = [(text, ids[place]) for place, (text, _) in read.items()]
        warn_unknown(pairs, self.tokenizer, len(pairs))
        for place, (text, marks) in read.items():
            found[place] = self._tag(texts[place], text, ids[place], marks)
        return found

    def _read(self, text: str) -> tuple[str, list[int]]:
        """The words of an example, and the numbers of those that are marked."""
        names = ["text", "predicate"] if self._marks else ["text"]
        words, *cells = cells_of(text, names)
        words = words.strip()
        if not words:
            raise ValueError("text is empty")
        try:
            return words, places_of(cells[0], words) if cells else []
        except Bad as bad:
            raise ValueError(f"predicate is {bad}" if bad.what == "empty" else str(bad)) from None

    def _tag(self, given: str, text: str, ids: Sequence[int], marks: Sequence[int]) -> TaggedText:
        letters = self._spelled(composed(text).split()) if self._letters else None
        made = self.run(ids, marks, letters)
        emissions = made["emissions"][0] / self._temperature + self._raised
        chain = None
        if "transitions" in made:
            chain = TagChain(*(made[name] / self._temperature for name in TagChain._fields))
        best = best_tags(emissions, chain, self._rules, self._roles)
        tags = [self._tags[i] for i in best.tags]
        if self._learned_as:
            tags = convert(repaired(tags, self._learned_as), self._learned_as, self._scheme)
        sure = np.log(np.maximum(best.confidences, LEAST)).tolist()
        return TaggedText(
            given, " ".join(tags), best.score, tags, sure, ids=best.tags, scheme=self._scheme
        )

    def _spelled(self, words: Sequence[str]) -> Array:
        """The characters of each word: (1, T, C)."""
        found = np.zeros((1, len(words), max(map(len, words))), np.int64)
        for place, word in enumerate(words):
            found[0, place, : len(word)] = [self._letters.get(one, UNK) for one in word]
        return found
