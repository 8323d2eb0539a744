"""How likely given outputs are: teacher-forced where a task writes, looked up where it labels.

log p(y | x) = Σ_t log p(y_t | y_<t, x), the end token counted
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.data.batch import plan
from regard.decode.eval_mode import frozen
from regard.errors import nearest
from regard.fields import Bad, Field
from regard.fields.sets import as_fields
from regard.protocols import PAD
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.generation.base import Generation
from regard.tasks.generation.pairs import PairDataset, as_source
from regard.tasks.prediction import Prediction

__all__ = ["likelihoods"]


def likelihoods(
    task: Task,
    model: nn.Module,
    pairs: Sequence[tuple[str, str]],
    decoder: Any,
    fields: Mapping[str, Any],
    *,
    tokens: int = 4096,
) -> list[Prediction]:
    """Each output as if it had been predicted, with its `score` and those of its tokens.

    Of a task that writes, `log_prob` is that of the output's tokens, `score` is this over the
    decoder's length penalty. Of others, the output is one that `predict` gives or has among its
    alternatives, with its score. What cannot be judged says why in `refused`.

    Args:
        model: it stays where it is and in the mode it is in.
        pairs: an input and an output each.
        decoder: whose length penalty ranks.
        tokens: the most padded tokens judged at once.

    Example:
        >>> from regard import load
        >>> own = load("movie-reviews-small")
        >>> told = ("A lovely film.", "neg")
        >>> found = likelihoods(own.task, own.model, [told], own.decoder, own.fields)
        >>> found[0].output, found[0].probability < 0.5
        ('neg', True)
    """
    known = as_fields(fields, task.fields())
    if isinstance(task, Generation):
        return _written(task, model, pairs, decoder, known, tokens)
    given = task.predict(model, [text for text, _ in pairs], decoder, known, tokens=tokens)
    return [_among(task, one, output) for one, (_, output) in zip(given, pairs, strict=True)]


def _among(task: Task, found: Prediction, output: str) -> Prediction:
    """The prediction of this output among those of its input."""
    every = (found, *found.alternatives)
    for one in every:
        if one.output == output and not found.refused:
            return replace(one, input=found.input, alternatives=[])
    why = found.refused
    if not why:
        there = [one.output for one in every if len(one.output) < 40][:20]
        why = f"the task {task.name} gives no score of the output {output[:40]!r}; " + nearest(
            output, there
        )
    return Prediction(found.input, output, refused=why)


def _written(
    task: Generation,
    model: nn.Module,
    pairs: Sequence[tuple[str, str]],
    decoder: Any,
    fields: Mapping[str, Field],
    tokens: int,
) -> list[Prediction]:
    found = [Prediction(given, output) for given, output in pairs]
    rows: dict[str, list[Any]] = {"source": [], "target": []}
    places = []
    for place, (given, output) in enumerate(pairs):
        try:
            source = _read(fields["source"], task.as_read(given), "the input")
            target = _read(fields["target"], output, "the output")
            learned, _ = task.pairs(source, target, training=False)
            if not learned:
                raise ValueError("the output is empty")
        except ValueError as error:
            found[place] = replace(found[place], refused=str(error))
            continue
        for name, value in zip(rows, learned[0], strict=True):
            rows[name].append(value)
        places.append(place)
    if not places:
        return found
    columns: dict[str, Any] = {
        name: fields[name].encode(values, lambda *_: None, fields, rows)
        for name, values in rows.items()
    }
    texts = [pairs[place][0] for place in places]
    source = as_source(columns["source"])
    dataset = PairDataset(source, columns["target"].ids, texts, [[] for _ in places])
    for i, size in enumerate(dataset.sizes[:, 0].tolist()):
        if size > task.max_source:
            why = f"too long: {size} tokens, at most {task.max_source}"
            found[places[i]] = replace(found[places[i]], refused=why)
    for indices in plan(dataset.sizes, tokens=tokens, shuffle=False, rows=task.most):
        good = [i for i in indices if not found[places[i]].refused]
        for i, scores, ids in _judged(model, dataset, good):
            own = found[places[i]]
            spelled = task.spelling(texts[i], fields).tokens(ids)
            ranked = sum(scores) / decoder.normalizer(len(ids))
            found[places[i]] = replace(
                own, score=ranked, tokens=spelled, token_scores=scores, ids=ids
            )
    return found


def _read(field: Field, cell: str, what: str) -> Any:
    try:
        return field.read(cell, {})
    except Bad as bad:
        raise ValueError(f"{what} is {bad}" if bad.what == "empty" else str(bad)) from None


def _judged(
    model: nn.Module, dataset: PairDataset, indices: Sequence[int]
) -> list[tuple[int, list[float], list[int]]]:
    """Of each example the log-probabilities of its output's tokens, and their ids."""
    if not indices:
        return []
    batch = dataset.collate(indices).to(device_of(model))
    with frozen(model), torch.inference_mode():  # type: ignore[arg-type]
        logits = model(batch.source, batch.target_in, batch.source_lengths).logits.float()
        if not getattr(model, "normalized", False):
            logits = logits.log_softmax(-1)
        scores = logits.gather(-1, batch.target_out[..., None])[..., 0].cpu()
    made = []
    for i, own, out in zip(indices, scores, batch.target_out.cpu(), strict=True):
        real = out != PAD
        made.append((i, own[real].tolist(), out[real].tolist()))
    return made
