"""Recording of the attention within a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.attention.recording import SeenT, watching
from regard.attention.stored_weights import DiskStore
from regard.errors import RequestError
from regard.watching.foreign import intercepting, is_foreign

__all__ = ["recording"]


@contextmanager
def recording(
    kind: type[SeenT],
    model: Any,
    only: str | None = None,
    *,
    top_k: int | None = None,
    dtype: torch.dtype | None = None,
    to: str | Path | None = None,
    tiles: bool = False,
) -> Iterator[SeenT]:
    """As `watch`, with a recorder of a kind of one's own."""
    if model is not None and not isinstance(model, nn.Module):
        model = getattr(model, "model", None)
        if not isinstance(model, nn.Module):
            raise RequestError("watch expected a module, or an object with a .model")
    if top_k is not None and (top_k < 1 or to is not None):
        raise RequestError(f"top_k: expected 1 or more, and without `to`; got {top_k}")
    if tiles and (top_k is not None or to is not None or dtype is not None):
        raise RequestError("tiles: expected without top_k, dtype and to, which keep weights")
    shelf = None if to is None else DiskStore(Path(to))
    try:
        seen = kind(model, only, top_k=top_k, dtype=dtype, shelf=shelf, tiles=tiles)
        with watching(seen):
            if model is not None and is_foreign(model):
                with intercepting(seen, model):
                    yield seen
            else:
                yield seen
    finally:
        if shelf is not None:
            shelf.close()
