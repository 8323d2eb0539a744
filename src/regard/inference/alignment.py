"""Words aligned by attention, and unknown ones replaced by what they are aligned to.

Words are what `Tokenizer.units` has; those that one piece covers are linked together. The weight of
target word j on source word i is the mean over the pieces of j of the sum over the pieces of i of
what attention gave; it is linked to the word with the most. The weights are the mean
over the heads of all attentions to the source, unless one is named: in a second, teacher-forced
pass over what was decoded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batch import collate, plan
from regard.data.ragged import RaggedIds
from regard.data.text.segmented import units_of_groups
from regard.data.text.tokenizer import Tokenizer, word_groups
from regard.decode.eval_mode import frozen
from regard.metrics.alignment import Link, hard_alignment
from regard.protocols import EOS
from regard.tasks.prediction import Prediction
from regard.watching.source_attention import chosen, looked, looking

__all__ = ["align", "split_words", "word_weights"]

Groups = Sequence[Sequence[int]]


def word_weights(
    weights: Float[Tensor, "pieces source_pieces"], target: Groups, source: Groups
) -> Float[Tensor, "words source_words"]:
    """Weights of pieces joined to those of words: sums over source pieces, means over target ones.

    Args:
        weights: of one sentence.
        target, source: the places of each word's pieces; places in no word (EOS) count nothing.

    Example:
        >>> weights = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.0, 0.6]])
        >>> word_weights(weights, [[0, 1]], [[0, 1], [2]])
        tensor([[0.5500, 0.4500]])
    """
    columns = torch.stack([weights[:, list(group)].sum(1) for group in source], 1)
    return torch.stack([columns[list(group)].mean(0) for group in target])


def align(
    model: Any,
    predictions: Sequence[Prediction],
    tokenizers: Mapping[str, Tokenizer],
    *,
    attention: str | None = None,
    head: int | None = None,
    row: str = "predicted",
    tokens: int = 4096,
) -> list[Prediction]:
    """The same predictions, alternatives too, with `alignment`: a link for each output word.

    Args:
        model: the `Generator` that made them.
        predictions: as `Generation.predict` gives them.
        tokenizers: for `source` and `target`.
        attention: the name of one attention to the source, or a pattern; all where not given.
        head: this head of each alone, counted from 1; the mean where not given.
        row: which output word the weights of a step belong to, see `metrics.hard_alignment`.
        tokens: the budget of a batch.

    Raises:
        RequestError: the model looks at no source, or has no such attention or head.
    """
    flat = [one for p in predictions for one in (p, *p.alternatives)]
    names = chosen(model, attention)
    found: list[tuple[Link, ...]] = [()] * len(flat)
    decoded = [i for i, one in enumerate(flat) if one.ids]
    if decoded:
        source = tokenizers["source"].encode_all([flat[i].input for i in decoded])
        written = [_open(flat[i].ids) for i in decoded]
        target = RaggedIds.rows(written)
        device = next(model.parameters()).device
        sizes = np.stack([source.sizes, target.sizes], 1) + 1
        for indices in plan(sizes, tokens=tokens, shuffle=False):
            batch = collate(source, target, indices).to(device)
            with frozen(model), torch.inference_mode(), looking(model, names) as seen:
                model(batch.source, batch.target_in, batch.source_lengths)
            weights = looked(seen, head).float().cpu()
            for n, i in enumerate(indices):
                heard = tokenizers["source"].encode(flat[decoded[i]].input).words
                said = tokenizers["target"].words(written[i]) if written[i] else []
                found[decoded[i]] = _links(weights[n], said, heard, row)
    aligned = iter(
        replace(one, alignment=links, alternatives=[])
        for one, links in zip(flat, found, strict=True)
    )
    made = []
    for prediction in predictions:
        best = next(aligned)
        best.alternatives.extend(next(aligned) for _ in prediction.alternatives)
        made.append(best)
    return made


def _links(
    weights: Tensor, said: Sequence[int], heard: Sequence[int], row: str
) -> tuple[Link, ...]:
    """The links of one sentence; `said` and `heard` are the word of each piece."""
    target, source = word_groups(said), word_groups(heard)
    if not target or not source:
        return ()
    links = hard_alignment(word_weights(weights, target, source), row=row)
    sides = units_of_groups(heard), units_of_groups(said)
    named = ((i, j) for one, other in links for i in sides[0][one] for j in sides[1][other])
    return tuple(sorted(named, key=lambda link: (link[1], link[0])))


def _open(ids: Iterable[int]) -> list[int]:
    """Without what ends a sequence."""
    return [i for i in ids if i != EOS]


def split_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words that links count, as `Tokenizer.units` has them."""
    return [text[start:end] for start, end in tokenizer.units(text)]
