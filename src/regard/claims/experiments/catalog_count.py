"""All attention of the catalog, counted: are its keys its values (C25)?"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from regard import catalog
from regard.attention import Attention, Edges, Memory, MultiHead
from regard.catalog.row import NO_ATTENTION
from regard.claims.claim import Measured
from regard.protocols import Inputs
from regard.settings.check import given_by_data, optional_of_data
from regard.views.charts import Chart

__all__ = ["keys_and_values"]

SIZE, WORDS, FRAMES = 13, 6, 16
"""Of vocabularies and other data; words of a text; frames and pixels."""


def read(model: nn.Module, name: str) -> None:
    """Two random examples through the model called `name`."""
    data = given_by_data(catalog.load(name))
    ids, extras = torch.randint(4, SIZE, (2, WORDS)), {}
    extras["characters"] = torch.randint(4, SIZE, (2, WORDS, 5))
    extras["marks"] = extras["cues"] = torch.zeros(2, WORDS, dtype=torch.long)
    extras["copies"] = ids
    text, lengths = Inputs(ids, torch.full((2,), WORDS), extras), torch.full((2,), WORDS)
    if "in_features" in data:
        model(torch.randn(WORDS, SIZE), Edges.of(torch.randint(WORDS, (2, 20)), WORDS))
    elif "num_answers" in data:
        model(torch.randint(4, SIZE, (2, 3, WORDS)), ids, torch.tensor([3, 3]), lengths)
    elif "num_pointers" in data:
        model(ids, ids, lengths, lengths)
    elif list(data) == ["vocab_size"]:
        model(ids)
    elif "target_vocab_size" in data:
        source: Any = text
        if "source_dim" in data:
            source = Inputs(torch.randn(2, FRAMES, SIZE), torch.full((2,), FRAMES))
        elif "in_channels" in data:
            frames = (3,) if "video" in catalog.entry(name).tasks else ()
            source = Inputs(torch.randn(2, *frames, SIZE, FRAMES, FRAMES))
        model(source, ids)
    elif "in_channels" in data:
        model(Inputs(torch.randn(2, SIZE, FRAMES, FRAMES)))
    elif "num_classes" in data and "num_features" in data:
        model(text, text)
    else:
        model(text)


@contextmanager
def counting(model: nn.Module) -> Iterator[dict[str, bool]]:
    """By the path of each attention of the model that runs, whether its values are its keys."""
    found: dict[str, bool] = {}
    paths = {id(module): path for path, module in model.named_modules()}
    inner = {id(m.attention) for m in model.modules() if isinstance(m, MultiHead)}

    def note(layer: nn.Module, key: object, value: object) -> None:
        if id(layer) in inner or id(layer) not in paths:
            return
        if isinstance(key, Memory):
            if not isinstance(layer, MultiHead):  # of a MultiHead they were noted by `remember`
                found.setdefault(paths[id(layer)], key.value is key.key)
        else:
            same = value is None or value is key
            found[paths[id(layer)]] = same and found.get(paths[id(layer)], True)

    def noted(call: Any, first: int) -> Any:
        @wraps(call)
        def wrapped(layer: nn.Module, *given: Any, **more: Any) -> Any:
            key = given[first] if len(given) > first else more["key"]
            value = given[first + 1] if len(given) > first + 1 else more.get("value")
            note(layer, key, value)
            return call(layer, *given, **more)

        return wrapped

    with (
        patch.object(Attention, "forward", noted(Attention.forward, 1)),
        patch.object(MultiHead, "forward", noted(MultiHead.forward, 1)),
        patch.object(Attention, "remember", noted(Attention.remember, 0)),
        patch.object(MultiHead, "remember", noted(MultiHead.remember, 0)),
    ):
        yield found


def keys_and_values(seeds: Sequence[int]) -> Measured:
    """Of models of the catalog with attention: those without this map, those with keys as values.

    A model counts where the keys of all its attentions are their values. Nothing is trained.
    """
    torch.manual_seed(seeds[0])
    elsewhere, counts = 0, [0, 0]
    for entry in catalog.ENTRIES:
        if not entry.axes or entry.axes.items() >= NO_ATTENTION.items():
            continue
        made = catalog.load(entry.name)
        known = set(given_by_data(made)) - (optional_of_data(made) - {"num_characters"})
        model = made(**dict.fromkeys(known, SIZE), **entry.tiny).eval()
        with torch.no_grad(), counting(model) as found:
            read(model, entry.name)
        if found:
            counts[all(found.values())] += 1
        else:
            elsewhere += 1
    values = {
        "models without the map": [float(elsewhere)],
        "models": [float(elsewhere + sum(counts))],
        "share with keys that are values": [counts[True] / sum(counts)],
    }
    bars = {
        "keys are values": [counts[True]],
        "they differ": [counts[False]],
        "no map": [elsewhere],
    }
    return Measured(values, [Chart("models of the catalog", y="models", bars=bars)])
