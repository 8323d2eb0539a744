"""Is each part what its place is for? A text, a class or a part of another kind gets a sentence."""

from typing import Any

from regard.attention import carry, mask, position, read, score, select
from regard.errors import RequestError, nearest

__all__ = ["check_kinds", "wrong_kind"]

_MODULES = {
    "score": score,
    "position": position,
    "mask": mask,
    "select": select,
    "read": read,
    "carry": carry,
}
_METHODS: dict[str, tuple[str, ...]] = {
    "score": ("prepare", "__call__"),
    "position": ("before", "bias"),
    "mask": ("dense", "check_shape", "over_heads"),
    "select": ("__call__",),
    "read": ("__call__",),
    "carry": ("start", "features", "adjust", "update"),
}
_EXAMPLES = {
    "score": "ScaledDot()",
    "position": "Rotary()",
    "mask": "Causal()",
    "select": "Softmax()",
    "read": "WeightedSum()",
    "carry": "Coverage()",
}


def check_kinds(owner: str, **parts: Any) -> None:
    """Refuse what cannot be the part that it is given as; None is left out.

    Raises:
        RequestError: says what was expected, what came, and what to write.
    """
    for slot, part in parts.items():
        if part is not None and (problem := wrong_kind(owner, slot, part)) is not None:
            raise RequestError(problem)


def wrong_kind(owner: str, slot: str, part: Any) -> str | None:
    """Why something is no such part; None where it may be one."""
    said = f"{owner} expected a {slot} such as {_EXAMPLES[slot]}"
    if isinstance(part, str):
        return f"{said}, got the text {part!r}; {_meant(slot, part)}"
    if isinstance(part, type):
        return f"{said}, got the class {part.__name__}; make one of it: {part.__name__}(...)"
    name, other = type(part).__name__, _slot_of(part)
    if other is not None and other != slot:
        return f"{said}, got {name}, which is a {other}; give {other}={name}(...)"
    missing = [method for method in _METHODS[slot] if not hasattr(part, method)]
    if missing:
        shown = "a function" if name in ("function", "builtin_function_or_method") else name
        return f"{said}, got {shown}, which has no {missing[0]}; see regard.attention.{slot}"
    return None


def _meant(slot: str, text: str) -> str:
    """The class that a text may stand for."""
    names = [name for name, kind in vars(_MODULES[slot]).items() if isinstance(kind, type)]
    known = {name.lower(): name for name in names if name not in ("Mask", "Dense")}
    plain = text.lower().replace("_", "").replace("-", "").replace(" ", "")
    if plain in known:
        return f"give regard.attention.{known[plain]}(...)"
    return nearest(text, known.values())


def _slot_of(part: Any) -> str | None:
    """Of which kind a part of this package is; None for parts of others."""
    for kind in type(part).__mro__:
        _, _, place = kind.__module__.partition("regard.attention.")
        slot = place.split(".")[0]
        if slot in _MODULES:
            return slot
    return None
