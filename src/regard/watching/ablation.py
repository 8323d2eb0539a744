"""How much a score changes without one head or layer."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.views import TablePanel
from regard.watching.interventions import changed, permuted, uniform
from regard.watching.watcher import watch

__all__ = ["Effect", "effects", "effects_table"]


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


def effects_table(whole: float, found: Sequence[Effect]) -> TablePanel:
    """What each change did, as a panel.

    Args:
        whole: the log-probability without a change.
    """
    return TablePanel(
        columns=("ATTENTION", "CHANGE MADE", "LOG-PROBABILITY"),
        cells=tuple((e.attention, e.what, f"{e.change:+.3f}".replace("-", "−")) for e in found),
        note=f"The output has log-probability {whole:.3f}. What changes little did not matter "
        "for this output alone; several heads may do the same work.",
    )


def effects(
    model: nn.Module, score: Callable[[], Tensor | float], only: str | None = None
) -> tuple[float, list[Effect]]:
    """A score of any model, and what becomes of it under each change, the worst first.

    Each head is taken away by itself; each attention looks everywhere alike, or where it looked
    with the places exchanged. Models of others are never touched: what their kernels give is
    replaced while they run.

    Args:
        score: runs the model and gives one number, as a log-probability.
        only: which attentions, as in `watch`.

    Raises:
        RequestError: the score is not one number, or no attention ran.

    Example:
        >>> layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.randn(1, 3, 8)
        >>> _, found = effects(layer, lambda: layer(x, x, x)[0].sum())
        >>> sorted(effect.what for effect in found)
        ['permuted weights', 'uniform weights', 'without head 1', 'without head 2']
    """
    with torch.no_grad(), watch(model, only=only) as seen:
        whole = _number(score())
    found: list[Effect] = []
    for name, record in seen.items():
        if "edge" in record.axes:
            raise RequestError(f"{name}: weights of a graph's edges cannot be changed")
        heads = record.kept[0].shape[record.axis("head")] if "head" in record.axes else 1
        layer = model.get_submodule(name)
        changes: list[tuple[str, int | None, AbstractContextManager[None]]] = [
            (f"without head {h + 1}", h + 1, changed(model, name, layer, h))
            for h in range(heads if heads > 1 else 0)
        ]
        changes.append(("uniform weights", None, changed(model, name, layer, uniform)))
        changes.append(("permuted weights", None, changed(model, name, layer, permuted)))
        for what, head, change in changes:
            with torch.no_grad(), change:
                moved = _number(score()) - whole
            found.append(Effect(name, record.role, what, head, moved))
    found.sort(key=lambda effect: effect.change)
    return whole, found


def _number(score: Tensor | float) -> float:
    if isinstance(score, Tensor) and score.numel() != 1:
        raise RequestError(f"expected a score of one number, got {tuple(score.shape)}")
    return float(score)
