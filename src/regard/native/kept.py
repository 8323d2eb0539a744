"""Values that are made of weights alone, kept until the weights change.

A decoder that is used for one sentence after another needs some of them each time: normalized
weights, weights laid out for C.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard import native
from regard.native.fingerprint import fingerprint
from regard.native.operation import is_recorded
from regard.native.transforms import followed

__all__ = ["kept", "may_keep"]

T = TypeVar("T")
_PLAIN = (Tensor, nn.Parameter)
_KEPT: "WeakKeyDictionary[nn.Module, dict[str, tuple[Any, Any]]]" = WeakKeyDictionary()


def may_keep(weights: Sequence[Tensor]) -> bool:
    """Whether values of these weights may be kept: nothing asks for gradients or traces the call.

    True for float32 on the CPU, outside of autograd, autocast, `torch.compile`, recordings and
    transforms.
    """
    return (
        not torch.compiler.is_compiling()
        and not torch.is_grad_enabled()
        and not is_recorded()
        and not torch.is_autocast_enabled("cpu")
        and all(type(w) in _PLAIN and w.is_cpu and w.dtype == torch.float32 for w in weights)
        and followed() is None
        and native.unavailable_reason("regard_fingerprint") is None
    )


def kept(owner: nn.Module, name: str, weights: Sequence[Tensor], make: Callable[[], T]) -> T:
    """`make()`, or what it returned before, if the weights are still the same bytes.

    The weights are read at each call: 0.3 ms a million. Where `may_keep` is false, `make` is
    called.

    Args:
        owner: the module that the value belongs to; the value lives as long.
        name: of the value, for this module.
        weights: everything that `make` reads.
        make: its result must not be changed, and must not refer to `owner`.
    """
    if not may_keep(weights):
        return make()
    now = fingerprint(weights)
    values = _KEPT.setdefault(owner, {})
    found = values.get(name)
    if found is None or found[0] != now:
        found = values[name] = now, make()
    return cast(T, found[1])
