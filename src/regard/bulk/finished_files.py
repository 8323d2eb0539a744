"""What is noted of each finished shard: by it a second start knows what is done.

A note is `OUT/.bulk/NAME.json`, written after the output itself. It says of which input, with which
model and which settings the output was made.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard import __version__
from regard.bulk.shards import Shard
from regard.errors import RequestError
from regard.system.files import replace_file
from regard.system.plain_json import read_json

__all__ = ["NOTES", "Made", "Notes", "identity"]

NOTES = ".bulk"
"""The folder of notes, in that of outputs."""

UNREAD = {"README.md", "metrics.json", "recipe.yaml", "log.jsonl"}
"""Files of a model folder that change no output."""


@dataclass(frozen=True)
class Made:
    """What became of a shard.

    Args:
        stamp: size and time of the input.
        lines, bad: how many there were.
        size: of the output in bytes.
        process: that made it, and its machine.
    """

    stamp: Mapping[str, int]
    lines: int
    bad: int
    size: int
    seconds: float
    process: str


def identity(folder: Path) -> str:
    """What tells a model folder from another one: a digest of all files that change an output."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name not in UNREAD and not path.name.startswith("."):
            with open(path, "rb") as file:
                digest.update(
                    f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
                )
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Notes:
    """The notes of an output folder.

    Args:
        models: name and identity of each model.
        settings: that change outputs.
    """

    out: Path
    models: Sequence[tuple[str, str]]
    settings: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.out / NOTES

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def write(self, shard: Shard, made: Made) -> None:
        """Note a finished shard.

        Raises:
            RegardError: the disk is full.
        """
        note = {
            "shard": str(shard.source),
            **asdict(made),
            "models": [list(m) for m in self.models],
            "settings": self.settings,
            "regard": __version__,
        }
        text = json.dumps(note, indent=1, ensure_ascii=False) + "\n"
        replace_file(self._path(shard.name), lambda path: path.write_text(text, "utf-8"))

    def forget(self, shard: Shard) -> None:
        """Take a note away, before the output is made again."""
        self._path(shard.name).unlink(missing_ok=True)

    def read(self, name: str) -> dict[str, Any] | None:
        """A note; None where there is none, or none that can be read."""
        try:
            found = read_json(self._path(name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if _is_note(found) else None

    def is_done(self, shard: Shard, note: Mapping[str, Any]) -> bool:
        """Whether the output of a note is there, and its input is what it was."""
        try:
            size = shard.out.stat().st_size
        except OSError:
            return False
        return bool(note.get("size") == size and note.get("stamp") == shard.stamp())

    def check(self, shards: Sequence[Shard], fresh: bool) -> None:
        """Refuse to mix outputs of other models or settings with these.

        Args:
            fresh: those of `shards` are made again, so that they may be of others.

        Raises:
            RequestError: naming an output, and how it was made.
        """
        mine = {one.name for one in shards}
        for path in sorted(self.folder.glob("*.json")):
            name = path.name.removesuffix(".json")
            note = self.read(name)
            other = (
                " ".join(self._other(note).split()) if note else ""
            )  # one line, whatever is said
            if not other or (fresh and name in mine):
                continue
            again = (
                "-o another folder"
                if name not in mine
                else ("--fresh makes all shards again, -o another folder keeps both")
            )
            raise RequestError(f"{self.out / name} was made with {other}: {again}")
        if not fresh and not self.folder.is_dir():
            for one in shards:
                if one.out.exists():
                    raise RequestError(
                        f"{one.out} is there and was not made by this command: --fresh writes over "
                        "it, -o another folder keeps it"
                    )

    def _other(self, note: Mapping[str, Any]) -> str:
        """In what it was made otherwise; "" if in nothing."""
        models = [tuple(m) for m in note.get("models", ())]
        if [own for _, own in models] != [own for _, own in self.models]:
            named = " and ".join(str(name) for name, _ in models) or "another model"
            same = [name for name, _ in models] == [name for name, _ in self.models]
            return f"another state of the model {named}" if same else f"the model {named}"
        theirs = note.get("settings", {})
        own = json.loads(json.dumps(self.settings))
        for key in sorted(own.keys() | theirs.keys()):
            if own.get(key) != theirs.get(key):
                called = "--set" if key == "changes" else key
                return f"{called} = {_said(theirs.get(key))}, and not {_said(own.get(key))}"
        return ""


def _is_note(found: Any) -> bool:
    """Whether it has the form of what `write` writes; a damaged one counts as none."""
    if not isinstance(found, dict):
        return False
    models = found.get("models", [])
    pairs = isinstance(models, list) and all(isinstance(m, list) and len(m) == 2 for m in models)
    return pairs and isinstance(found.get("settings", {}), dict)


def _said(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value) or "its default"
    return "its default" if value is None else json.dumps(value, ensure_ascii=False)
