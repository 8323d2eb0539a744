"""Which functions are checked while tests run: those whose signature has the shape of a tensor.

jaxtyping's import hook wraps every function of a package, and every call then looks at each
argument twice, which triples the time of tests. All other types are known to mypy.
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, get_args

import jaxtyping

__all__ = ["only_shapes"]

NAMED = re.compile(r"\b(Float|Int|Integer|Bool|Shaped|Num|UInt8)\[")
"""An annotation in quotes."""


def only_shapes() -> None:
    """Have jaxtyping's hook leave all other functions as they are."""
    whole = jaxtyping.jaxtyped

    def chosen(function: Any = None, **options: Any) -> Any:
        if function is None:
            return partial(chosen, **options)
        return whole(function, **options) if _shaped(function) else function

    chosen.whole = whole  # type: ignore[attr-defined]
    jaxtyping.jaxtyped = chosen


def _shaped(function: Any) -> bool:
    """Whether an annotation of a function, of a property's functions or of a class's fields is."""
    if isinstance(function, property):
        return any(_shaped(one) for one in (function.fget, function.fset, function.fdel) if one)
    inner = getattr(function, "__func__", function)
    return any(map(_is_shape, getattr(inner, "__annotations__", {}).values()))


def _is_shape(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return NAMED.search(annotation) is not None
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    inner: Iterable[Any] = annotation if isinstance(annotation, list) else get_args(annotation)
    return any(map(_is_shape, inner))
