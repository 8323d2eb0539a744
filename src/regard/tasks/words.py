"""Words aligned by attention, and unknown ones replaced by what they are aligned to.

The weight of target word j on source word i is the mean over the pieces of j of the sum over the
pieces of i of what attention gave; it is linked to the word with the most. The weights are the mean
over the heads of all attentions to the source, unless one is named: in a second, teacher-forced
pass over what was decoded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batch import collate, plan
from regard.data.files.lines import lines as read_lines
from regard.data.problems import Problems
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer, word_groups
from regard.decode.eval_mode import frozen
from regard.errors import RequestError
from regard.metrics.alignment import Link, hard_alignment
from regard.protocols import EOS, UNK
from regard.tasks.prediction import Prediction
from regard.watching.source_attention import chosen, looked, looking

__all__ = ["align", "read_lexicon", "replace_unknown", "split_words", "word_weights"]

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


def replace_unknown(
    predictions: Sequence[Prediction],
    tokenizers: Mapping[str, Tokenizer],
    lexicon: Mapping[str, str] | None = None,
) -> list[Prediction]:
    """Put what each unknown output word is aligned to in its place, as the lexicon has it or as is.

    Args:
        predictions: aligned ones (`align`).
        tokenizers: for `source` and `target`.
        lexicon: what source words become; others are copied.

    Source: Luong et al. (2015), "Addressing the rare word problem"; Jean et al. (2015).
    """
    spelled = tokenizers["target"].spelled()

    def spoken(one: Prediction) -> Prediction:
        if UNK not in one.ids or one.alignment is None:
            return one
        words = split_words(tokenizers["source"], one.input)
        links = {j: i for i, j in one.alignment}
        text, ids = "", _open(one.ids)
        for j, group in enumerate(word_groups(tokenizers["target"].words(ids))):
            own = [ids[place] for place in group]
            if UNK in own and j in links:
                word = words[links[j]]
                joint = "" if tokenizers["target"].kind == "characters" else " "
                text += joint + (lexicon or {}).get(word, word)
            else:
                text += "".join(spelled[i] for i in own)
        return replace(one, output=text.strip(" "))

    return [
        replace(spoken(p), alternatives=[spoken(other) for other in p.alternatives])
        for p in predictions
    ]


def read_lexicon(path: str | Path) -> dict[str, str]:
    """Read `source<TAB>target` lines; the first line of a word holds.

    Raises:
        RequestError: a line without a tab, with its number.
    """
    found: dict[str, str] = {}
    problems = Problems()
    for number, line in read_lines(path, problems):
        word, tab, other = (line or "").partition("\t")
        if not tab and word.strip():
            raise RequestError(
                f"{path}:{number}: expected a word, a tab and what it becomes, got {word[:40]!r}"
            )
        if word.strip():
            found.setdefault(word.strip(), other.strip())
    problems.report(str(path))
    return found


def _links(
    weights: Tensor, said: Sequence[int], heard: Sequence[int], row: str
) -> tuple[Link, ...]:
    """The links of one sentence; `said` and `heard` are the word of each piece."""
    target, source = word_groups(said), word_groups(heard)
    if not target or not source:
        return ()
    links = hard_alignment(word_weights(weights, target, source), row=row)
    named = ((heard[source[i][0]], j) for i, j in links)
    return tuple(sorted(named, key=lambda link: (link[1], link[0])))


def _open(ids: Iterable[int]) -> list[int]:
    """Without what ends a sequence."""
    return [i for i in ids if i != EOS]


def split_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words that links count: letters where letters are pieces."""
    if tokenizer.kind != "characters":
        return text.split()
    return [text[start:end] for start, end in tokenizer.encode(text).offsets]
