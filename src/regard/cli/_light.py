"""Few texts, answered by a folder's program: PyTorch takes seconds to import."""

import importlib.util
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from regard.settings.overlay import override

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded
    from regard.folder.programs import FolderProgram
    from regard.runtime.answer import PlainPrediction

__all__ = ["LightAnswers", "has_torch", "program_for"]

log = logging.getLogger(__name__)

FEW = 32
"""The most texts that a program answers; more are read in batches by PyTorch."""
SECTION = "decode."


def program_for(
    folder: str, changes: Sequence[str] | None, n_best: int, threads: int | None
) -> "FolderProgram | None":
    """The program that answers, or None where PyTorch has to.

    Args:
        changes: `KEY=VALUE`, settings of the decoder or of the task.
        threads: of products; 1 where nothing is said.

    Raises:
        RequestError: there is no such folder.
    """
    from regard.folder.places import find
    from regard.runtime.stored_program import PROGRAM

    path = find(folder)
    if not (path / PROGRAM).is_file() or n_best < 1:
        return None
    pairs = dict(override(change) for change in changes or ())
    settings = {key.removeprefix(SECTION): value for key, value in pairs.items()}
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads or 1))  # read when NumPy is imported
    from regard.folder.programs import open_program

    return open_program(path, settings, n_best)


def has_torch() -> bool:
    """Whether PyTorch is installed; where it is not, a program answers any number of texts."""
    return importlib.util.find_spec("torch") is not None


class LightAnswers:
    """Answers texts by a program; beyond `FEW`, or where it cannot, by the model.

    Args:
        program: what answers first.
        opened: gives the model.
        any_number: whether the program answers more than `FEW`, as where texts come one after the
            other, or where there is no PyTorch.
    """

    def __init__(
        self, program: "FolderProgram", opened: Callable[[], "Loaded"], *, any_number: bool
    ) -> None:
        self._program, self._opened, self._any_number = program, opened, any_number
        self._loaded: Any = None
        self._done = 0

    def __call__(self, texts: Sequence[str]) -> Sequence["PlainPrediction"]:
        """The answer to each text."""
        from regard.runtime.stored_program import BeyondProgram

        self._done += len(texts)
        if self._loaded is None and (self._any_number or self._done <= FEW):
            try:
                return self._program.predict(texts)
            except BeyondProgram as error:
                log.info("the program is not used: %s", error)
        if self._loaded is None:
            self._loaded = self._opened()
        found: Sequence[PlainPrediction] = self._loaded.predict(list(texts))
        return found
