"""Beside raw weights: how much could have arrived, through all layers, and what would move a score.

    norms      α_ij ‖f(v_j)‖, f the head's part of W^O           Kobayashi et al. 2020, equation 4
    gradient   α_ij ∂ log p(y | x) / ∂ α_ij                      e.g. Chrysostomou and Aletras 2021
    rollout    Ã_l = (½ mean_h A_l + ½ I) Ã_{l-1}, Ã_0 = I       Abnar and Zuidema 2020, section 3

All are of an output that is given, teacher forced. Where an attention has no W^O of its own, f
leaves the value as it is. A rollout is of stacks of self-attention: one map a layer, no heads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import MultiHead, Seen, kernels
from regard.attention.recording import watching
from regard.errors import RequestError, nearest
from regard.protocols import BOS
from regard.watching.recording import recording

if TYPE_CHECKING:
    from regard.attention.call import Call

__all__ = ["MEASURES", "Attached", "Handed", "measured", "rolled"]


def measured(
    what: str, model: Any, source: Tensor, target: Sequence[int], kinds: Mapping[str, str]
) -> dict[str, Tensor]:
    """A measure of every attention for one output.

    Args:
        what: a key of `MEASURES`, or "weights".
        source: (1, S) ids.
        target: ids of the output, with its end.
        kinds: which attention is of which kind, `looking.KINDS`.

    Returns:
        by name of the attention, (head, rows, columns).

    Raises:
        RequestError: no such measure, or nothing that it is defined for.
    """
    measures = {"weights": _weights, **MEASURES}
    if what not in measures:
        raise RequestError(f"there is no measure {what!r}; {nearest(what, measures)}")
    given = source.new_tensor([[BOS, *target[:-1]]])
    found = measures[what](model, source, given, source.new_tensor(target), kinds)
    return {name: weights.detach() for name, weights in found.items()}


def _weights(
    model: Any, source: Tensor, given: Tensor, target: Tensor, kinds: Mapping[str, str]
) -> dict[str, Tensor]:
    with recording(Seen, model) as seen, torch.inference_mode():
        model(source, given)
    return {name: seen[name].of(0) for name in kinds}


def norms(
    model: Any, source: Tensor, given: Tensor, target: Tensor, kinds: Mapping[str, str]
) -> dict[str, Tensor]:
    """Weight times the length of what the head hands over of each value."""
    with watching(Handed(model, None)) as seen, torch.inference_mode():
        model(source, given)
    return {name: seen[name].of(0) for name in kinds}


class Handed(Seen):
    """Keeps weights times the size of the values that are read, as the layer's output has them."""

    def meet(self, name: str, call: "Call", weights: Tensor, owner: object) -> None:
        """Scale the weights and keep them."""
        _, _, value = call.tensors
        if isinstance(owner, MultiHead):
            own = owner.out.weight.unflatten(1, (owner.heads, -1))  # (D, H, d_v)
            value = torch.einsum("...hkv,dhv->...hkd", value.to(own.dtype), own)
        sizes = torch.linalg.vector_norm(value, dim=-1)[..., None, :]  # (*batch, [H,] 1, K)
        if getattr(call.score, "per_feature", False):  # every feature is read by itself
            sizes = value.abs()[..., None, :, :]
        super().meet(name, call, weights * sizes, owner)


def gradient(
    model: Any, source: Tensor, given: Tensor, target: Tensor, kinds: Mapping[str, str]
) -> dict[str, Tensor]:
    """Weight times the gradient of the output's log-probability by it."""
    seen = Attached(model, None)
    with (
        watching(seen),
        kernels("reference"),  # which reads with the very weights that it shows
        torch.enable_grad(),
    ):
        logits = model(source, given).logits[0].float()  # (T, V)
    if not getattr(model, "normalized", False):
        logits = logits.log_softmax(-1)
    total = logits.gather(1, target[:, None]).sum()
    steps = [(name, step) for name in kinds for step in seen.steps[name]]
    by_weight = torch.autograd.grad(total, [step for _, step in steps], allow_unused=True)
    for record in seen.values():
        record.kept.clear()
    for (name, step), slope in zip(steps, by_weight, strict=True):
        moved = torch.zeros_like(step) if slope is None else step * slope
        seen[name].kept.append(moved.detach())
    return {name: seen[name].of(0) for name in kinds}


class Attached(Seen):
    """Keeps the weights themselves, with how they came about."""

    def __init__(self, model: Any, only: str | None, **options: Any) -> None:
        super().__init__(model, only, **options)
        self.steps: dict[str, list[Tensor]] = {}

    def meet(self, name: str, call: "Call", weights: Tensor, owner: object) -> None:
        """Keep what gradients are taken by."""
        self.steps.setdefault(name, []).append(weights)
        super().meet(name, call, weights, owner)


def rollout(
    model: Any, source: Tensor, given: Tensor, target: Tensor, kinds: Mapping[str, str]
) -> dict[str, Tensor]:
    """Where each layer's position comes from, through all layers below."""
    every = _weights(model, source, given, target, kinds)
    found: dict[str, Tensor] = {}
    for kind in ("encoder", "decoder"):
        stack = {name: every[name] for name, own in kinds.items() if own == kind}
        found.update(rolled(stack))
    if not found:
        raise RequestError("rollout: this model has no stack of self-attention to multiply through")
    return found


def rolled(stack: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The rollout of a stack of self-attention, from its lowest layer up.

    Shapes:
        each (head, T, T); result (1, T, T) each
    """
    found: dict[str, Tensor] = {}
    below: Tensor | None = None
    for name, weights in stack.items():
        mean = weights.float().mean(0)
        mixed = (mean + torch.eye(len(mean), device=mean.device)) / 2
        below = mixed if below is None else mixed @ below
        found[name] = below[None]
    return found


Measure = Callable[[Any, Tensor, Tensor, Tensor, Mapping[str, str]], dict[str, Tensor]]
MEASURES: Mapping[str, Measure] = {"norms": norms, "gradient": gradient, "rollout": rollout}
"""What a page or a picture may show in place of weights; `_view.WHATS` says them in words."""
