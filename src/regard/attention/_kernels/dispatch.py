"""The table of kernels: `choose` picks the fastest that supports a call, `explain` says why."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from regard.attention.call import BY_TENSORS, Call, Kernel, _forced, forced
from regard.attention.plain import altered
from regard.errors import RequestError, nearest
from regard.native.transforms import followed

__all__ = ["Explanation", "choose", "explain_call", "kernels"]


@cache
def table() -> tuple[Kernel, ...]:
    """The kernels, fastest first; those after `reference` run only where they are forced."""
    from regard.attention._kernels.dots import Dots
    from regard.attention._kernels.edges import EdgeWise
    from regard.attention._kernels.euclidean import Euclidean
    from regard.attention._kernels.features import FeatureWise
    from regard.attention._kernels.flex import Flex
    from regard.attention._kernels.local import Local
    from regard.attention._kernels.located import Located
    from regard.attention._kernels.low_precision import Chunks
    from regard.attention._kernels.reference import Reference
    from regard.attention._kernels.relative import Relative
    from regard.attention._kernels.sdpa import Sdpa
    from regard.attention._kernels.segment import Segment
    from regard.attention._kernels.streaming import Streaming
    from regard.attention._kernels.window import Windowed

    return (
        Dots(),
        Sdpa(),
        Located(),
        Streaming(),
        Flex(),
        Windowed(),
        Relative(),
        Euclidean(),
        Local(),
        EdgeWise(),
        Segment(),
        FeatureWise(),
        Reference(),
        Chunks(),
    )


@contextmanager
def kernels(name: str) -> Iterator[None]:
    """Force one kernel for every attention in the block, in this thread or task.

    Raises:
        RequestError: for an unknown name; and by the attention itself where that kernel does
        not support the call.

    Example:
        >>> with kernels("reference"):
        ...     pass
    """
    names = [kernel.name for kernel in table()]
    if name not in names:
        raise RequestError(f"no attention kernel is called {name!r}; {nearest(name, names)}")
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def choose(call: Call) -> Kernel:
    """The forced kernel, or the first of the table that supports the call."""
    wanted, watched = forced(), followed(call.query, call.key, call.value)
    changed = altered(call)
    for kernel in table():
        if wanted is not None:
            if kernel.name != wanted:
                continue
            reason = _reason(kernel, call, watched, changed)
            if reason is not None:
                raise RequestError(f"kernels({wanted!r}) was asked for, but {reason}")
            return kernel
        if watched is not None and not _is_plain(kernel):
            continue
        if changed is not None and not _calls_parts(kernel):
            continue
        if kernel.unsupported_reason(call) is None:
            return kernel
    raise AssertionError("the reference kernel does everything")


def _reason(kernel: Kernel, call: Call, watched: str | None, changed: str | None) -> str | None:
    if watched and not _is_plain(kernel):
        return watched
    if changed and not _calls_parts(kernel):
        return changed
    return kernel.unsupported_reason(call)


def _is_plain(kernel: Kernel) -> bool:
    return getattr(kernel, "plain", False)


def _calls_parts(kernel: Kernel) -> bool:
    return getattr(kernel, "calls_parts", False)


class Explanation(NamedTuple):
    """Which kernel an attention uses, and why each faster one was passed over."""

    kernel: str
    passed_over: tuple[tuple[str, str], ...]
    backend: str = ""

    @property
    def names(self) -> list[str]:
        """The kernels that may be used, fastest first: some are decided by a call's tensors."""
        return [*(name for name, why in self.passed_over if why.endswith(BY_TENSORS)), self.kernel]

    def __str__(self) -> str:
        """One line."""
        reasons: dict[str, list[str]] = {}
        for name, why in self.passed_over:
            reasons.setdefault(why, []).append(name)
        said = [self.backend] if self.backend else []
        said += [f"not {' or '.join(names)}: {why}" for why, names in reasons.items()]
        return f"{self.kernel}" + (f" ({'; '.join(said)})" if said else "")


def explain_call(call: Call) -> Explanation:
    """The choice that `choose` would make, with the reasons."""
    kernel, watched = choose(call), followed(call.query, call.key, call.value)
    changed = altered(call)
    over = []
    for other in table():
        if other.name == kernel.name:
            break
        reason = _reason(other, call, watched, changed)
        if reason is None or (forced() and reason.endswith(BY_TENSORS)):
            reason = "another kernel was forced"
        over.append((other.name, reason))
    # A kernel with several backends (C, PyTorch blocks) says which one: `backend(call) -> str`.
    backend = kernel.backend(call) if hasattr(kernel, "backend") else ""
    return Explanation(kernel.name, tuple(over), backend)
