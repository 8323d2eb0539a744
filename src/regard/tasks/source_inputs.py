"""An input of a model as its task reads it."""

from typing import Any

from regard.errors import RequestError
from regard.tasks.loaded_model import LoadedModel

__all__ = ["asked", "shown"]


def asked(loaded: LoadedModel, text: str) -> Any:
    """The data of one input.

    Raises:
        RequestError: it is empty, or cannot be used.
    """
    if not text.strip():
        raise RequestError("the input is empty: there is nothing to look at")
    given = loaded.task.asked([text], loaded.fields)
    if given.refused[0].refused:
        raise RequestError(given.refused[0].refused)
    return given.dataset


def shown(text: str, kind: str) -> str:
    """An input as a title says it: an address, or "a picture" where it is all the bytes."""
    return text if len(text) < 200 else f"a {kind}"
