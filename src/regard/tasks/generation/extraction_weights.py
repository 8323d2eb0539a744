"""ABS+ in a task that writes: the rule for a batch, and its weights found on dev."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.decode import Beam
from regard.decode.mert import rounds
from regard.decode.rules.extractive import FEATURES, Extraction
from regard.errors import RequestError
from regard.fields.copied import CopiedColumn
from regard.protocols import UNK

__all__ = ["in_target_ids", "tuned"]

Decode = Callable[[Mapping[str, float]], Sequence[Any]]
"""From weights to predictions of the same sources each time, with their alternatives."""
FREE = {1 + FEATURES.index("reordered"): (-np.inf, 0.0)}
"""Another order than the source's is never rewarded, as in the authors' settings."""


def in_target_ids(source: Any, tokenizers: Mapping[str, Tokenizer]) -> list[list[int]]:
    """The words of some sources in ids of the target's vocabulary; what it lacks is unknown."""
    if isinstance(source, CopiedColumn):
        return [row.tolist() for row in source.copies]
    ids = source if isinstance(source, RaggedIds) else source.ids
    one, other = tokenizers["source"], tokenizers["target"]
    if one.vocabulary == other.vocabulary:
        return [row.tolist() for row in ids]
    known = {token: i for i, token in enumerate(other.vocabulary)}
    there = np.array([known.get(token, UNK) for token in one.vocabulary])
    return [there[row].tolist() for row in ids]


def tuned(
    decode: Decode,
    sources: Sequence[Sequence[int]],
    quality: Callable[[Sequence[str]], NDArray[np.float64]],
    decoder: Any,
    start: Mapping[str, float],
    most: int = 4,
) -> tuple[dict[str, float], list[float]]:
    """The weights of features whose decoding of some sources was best, and each round's quality.

    Args:
        decode: gives predictions under some weights.
        sources: in ids of the target.
        quality: of an output for each source, given in the order of the sources.
        decoder: what decodes; its length penalty is part of what is tuned.
        start: weights to start from.
        most: the most rounds of decoding.
    """

    def run(
        weights: Sequence[float],
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        told = dict(zip(FEATURES, weights[1:], strict=True))
        rule = Extraction(sources, told)
        each = [[one, *one.alternatives] for one in decode(told)]
        each = [[one for one in own if one.ids] for own in each]
        features = [
            np.array([_features(rule, row, one, decoder) for one in own]).reshape(len(own), -1)
            for row, own in enumerate(each)
        ]
        good = [np.zeros(len(own)) for own in each]
        for place in range(max(map(len, each), default=0)):
            there = [own[place].output if place < len(own) else "" for own in each]
            for row, value in enumerate(quality(there)):
                if place < len(good[row]):
                    good[row][place] = value
        return features, good

    first = [1.0, *(float(start.get(name, 0.0)) for name in FEATURES)]
    weights, reached = rounds(run, first, most=most, fixed=[0], bounds=FREE)
    return dict(zip(FEATURES, (round(one, 4) for one in weights[1:]), strict=True)), reached


def n_best(decoder: Any) -> Any:
    """The decoder with all of its beam given back.

    Raises:
        RequestError: it is no beam search.
    """
    if not isinstance(decoder, Beam):
        raise RequestError(
            "task.tune_extraction: weights are found among the hypotheses of a beam; expected "
            f"decode.name beam, got {type(decoder).__name__.lower()}"
        )
    return replace(decoder, n_best=decoder.beam_size)


def _features(rule: Extraction, row: int, one: Any, decoder: Any) -> NDArray[np.float64]:
    """The model's score and the features of a hypothesis, as the decoder's ranking has them."""
    own = rule.own(row, one.ids, float(sum(one.token_scores)))
    counts = np.array([own, *rule.features(row, one.ids)])
    scaled: NDArray[np.float64] = counts / decoder.normalizer(len(one.ids))
    return scaled
