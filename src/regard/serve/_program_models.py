"""Models that are served by their folders' programs, where PyTorch is not installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError, RequestError
from regard.folder import places
from regard.folder.config import CONFIG
from regard.folder.programs import FolderProgram, load_program
from regard.serve._sample_inputs import labels_of
from regard.serve._served_models import ServedModel, ServedModels, stamp_of
from regard.settings.overlay import override
from regard.system.plain_json import read_object

__all__ = ["ProgramModels", "ServedProgram"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedProgram(ServedModel):
    """A model whose program NumPy runs."""

    program: FolderProgram
    config: Mapping[str, Any]

    def size(self, text: str) -> int:
        """About how many tokens an input has."""
        return 1 + len(self.program.tokenizer.encode(text).ids)

    def as_json(self) -> dict[str, Any]:
        """What `/models` says, as where PyTorch is; the number of parameters is not known here."""
        writes = self.program.writes
        return {
            "name": self.name,
            "task": self.config["task"]["name"],
            "architecture": self.config["model"]["name"],
            "parameters": None,
            "inputs": list(self.program.inputs),
            "labels": labels_of(self.config, self.name),
            "reads_files": False,
            "writes": writes,
            "options": [],
            "decode": self.config.get("decode") if writes else None,
            "examples": [],
            "revision": self.revision,
            "error": self.error or None,
        }


class ProgramModels(ServedModels[ServedProgram]):
    """Models of folders, each with its program."""

    def load(self, name: str, folder: str, revision: int, stamp: Any = None) -> ServedProgram:
        """Load a folder's program.

        Raises:
            RequestError: it has none that can be used, with the reason.
        """
        stamp = stamp_of(folder) if stamp is None else stamp
        path = places.find(folder)
        pairs = dict(override(change) for change in self.settings.changes)
        changes = {key.removeprefix("decode."): value for key, value in pairs.items()}
        try:
            program = load_program(path)
            if program.writes and changes:
                program = load_program(path, changes)
        except RegardError as error:
            raise RequestError(
                f"{name} cannot be served without PyTorch, which is not installed: {error}"
            ) from None
        config = read_object(path / CONFIG)
        return ServedProgram(
            name=name, program=program, config=config, revision=revision, stamp=stamp
        )
