"""The program of a model that reads a text and writes one: two graphs and a search."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.annotations.linearized_trees import as_tree
from regard.data.annotations.predicate_texts import apart
from regard.data.annotations.trees import escaped_words
from regard.data.text.input_warnings import warn_too_long, warn_unknown
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.runtime.answer import PlainPrediction
from regard.runtime.operators import Array
from regard.runtime.penalties import most_tokens
from regard.runtime.search import SearchOutput, SearchSettings, best_outputs
from regard.runtime.special_ids import EOS
from regard.runtime.stored_program import BeyondProgram, graph_of
from regard.runtime.tree_rule import TreeRule, TreeSymbols
from regard.settings.ranges import within

__all__ = ["TextProgram"]

NOTHING = "no output within the length limit fits what is asked"
"""As `tasks.generation` says it."""


def _settings(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> SearchSettings | None:
    """The settings of the search; None where it lacks one of the changes, or a value is invalid."""
    known = {one.name for one in fields(SearchSettings)} - {"penalty"}
    for key, value in changes.items():
        if key not in known or isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            within(f"decode.{key}", value)
        except RequestError:  # PyTorch's decoder says it
            return None
    made = replace(SearchSettings(**stored), **changes)
    whole = (made.beam_size, made.n_best, made.max_extra, made.min_length)
    if not all(isinstance(one, int) for one in whole):
        return None
    low = (made.max_ratio, made.max_extra, made.min_length, made.length_penalty)
    least = stored["beam_size"] and 1  # 0 is greedy
    if made.beam_size < least or made.n_best > max(made.beam_size, 1) or min(low) < 0:
        return None
    if made.n_best < 1 or made.max_ratio + made.max_extra <= 0:
        return None
    most = made.max_length
    return None if most is not None and most < max(1, made.min_length) else made


class TextProgram:
    """A model that reads a text and writes one, as two graphs and a search.

    Args:
        stored: what `program.json` says.
        settings: of the search.
        folder: has the tokenizers.
        weights: of the folder.
    """

    def __init__(
        self,
        stored: Mapping[str, Any],
        settings: SearchSettings,
        folder: Path,
        weights: Mapping[str, Array],
    ) -> None:
        self.settings = settings
        self._encoder, self._step = (
            graph_of(stored[name], weights) for name in ("encoder", "step")
        )
        names: Mapping[str, str] = stored["tokenizers"]
        made = {file: Tokenizer.load(folder / file) for file in set(names.values())}
        self._source, self._target = made[names["source"]], made[names["target"]]
        self._max_source: int = stored["max_source"]
        self._least: int = stored["sizes"][0]
        self._most: int | None = stored["sizes"][1]
        self._steps: int | None = stored["steps"]
        self._normalized: bool = stored["normalized"]
        self._trees: bool = "trees" in stored
        self._symbols: TreeSymbols | None = None
        if self._trees and stored["trees"]["constrained"]:
            self._symbols = TreeSymbols(self._target.vocabulary)

    writes = True

    @property
    def inputs(self) -> Sequence[str]:
        """The source."""
        return ("source",)

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the source."""
        return self._source

    def changed(self, changes: Mapping[str, Any]) -> "TextProgram | None":
        """The same with other settings of the search; None where it lacks one of them."""
        settings = _settings(asdict(self.settings), changes)
        if settings is None:
            return None
        made = copy(self)
        made.settings = settings
        return made

    def join(self, lines: Iterator[str]) -> Iterator[str]:
        """A line is an input."""
        return lines

    @classmethod
    def maker(
        cls, stored: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> "Callable[[Path, Mapping[str, Array]], TextProgram] | None":
        """What makes the program with these settings; None where the search lacks them."""
        settings = _settings(stored["search"], changes)
        return None if settings is None else partial(cls, stored, settings)

    def predict(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """Answer each text, in order; an empty text has an empty output.

        Raises:
            BeyondProgram: a text is longer or shorter than the graphs are for.
        """
        if self._trees:
            texts = [apart(text) for text in texts]
        read = [escaped_words(text) for text in texts] if self._trees else list(texts)
        rows = [one.tolist() for one in self._source.encode_all(read)]
        sizes = [len(ids) + 1 for ids in rows]  # with EOS
        self._fit([n for n in sizes if 1 < n <= self._max_source])
        warn_unknown(zip(read, rows, strict=True), self._source, len(texts))
        warn_too_long(sum(n > self._max_source for n in sizes), len(texts), self._max_source)
        return [self._answer(text, ids) for text, ids in zip(texts, rows, strict=True)]

    def _fit(self, sizes: Sequence[int]) -> None:
        own = self.settings
        allowed = (most_tokens(n, own.max_ratio, own.max_extra, own.max_length) for n in sizes)
        if own.min_length > max(allowed, default=own.min_length):  # PyTorch's decoder says so
            raise BeyondProgram("its outputs are no longer than max_ratio and max_extra allow")
        for size in sizes:
            if size < self._least or (self._most is not None and size > self._most):
                raise BeyondProgram(f"its sources have {self._least} to {self._most} tokens")
            if self._steps is not None and self.settings.limit(size) > self._steps + 1:
                raise BeyondProgram(f"its outputs have at most {self._steps + 1} tokens")

    def _answer(self, text: str, ids: list[int]) -> PlainPrediction:
        size = len(ids) + 1
        if size > self._max_source:
            return PlainPrediction(
                text, "", refused=f"too long: {size} tokens, at most {self._max_source}"
            )
        if not ids:
            return PlainPrediction(text, "")
        found = self.search([*ids, EOS])
        if not found:
            return PlainPrediction(text, "", refused=NOTHING)
        best, *others = (self._said(text, one) for one in found)
        best.alternatives.extend(others)
        return as_tree(best) if self._trees else best

    def _said(self, text: str, found: SearchOutput) -> PlainPrediction:
        return PlainPrediction(
            text,
            self._target.decode(found.tokens),
            found.score,
            self._target.tokens(found.tokens),
            found.token_scores,
            ids=found.tokens,
        )

    def search(self, ids: Sequence[int]) -> list[SearchOutput]:
        """The best outputs for one source, its EOS counted."""
        made = self._encoder.run({"source": np.array([ids])})
        memories = {name: x for name, x in made.items() if name.startswith("memory")}
        states = {name: x for name, x in made.items() if name.startswith("state")}

        def step(number: int, tokens: Array, parents: Array) -> Array:
            nonlocal states
            given = {"tokens": tokens[None], "step": np.array(number), **memories}
            given |= {name: x[:, parents] for name, x in states.items()}
            found = self._step.run(given)
            states = {name: found[f"next_{name}"] for name in states}
            scores: Array = found["logits"][0]
            return scores

        limit = self.settings.limit(len(ids))
        rule = None
        if self._symbols is not None:
            words = self._source.words(ids[:-1])[-1] + 1
            rule = TreeRule(self._symbols, words, limit)
        return best_outputs(
            made["logits"][0], step, limit, self.settings, normalized=self._normalized, rule=rule
        )
