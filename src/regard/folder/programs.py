"""Answers of a folder that carries its program (`program.json`): without PyTorch.

`regard predict` looks here first. PyTorch answers where the program lacks a setting, or was made
from other files.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from regard.data.text.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.folder.config import CONFIG
from regard.folder.labels_program import LabelsProgram
from regard.folder.reading_program import ReadingProgram
from regard.folder.stories_program import StoriesProgram
from regard.folder.tags_program import TagsProgram
from regard.folder.text_program import TextProgram
from regard.runtime.answer import PlainPrediction
from regard.runtime.stored_program import FORMAT, PROGRAM
from regard.runtime.weights import read_weights

__all__ = ["KINDS", "FolderProgram", "digest", "load_program", "open_program"]

log = logging.getLogger(__name__)


class FolderProgram(Protocol):
    """What answers the inputs of a folder's task."""

    writes: bool
    """Whether it writes text."""

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the inputs of an example."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts its first input."""
        ...

    def join(self, lines: Iterator[str]) -> Iterator[str]:
        """Single inputs of lines."""
        ...

    def changed(self, changes: Mapping[str, Any]) -> "FolderProgram | None":
        """The same with other settings of the decoder; None where it lacks one."""
        ...

    def predict(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """Answer each text, in order.

        Raises:
            BeyondProgram: a text is longer or shorter than the graphs are for.
        """
        ...


KINDS: Mapping[str, Any] = {
    "text": TextProgram,
    "labels": LabelsProgram,
    "tags": TagsProgram,
    "reading": ReadingProgram,
    "stories": StoriesProgram,
}
"""The classes of programs, by `kind`. `maker` gives what makes one of a folder and its weights."""


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def open_program(
    folder: Path, changes: Mapping[str, Any] | None = None, n_best: int = 1
) -> FolderProgram | None:
    """The program of a folder, or None where there is none that can do this.

    Args:
        changes: settings of the decoder.
        n_best: how many outputs are given for each input.
    """
    if not (folder / PROGRAM).is_file():
        return None
    try:
        return load_program(folder, changes, n_best)
    except _Lacking:  # PyTorch has these settings, or says what is wrong with them
        return None
    except RegardError as error:
        log.info("%s", error)
    return None


def load_program(
    folder: Path, changes: Mapping[str, Any] | None = None, n_best: int = 1
) -> FolderProgram:
    """The program of a folder.

    Args:
        changes, n_best: as for `open_program`.

    Raises:
        RegardError: there is none, it lacks a setting, or it belongs to other files.
    """
    path = folder / PROGRAM
    if not path.is_file():
        raise RegardError(f"{folder.name} has no {PROGRAM}: `regard export --to program` writes it")
    told = {**(changes or {}), **({"n_best": n_best} if n_best != 1 else {})}
    try:
        return _opened(path, told)
    except _Lacking:
        raise
    except RegardError as error:
        raise RegardError(f"{path} is not used: {error}") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}; export the program again"
        raise RegardError(f"{path} is not used: {said}") from None


class _Lacking(RegardError):
    """The program lacks a setting, or the setting is invalid."""


def _opened(path: Path, changes: Mapping[str, Any]) -> FolderProgram:
    """The program of a file; what is raised says why it is not used."""
    folder, stored = path.parent, json.loads(path.read_text("utf-8"))
    if stored["format"] != FORMAT:
        raise RegardError(f"expected format {FORMAT}, got {stored['format']}")
    for name, expected in stored["files"].items():
        if digest(folder / name) != expected:
            raise RegardError(f"{name} is another one; export the program again")
    make = KINDS[stored["kind"]].maker(stored, changes)
    if make is None:
        raise _Lacking(f"{path} lacks {', '.join(changes)}, or such a value of it")
    weights = read_weights(folder, json.loads((folder / CONFIG).read_text("utf-8"))["weights"])
    if weights is None:
        raise RegardError(f"the weights are not those of {CONFIG}")
    made: FolderProgram = make(folder, weights)
    return made
