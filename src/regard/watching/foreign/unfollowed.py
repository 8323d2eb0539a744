"""What ran and was not seen, so that partly seen is never taken for all."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from regard.watching.foreign.running_modules import Places
from regard.watching.foreign.softmax_pattern import Pattern

__all__ = ["unfollowed"]


def unfollowed(
    places: Places, pattern: Pattern, kernels: Mapping[str, str], seen: Any
) -> Iterator[tuple[str, str]]:
    """Paths of modules that may have attended unseen, and why.

    Args:
        places: the modules that ran.
        pattern: knows the softmaxes that met no values.
        kernels: by path, an operation that is not PyTorch's.
        seen: the recorder; what it was told to leave out is left out.
    """
    for path in pattern.unread():
        if seen.name_of(path) is not None:
            yield path, "a softmax of it was not followed to values"
    for path, kernel in kernels.items():
        if seen.name_of(path) is not None and not _known(path, seen):
            yield path, f"{kernel} is a kernel that is not known"
    for path, place in places.entered.items():
        if seen.name_of(path) is None:
            continue
        name = _compiled(place.module)
        if name:
            yield path, f"it calls {name}, a compiled function, which may attend unseen"
        elif "attention" in type(place.module).__name__.lower() and not _known(path, seen):
            ours = type(place.module).__module__.startswith("regard.")
            if not ours and not list(_inside(path, places)):
                yield path, "it ran, and no attention of it was seen"


def _known(path: str, seen: Any) -> bool:
    """Whether something was seen of a module, of one inside, or of the one that has it."""
    return any(
        path == name or name.startswith(f"{path}.") or path.startswith(f"{name}.") or not path
        for name in (*seen, *seen.unseen)
    )


def _inside(path: str, places: Places) -> Iterator[str]:
    """Modules inside that are called attention too: these are named, not the one around them."""
    dot = f"{path}." if path else ""
    for other, place in places.entered.items():
        named = "attention" in type(place.module).__name__.lower()
        if named and other != path and other.startswith(dot):
            yield other


def _compiled(module: nn.Module) -> str:
    """The name of a compiled function that a module's forward refers to."""
    forward: Any = getattr(type(module), "forward", None)
    code = getattr(forward, "__code__", None)
    if code is None:
        return ""
    for name in code.co_names:
        for found in (forward.__globals__.get(name), module.__dict__.get(name)):
            if hasattr(found, "_torchdynamo_orig_callable"):
                return str(name)
    return ""
