"""Watching with a way to look at it: a recorder that writes pages and files of what it saw."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from regard.errors import RequestError
from regard.watching.recording import recording
from regard.watching.seen_views import Watched

__all__ = ["watch"]


@contextmanager
def watch(
    model: Any = None,
    *,
    only: str | None = None,
    top_k: int | None = None,
    dtype: torch.dtype | None = None,
    to: str | Path | None = None,
    tiles: bool = False,
    measure: str = "weights",
) -> Iterator[Watched]:
    """See every attention of `model` (and every bare `attend`) while the block runs.

    Of any module: PyTorch's own fused operations are seen, and attention by hand is told by its
    pattern; `Record.facts` says how. A graph made by `torch.compile` has no watchers in it: watch
    the model itself, uncompiled. What it gives can also be looked at: `view`, `rollout`, `label`.

    Args:
        model: a module, or an object with a `.model`; None sees bare calls only.
        only: a pattern such as "decoder.*cross*"; others are not recorded.
        top_k: keep the largest k weights of each row alone; the others come back as zeros.
        dtype: keep weights in this precision.
        to: a file to write them to while running, for more than memory holds. Its form is
            private and it is read through what this gives; `save` writes one to keep.
        tiles: keep queries and keys in place of weights, for texts of thousands of tokens: pages
            show an overview, and tiles are computed again when they are looked at.
        measure: what is kept in place of weights: "norms", what each head could have handed over
            of each value (Kobayashi et al. 2020); "gradient", weights times the gradient of the
            score that `seen.backward(score)` is told; `seen.rollout()` is made of weights.

    Raises:
        RequestError: a model that is not ours is compiled, or ran and showed no attention; no such
            measure, or one together with `top_k`, `dtype`, `to` or `tiles`.

    Example:
        >>> from regard.attention import MultiHead
        >>> layer = MultiHead(8, 2)
        >>> with watch(layer) as seen:
        ...     x = torch.randn(1, 3, 8)
        ...     _ = layer(x, x, x)
        >>> seen.label(rows="a b c").view()
        DrawableView('attention': 1 run(s), 1 map(s), 2 head(s))
    """
    if measure == "weights":
        with recording(Watched, model, only, top_k=top_k, dtype=dtype, to=to, tiles=tiles) as seen:
            yield seen
        return
    from regard.watching.measured import kind_of

    kind, around = kind_of(measure)
    if tiles or any(option is not None for option in (top_k, dtype, to)):
        raise RequestError(f"measure={measure!r}: expected without top_k, dtype, to and tiles")
    with around, recording(kind, model, only) as measured:
        yield measured
