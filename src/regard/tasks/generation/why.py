"""Does it matter? What becomes of an output's score when an attention may not look as it did.

A weight says where a model looked. Here each head is taken away, and each attention is made to look
everywhere alike, or where it looked with the places exchanged, and the same output is scored again:
what changes nothing did not matter for it.
"""

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Any

import torch

from regard.attention import MultiHead
from regard.protocols import EOS
from regard.tasks.generation.look import (
    forced,
    forced_look,
    kinds_of,
    looks_view,
    side,
    token_scores,
)
from regard.tasks.loaded_model import LoadedModel
from regard.views import View, ViewOptions
from regard.watching.ablation import Effect, effects, effects_table
from regard.watching.interventions import edited, permuted, uniform, without_head

__all__ = [
    "Effect",
    "edited",
    "effects",
    "effects_table",
    "moved",
    "permuted",
    "uniform",
    "why",
    "why_view",
    "without_head",
]


def why(
    loaded: LoadedModel, text: str, target: str | None = None
) -> tuple[str, float, list[Effect]]:
    """The output, its log-probability, and the effect of each change, the largest first.

    The changes are made to a copy of the model, so that others may use it at the same time.

    Args:
        target: the output to score; the model's best where None.
    """
    tokens, whole, found = _effects(loaded, text, target)
    return loaded.tokenizers["target"].decode(tokens), whole, found


def why_view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """The output of each input, with a table of what each change did to its score."""
    looks, tables, results = [], [], []
    for text in inputs:
        tokens, whole, found = _effects(loaded, text, options.target)
        one = forced_look(loaded, text, tokens, options.measure)
        looks.append(one)
        tables.append(effects_table(whole, found))
        effects = [asdict(effect) for effect in found]
        results.append({"input": text, "output": one.output, "log_prob": whole, "effects": effects})
    made = looks_view(looks, folder=options.folder)
    runs = [
        replace(run, panels=[table], result=result)
        for run, table, result in zip(made.runs, tables, results, strict=True)
    ]
    return replace(made, runs=runs)


def _effects(
    loaded: LoadedModel, text: str, target: str | None
) -> tuple[list[int], float, list[Effect]]:
    """The output's ids, its log-probability, and what each change did, the worst first."""
    held: Any = loaded
    loaded = replace(held, model=copy.deepcopy(loaded.model))
    model: Any = loaded.model
    source, _ = side(loaded.tokenizers["source"], text, "input")
    ids = torch.tensor([source], device=next(model.parameters()).device)
    kinds, goal = kinds_of(model), loaded.tokenizers["target"]
    if target is None:
        with torch.inference_mode():
            wanted = list(loaded.decoder(model, ids, None, None)[0][0].tokens)
    else:
        wanted = [*goal.encode(target).ids, EOS]

    def score() -> float:
        _, value, _ = forced(loaded, ids, wanted, {})
        return value * float(loaded.decoder.normalizer(len(wanted)))

    whole = score()
    found: list[Effect] = []
    modules = dict(model.named_modules())
    for name, kind in kinds.items():
        layer = modules[name]
        heads = range(layer.heads) if isinstance(layer, MultiHead) and layer.heads > 1 else ()
        for h in heads:
            with without_head(layer, h):
                change = score() - whole
            found.append(Effect(name, kind, f"without head {h + 1}", h + 1, change))
        for what, change_of in (("uniform weights", uniform), ("permuted weights", permuted)):
            with change_of(layer):
                change = score() - whole
            found.append(Effect(name, kind, what, None, change))
    found.sort(key=lambda effect: effect.change)
    return wanted, whole, found


def moved(
    loaded: LoadedModel, text: str, target: str, change: AbstractContextManager[None]
) -> list[tuple[str, float, float]]:
    """Each piece of an output with its log-probability, and what that is under a change.

    Example:
        with `edited(layer, 2, weights)` as the change: what the third piece, and those behind it,
        become if that attention looks there.
    """
    model: Any = loaded.model
    source, _ = side(loaded.tokenizers["source"], text, "input")
    goal = loaded.tokenizers["target"]
    wanted = [*goal.encode(target).ids, EOS]
    ids = torch.tensor([source], device=next(model.parameters()).device)
    before = token_scores(model, ids, wanted)
    with change:
        after = token_scores(model, ids, wanted)
    return list(zip(goal.tokens(wanted), before.tolist(), after.tolist(), strict=True))
