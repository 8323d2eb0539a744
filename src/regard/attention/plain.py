"""Whether the parts of an attention are what fast code was written for.

A kernel, a packed decoder or an exporter reads weights and settings of parts where the operation
would call them. Whatever changes a part's result by other means would be ignored: a subclass that
overrides a method, a hook, a method patched on an instance, another mask. `altered` finds these for
one call, before any kernel is chosen; an altered call is computed by a kernel that calls the parts.
`plain_form` describes an attention to code outside of the operation.

A score of one's own is plain where the class that defines `as_dot`, `additive` or `stream` also
defines `forward`, or a base of it does: then both are its author's.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

from torch import nn
from torch.nn.modules import module as every

from regard.attention.call import Call
from regard.attention.mask import Causal, Mask
from regard.attention.select import Softmax
from regard.native.constant import constant
from regard.native.gemm import unhooked

__all__ = [
    "Altered",
    "PlainForm",
    "altered",
    "changed",
    "exactly",
    "is_causal",
    "is_itself",
    "overridden",
    "plain_form",
    "untouched",
]

M = TypeVar("M", bound=Mask)
FORMS = ("as_dot", "additive", "stream")
"""Other ways to compute a score, which kernels use in place of its `forward`."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
METHODS = {
    "score": ("forward", "prepare", "shown"),
    "select": ("forward", "centers", "log_weights"),
    "read": ("forward",),
    "position": ("before", "bias"),
    "carry": ("start", "features", "adjust", "update"),
}
"""Methods of each part that some kernel does not call."""
HARMLESS = tuple(
    """
    __init__ __post_init__ __doc__ __module__ __qualname__ __repr__ __str__ __eq__ __hash__
    __reduce__ __getstate__ __setstate__ __deepcopy__ __copy__ __replace__ extra_repr
    reset_parameters to device
    """.split()
)
"""Methods that no result of an attention depends on."""
CALLING = ("__call__", "__getattr__", "__getattribute__")
_PATCHED = {role: frozenset(names) for role, names in METHODS.items()}
_FORWARD, _FORWARD_PRE = every._global_forward_hooks, every._global_forward_pre_hooks
_BACKWARD, _BACKWARD_PRE = every._global_backward_hooks, every._global_backward_pre_hooks
_KNOWN: dict[tuple[type, ...], bool] = {}
_SAID: dict[type, str | None] = {}
NO_PARTS = (object, nn.Module, Protocol, Generic, ABC)


class Altered(str):
    """Why an attention is not plain, in a clause: "ScaledDot's forward is overridden by Mine"."""


@dataclass(frozen=True)
class PlainForm:
    """The classes of the parts of an attention, none of them altered, and their settings.

    Args:
        score, select, read: the exact classes.
        position, mask, carry: the exact classes, or NoneType.
        temperature: of the softmax; 1 where the select has none.
        scaled: whether the read scales its sum by the number of keys.
        heads: of the score: with their own parameters.
    """

    score: type
    select: type
    read: type
    position: type
    mask: type
    carry: type
    temperature: float = 1.0
    scaled: bool = False
    heads: int = 1

    def __str__(self) -> str:
        """The classes, without those that are missing."""
        kinds = (self.score, self.select, self.read, self.position, self.mask, self.carry)
        return ", ".join(kind.__name__ for kind in kinds if kind is not type(None))


def plain_form(attention: Any) -> PlainForm | Altered:
    """What an attention is, for code that reads its weights; `Altered` where that is not enough.

    Args:
        attention: an `Attention`, the `attention` of a `MultiHead`, or a `Call`.

    Example:
        >>> from regard.attention import Attention
        >>> print(plain_form(Attention()))
        ScaledDot, Softmax, WeightedSum
    """
    if isinstance(attention, Call):
        call = attention
    else:
        if (why := changed(attention, ("forward", "remember", "extend", "scores"))) is not None:
            return Altered(why)
        call = Call(**attention.parts, mask=attention.mask)
    why = altered(call)
    if why is None and call.mask is not None and not exactly(call.mask, type(call.mask)):
        why = f"the dense of a {type(call.mask).__name__} is patched"
    if why is not None:
        return Altered(why)
    return PlainForm(
        type(call.score),
        type(call.select),
        type(call.read),
        type(call.position),
        type(call.mask),
        type(call.carry),
        temperature=getattr(call.select, "temperature", 1.0),
        scaled=getattr(call.read, "scale", None) is not None,
        heads=getattr(call.score, "heads", 1) or 1,
    )


def altered(call: Call) -> str | None:
    """What changes the result of a part without being one of its settings, in a clause, or None.

    Every call asks, so nothing here is more than a look at a dictionary (`benchmarks/asking.py`).
    Masks are left to `exactly`: kernels call the `dense` of those that they do not know.
    """
    score, select, read = call.score, call.select, call.read
    position, carry = call.position, call.carry
    if (
        _all_plain((type(score), type(select), type(read), type(position), type(carry)))
        and (type(select) is Softmax or not isinstance(select, nn.Module))
        and (position is None or _PATCHED["position"].isdisjoint(position.__dict__))
        and (carry is None or _PATCHED["carry"].isdisjoint(carry.__dict__))
        and untouched(score, read)
    ):
        return None
    return _said(call)


def untouched(score: Any, read: Any) -> bool:
    """Whether a score and a read that are modules have no hooks and no `forward` of their own.

    Written out, because a loop would take several times as long.
    """
    try:
        one, two = score.__dict__, read.__dict__
        return not (
            one["_forward_hooks"]
            or one["_forward_pre_hooks"]
            or one["_backward_hooks"]
            or one["_backward_pre_hooks"]
            or two["_forward_hooks"]
            or two["_forward_pre_hooks"]
            or two["_backward_hooks"]
            or two["_backward_pre_hooks"]
            or _FORWARD
            or _FORWARD_PRE
            or _BACKWARD
            or _BACKWARD_PRE
            or "forward" in one
            or "forward" in two
            or "prepare" in one
            or "shown" in one
        )
    except (AttributeError, KeyError):
        return False


def is_itself(layer: nn.Module) -> bool:
    """Whether an `Attention` is no more than its parts; if not, the layer around it calls it."""
    kind: Any = type(layer)
    if overridden(kind) is None and unhooked(layer) and "forward" not in layer.__dict__:
        return True
    return changed(layer, ("forward",)) is None


def _said(call: Call) -> str | None:
    """The same for any parts, in words."""
    if _FORWARD or _FORWARD_PRE or _BACKWARD or _BACKWARD_PRE:
        return "there is a hook on all modules"
    for role, names in METHODS.items():
        why = changed(getattr(call, role), names)
        if why is not None:
            return why
    return None


def changed(part: Any, methods: Iterable[str]) -> str | None:
    """What changes the result of one part or layer, in a clause, or None.

    Args:
        methods: of which an instance may have none of its own.
    """
    kind: Any = type(part)
    why = overridden(kind)
    if why is not None:
        return why
    own = getattr(part, "__dict__", {})
    if any(not _observes(hook) for hooks in HOOKS for hook in (own.get(hooks) or {}).values()):
        return f"{kind.__name__} has a hook"
    name = next((name for name in methods if name in own and hasattr(kind, name)), None)
    return None if name is None else f"the {name} of a {kind.__name__} is patched"


def _observes(hook: Any) -> bool:
    """Whether a hook says of itself that it changes nothing, as those of `watch` do."""
    return getattr(hook, "observes", False)


@constant
def _all_plain(kinds: tuple[type, ...]) -> bool:
    """Whether none of these classes overrides anything; kept, because every call asks."""
    found = _KNOWN.get(kinds)
    if found is None:
        found = _KNOWN[kinds] = not any(map(overridden, kinds))
    return found


@constant
def overridden(kind: type) -> str | None:
    """Which method of a class that kernels know is overridden by a subclass, in a clause, or None.

    Of `class Mine(ScaledDot)` with another `forward`: "ScaledDot's forward is overridden by Mine".
    """
    if kind not in _SAID:
        _SAID[kind] = _override(kind)
    return _SAID[kind]


def _override(kind: type) -> str | None:
    line = [one for one in kind.__mro__ if one not in NO_PARTS and not _is_protocol(one)]
    forms = [_definer(line, name) for name in FORMS if hasattr(kind, name)]
    for depth, own in enumerate(line):
        if own.__module__.startswith("regard."):
            break  # what ours override is known
        for name, value in vars(own).items():
            if name in HARMLESS or name in FORMS or not (callable(value) or _is_bound(value)):
                continue
            base = next((one for one in line[depth + 1 :] if name in vars(one)), None)
            if base is None and name in CALLING and issubclass(own, nn.Module):
                base = nn.Module
            if base is None or (forms and max(forms) <= depth):
                continue
            near = nn.Module if base is nn.Module else line[depth + 1]
            return f"{near.__name__}'s {name} is overridden by {own.__name__}"
    return None


def _is_protocol(kind: type) -> bool:
    return bool(vars(kind).get("_is_protocol", False))


def _is_bound(value: Any) -> bool:
    """Whether a class attribute computes something: a property, a class method."""
    return hasattr(value, "__get__")


def _definer(line: list[type], name: str) -> int:
    """How far up the line of base classes a method is defined."""
    return next(n for n, one in enumerate(line) if name in vars(one))


def exactly(mask: Mask | None, *kinds: type[M]) -> TypeGuard[M]:
    """Whether a mask is of one of these classes itself and computes what that class says.

    A subclass, or an instance whose `dense` is patched, is asked for its `dense` like any mask.
    """
    return type(mask) in kinds and "dense" not in mask.__dict__


def is_causal(mask: Mask | None) -> bool:
    """Whether a mask hides the keys after the query and nothing else."""
    return exactly(mask, Causal) and mask.left is None and mask.right == 0
