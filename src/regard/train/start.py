"""Training from the weights of a model folder (fine-tuning)."""

from typing import Any

import torch
from torch import nn

from regard import store
from regard.errors import RequestError

__all__ = ["begin_from", "fill"]


def begin_from(folder: str) -> Any:
    """The model in a folder, or a shipped one, with its tokenizers.

    Raises:
        RequestError: there is no such model.
    """
    try:
        return store.load(folder)
    except RequestError as error:
        raise RequestError(f"train.start: {error}") from None


@torch.no_grad()
def fill(model: nn.Module, start: Any, said: str) -> None:
    """Copy the weights of another model, which must have the same class and sizes.

    Raises:
        RequestError: another class, or other sizes.
    """
    mine, theirs = model.state_dict(), start.model.state_dict()
    for name in sorted({*mine, *theirs}):
        there, here = theirs.get(name), mine.get(name)
        if there is None or here is None or there.shape != here.shape:
            sizes = ("nothing" if one is None else str(tuple(one.shape)) for one in (here, there))
            raise RequestError(
                "{}: train.start needs a model of the same kind and sizes, and {} is {} in the "
                "recipe and {} in {}".format(said, name, *sizes, start.folder)
            )
        here.copy_(there)
