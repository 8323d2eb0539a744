"""Models packed for decoding on a CPU: one call of C a step, in float32, bfloat16 or int8.

A step of a small model is dozens of PyTorch calls on little work. `packed` lays a model's weights
out once, in panels that C reads straight through. A model that cannot be packed (another
mechanism, a hook, a subclass, a watcher, a GPU) runs unpacked; `unsupported_reason` says why. Each
packed form is compared with the model's own `step` once.

    float32   the model's own numbers: what differs is the order of sums
    bfloat16  weights rounded to eight bits of significand; the rest stays float32
    int8      weights as bytes with one step an output, multiplied by rows as bytes with one step a
              row; attention, norms, states and caches stay float32
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from regard import native
from regard.attention._kernels.compared import wanted
from regard.attention.recording import wants_calls
from regard.decode.ensemble import Ensemble
from regard.decode.program import by_hand_transformer
from regard.decode.program.by_hand_transformer import PackedTransformer
from regard.decode.program.packed_weights import PRECISIONS, Panels
from regard.decode.program.structure import altered, difference, structure
from regard.errors import RequestError
from regard.models.following_transformer import FollowingTransformer
from regard.models.marian import Marian
from regard.models.transformer import Transformer
from regard.native.fingerprint import fingerprint

__all__ = ["PRECISIONS", "PackedTransformer", "packed", "unsupported_reason"]

_KINDS: dict[type, tuple[str, Any, Any]] = {
    Transformer: ("regard_transformer_step", by_hand_transformer, PackedTransformer),
    FollowingTransformer: ("regard_transformer_step", by_hand_transformer, PackedTransformer),
    Marian: ("regard_transformer_step", by_hand_transformer, PackedTransformer),
}
_KEPT: "WeakKeyDictionary[nn.Module, dict[str, tuple[Any, Panels]]]" = WeakKeyDictionary()
_CHECKED: "WeakKeyDictionary[nn.Module, tuple[Any, str | None]]" = WeakKeyDictionary()
"""The structure of each model that was compared, and what was found."""


def packed(model: Any, precision: str = "float32", *, recorded: bool = False) -> Any:
    """The model packed for decoding, or the model itself where it cannot be and need not be.

    Packed weights are kept as long as the model is, and made again when its weights have changed:
    each call reads all of them to see that (`native.fingerprint`: 2.4 ms for 7.6 million). To
    decode single sentences with a model that is not trained, keep the result and pass it to the
    decoder in the model's place. Of an `Ensemble` every model is packed by itself.

    Args:
        recorded: the caller asks `recorded_form` for what is not packed here, in this precision.

    Raises:
        RequestError: for a precision other than float32 of what cannot be packed, or another than
            what was packed already has.
    """
    if isinstance(model, Panels):
        if precision not in ("float32", model.precision):
            raise RequestError(
                f"decode.precision: {precision} is asked of a model packed in {model.precision}; "
                "pack the model itself in it"
            )
        return model
    if type(model) is Ensemble:
        each = [packed(one, precision, recorded=recorded) for one in model.models]
        plain = all(one is own for one, own in zip(each, model.models, strict=True))
        return model if plain else Ensemble(each, of=model)
    why, form = _examined(model, keep=precision == "float32")
    if why is not None:
        if precision == "float32" or recorded:
            return model
        raise RequestError(
            f"decode.precision: {precision} needs a decoder that can be packed, and {why}; "
            "leave it at float32"
        )
    now = fingerprint(model.parameters()), form
    kept = _KEPT.setdefault(model, {})
    found = kept.get(precision)
    if found is None or found[0] != now or found[1].level != native.level():
        found = kept[precision] = now, _KINDS[type(model)][2](model, precision)
    return found[1]


def unsupported_reason(model: Any) -> str | None:
    """Why a model is not packed, in a clause; None where it is."""
    return _examined(model)[0]


def _examined(model: Any, *, keep: bool = False) -> tuple[str | None, list[Any]]:
    """Why a model is not packed, or None; and its structure, which packed weights belong to.

    Args:
        keep: keep what a comparison packs in float32, for `packed`.
    """
    kind = _KINDS.get(type(model))
    if kind is None:
        return f"{type(model).__name__} is no plain Transformer", []
    step, module, pack = kind
    if native.unavailable_reason(step) is not None:
        return f"there is no C ({native.missing() or 'the function is not in it'})", []
    if wants_calls():
        return "somebody watches more of its attention than weights", []
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on", []
    for name, p in model.named_parameters():
        if p.device.type != "cpu" or p.dtype != torch.float32:
            return f"{name} is {p.dtype} on {p.device.type}", []
    form = structure(model)
    checked = _CHECKED.get(model)
    if checked is not None and checked[0] == form and not wanted():
        return checked[1] or module.unsupported_reason(model), form
    why: str | None = altered(model)
    if why is None:
        why = module.unsupported_reason(model)
        if why is not None:
            return why, form  # it may be the layout of weights, which is no part of the structure
        made = pack(model)
        why = difference(model, made)
        if keep and why is None:
            now = fingerprint(model.parameters()), form
            _KEPT.setdefault(model, {})["float32"] = now, made
    _CHECKED[model] = form, why
    return why, form
