"""From texts to predictions, the same way for every task; `Task.predict` is its form."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from regard.data.dataset import Dataset
from regard.decode.search_batch import for_inputs
from regard.fields.sets import as_fields
from regard.tasks.prediction import Prediction

__all__ = ["predict"]


def predict(
    task: Any,
    model: nn.Module,
    texts: Sequence[str] | Dataset,
    decoder: Any,
    fields: Mapping[str, Any],
    tokens: int,
    asked: Mapping[str, Any],
) -> list[Prediction]:
    """Predict each input: see `Task.predict`.

    Raises:
        RequestError: something is asked that the task cannot do.
    """
    known = as_fields(fields, task.fields())
    if isinstance(texts, Sequence):
        wanted = task.checked(dict(asked), texts, known)
        given = task.asked(list(texts), known)
    else:
        wanted = task.checked(dict(asked), texts.texts, known)
        given = task.whole(texts)
    found = list(given.refused)
    if given.dataset is None:
        return list(given.answers(found))
    with torch.no_grad():
        for indices in task.batches(given.dataset, tokens):
            places = [given.places[i] for i in indices]
            at = {name: [several[place] for place in places] for name, several in wanted.items()}
            with for_inputs(places):
                made = task.outputs(model, given.dataset, indices, decoder, known, **at)
            for place, prediction in zip(places, made, strict=True):
                found[place] = prediction
    return list(given.answers(found))
