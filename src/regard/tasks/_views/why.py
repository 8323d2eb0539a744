"""Does it matter? What becomes of an output's score when an attention may not look as it did.

A weight says where a model looked. Here each head is taken away, and each attention is made to look
everywhere alike, or where it looked with the places exchanged, and the same output is scored again:
what changes nothing did not matter for it. `edited` sets a row by hand.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.errors import RequestError
from regard.protocols import EOS
from regard.tasks._views.generation import (
    forced,
    forced_look,
    kinds_of,
    looks_view,
    side,
    token_scores,
)
from regard.tasks._views.loaded import LoadedModel
from regard.views import TablePanel, View, ViewOptions

__all__ = ["Effect", "edited", "moved", "permuted", "uniform", "why", "without_head"]


@dataclass(frozen=True)
class Effect:
    """One change and what it did.

    Args:
        attention: the module's path.
        kind: cross, decoder or encoder.
        what: the change, in words.
        head: which was taken away, from 1; None where the whole attention was changed.
        change: of the output's log-probability, in nats; below zero the output lost.
    """

    attention: str
    kind: str
    what: str
    head: int | None
    change: float


def why(
    loaded: LoadedModel, text: str, target: str | None = None
) -> tuple[str, float, list[Effect]]:
    """The output, its log-probability, and the effect of each change, the largest first.

    The changes are made to a copy of the model, so that others may use it meanwhile.

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
        tables.append(TablePanel(
            columns=("ATTENTION", "CHANGE MADE", "LOG-PROBABILITY"),
            cells=tuple(
                (e.attention, e.what, f"{e.change:+.3f}".replace("-", "−")) for e in found
            ),
            note=f"The output has log-probability {whole:.3f}. What changes little did not matter "
            "for this output alone; several heads may do the same work.",
        ))  # fmt: skip
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
        for what, changed in (("uniform weights", uniform), ("permuted weights", permuted)):
            with changed(layer):
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


@contextmanager
def without_head(layer: nn.Module, head: int) -> Iterator[None]:
    """While the block runs, what one head reads does not leave the layer."""
    assert isinstance(layer, MultiHead)
    weight = layer.out.weight
    width = weight.shape[1] // layer.heads
    part = weight.detach()[:, head * width : (head + 1) * width]
    kept = part.clone()
    part.zero_()
    try:
        yield
    finally:
        part.copy_(kept)


@contextmanager
def uniform(layer: nn.Module) -> Iterator[None]:
    """While the block runs, every place that may be looked at gets the same weight."""
    with _selecting(layer, lambda kept: _Even(kept)):
        yield


@contextmanager
def permuted(layer: nn.Module, seed: int = 0) -> Iterator[None]:
    """While the block runs, each row's weights go to its places in another order.

    As peaked as before, but elsewhere (Jain and Wallace 2019, section 4.2.1).
    """
    with _selecting(layer, lambda kept: _Permuted(kept, seed)):
        yield


@contextmanager
def edited(
    layer: nn.Module, row: int, weights: Sequence[float], head: int | None = None
) -> Iterator[None]:
    """While the block runs, one row looks as it is told.

    Args:
        row: of the first output that is teacher forced in the block, from 0; the rows of a
            decoder's several calls are counted through. `moved` runs just that.
        weights: of every key.
        head: from 0; all where not given.

    Raises:
        RequestError: not a weight for every key.
    """
    with _selecting(layer, lambda kept: _Edited(kept, row, weights, head)):
        yield


@contextmanager
def _selecting(layer: nn.Module, changed: Callable[[Any], Any]) -> Iterator[None]:
    inner: Any = layer.attention if isinstance(layer, MultiHead) else layer
    kept = inner.select
    inner.select = changed(kept)
    try:
        yield
    finally:
        inner.select = kept


class _Changed:
    """A select in place of another, whose weights it changes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.sums = inner, inner.sums
        self.window = None  # so that every place is there to be changed

    def __call__(
        self, scores: Tensor, *, mask: Tensor | None = None, **more: Any
    ) -> tuple[Tensor, Tensor | None]:
        weights, _ = self.inner(self.before(scores), mask=mask, **more)
        return self.after(weights, mask), None

    def before(self, scores: Tensor) -> Tensor:
        """What it is given in place of the scores."""
        return scores

    def after(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        """What becomes of its weights."""
        return weights


class _Even(_Changed):
    def before(self, scores: Tensor) -> Tensor:
        return torch.zeros_like(scores)


class _Permuted(_Changed):
    def __init__(self, inner: Any, seed: int) -> None:
        super().__init__(inner)
        self.draw = torch.Generator().manual_seed(seed)

    def after(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        noise = torch.rand(weights.shape, generator=self.draw).to(weights.device)
        if mask is None:
            return weights.gather(-1, noise.argsort(-1))
        there = mask.expand_as(weights)
        places = (
            (~there).to(torch.uint8).argsort(dim=-1, stable=True)
        )  # those that may be looked at
        others = noise.masked_fill(~there, 2.0).argsort(-1)  # the same ones, in any order
        moved = torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, others))
        return moved.masked_fill(~there, 0.0)


class _Edited(_Changed):
    def __init__(self, inner: Any, row: int, weights: Sequence[float], head: int | None) -> None:
        super().__init__(inner)
        self.row, self.weights, self.head, self.met = row, weights, head, 0

    def after(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        rows, keys = weights.shape[-2:]
        place, self.met = self.row - self.met, self.met + rows
        if not 0 <= place < rows:
            return weights
        if len(self.weights) != keys:
            raise RequestError(
                f"expected a weight for each of {keys} keys, got {len(self.weights)}"
            )
        weights = weights.clone()
        part = weights if self.head is None else weights[..., self.head, :, :]
        part[..., place, :] = weights.new_tensor(self.weights)
        return weights
