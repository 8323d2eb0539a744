"""What programs of all kinds ask of a folder: its task, its texts, and that they agree."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.fields import MarkedTextField, TextField, TreeField

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["check_agreement", "check_task", "tokenizer_file", "weights_of"]

TEXTS = (TextField, MarkedTextField, TreeField)
"""Fields that the runtime reads as they do."""
OFF = 1e-4
"""How far a program may be off the model, of the largest score."""


def check_task(
    loaded: "Loaded",
    base: type,
    names: Collection[str],
    texts: Collection[str],
    *,
    sentences: bool = False,
) -> None:
    """Refuse a task that does otherwise than its base, and fields that are no plain texts.

    Args:
        names: what it may not have of its own.
        sentences: whether texts may be cut into sentences.

    Raises:
        RequestError: it does.
    """
    task = loaded.task
    for name in names:
        if getattr(type(task), name, None) is not getattr(base, name, None):
            raise RequestError(
                f"program: {task.name} has its own `{name}`, which PyTorch alone runs yet"
            )
    for name in texts:
        field: Any = loaded.fields[name]
        plain = type(field) in TEXTS and not field.characters and not field.contextual
        if not plain or (field.sentences and not sentences):
            kind = type(field).__name__
            raise RequestError(f"program: expected a plain text as {name}, got {kind}")


def tokenizer_file(folder: Path, name: str) -> str:
    """The file of a text's tokenizer."""
    shared = "tokenizer.json"
    return shared if (folder / shared).is_file() else f"tokenizer.{name}.json"


def weights_of(model: Any) -> Mapping[str, NDArray[Any]]:
    """Every parameter and buffer by its name."""
    return {name: one.detach().float().numpy() for name, one in model.state_dict().items()}


def check_agreement(found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Refuse a program whose scores are not the model's.

    Raises:
        RequestError: they are not.
    """
    off = float(np.abs(found - expected).max())
    if not off <= OFF * max(1.0, float(np.abs(expected).max())):
        raise RequestError(
            f"program: it is {off:.2g} off the model, which does what its class does not say; such "
            "models have no program yet"
        )
