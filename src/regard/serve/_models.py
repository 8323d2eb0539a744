"""The models that are served, each by its name, and loaded again when its folder changes."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from regard import decode, loading
from regard.errors import RequestError, nearest
from regard.fields.sets import sides
from regard.folder import places
from regard.folder.loaded import Loaded
from regard.serve._errors import Refusal
from regard.serve._sample_inputs import examples_of, labels_of
from regard.serve.settings import Settings
from regard.settings.overlay import override
from regard.system.sharing import shared

__all__ = ["Models", "Served"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Served:
    """A model under its name.

    Args:
        revision: from 1; grows when it is loaded again.
        stamp: of the folder's files when it was loaded.
        error: why files that came later could not be loaded; "": there were none.
    """

    name: str
    loaded: Loaded
    revision: int
    stamp: Any
    error: str = ""

    @cached_property
    def inputs(self) -> list[str]:
        """The names of the inputs of an example."""
        return sides(self.loaded.task.fields())[0]

    @cached_property
    def writes(self) -> bool:
        """Whether its task writes text."""
        return bool(self.loaded.task.options)

    @cached_property
    def parameters(self) -> int:
        """How many there are."""
        return sum(p.numel() for p in self.loaded.model.parameters())

    @cached_property
    def examples(self) -> list[list[str]]:
        """Inputs to try it on, each the texts of an example's inputs."""
        return examples_of(self.loaded, self.size)

    def size(self, text: str) -> int:
        """About how many tokens an input has; a file counts by its bytes."""
        if self.loaded.task.reads_files:
            return max(1, len(text) >> 10)
        known = self.loaded.tokenizers
        first = next((known[name] for name in self.inputs if name in known), None)
        return 1 + (len(text) // 4 if first is None else len(first.encode(text).ids))

    def as_json(self) -> dict[str, Any]:
        """What `/models` says."""
        config, task = self.loaded.config, self.loaded.task
        return {
            "name": self.name,
            "task": task.name,
            "architecture": config.get("model", {}).get("name", type(self.loaded.model).__name__),
            "parameters": self.parameters,
            "inputs": self.inputs,
            "labels": labels_of(self.loaded, self.name),
            "reads_files": task.reads_files,
            "writes": self.writes,
            "options": sorted(task.options),
            "decode": config.get("decode") if self.writes else None,
            "examples": self.examples,
            "revision": self.revision,
            "error": self.error or None,
        }


class Models:
    """All of them. What was taken from here stays whole while others are loaded in its place."""

    def __init__(self, settings: Settings, ready: Mapping[str, Served] | None = None) -> None:
        self.settings = settings
        found = {} if ready is None else dict(ready)
        for name, folder in settings.models:
            if name not in found:
                found[name] = self._load(name, folder, 1)
        self._found: dict[str, Served] = found
        self._seen = {name: one.stamp for name, one in found.items()}

    def __iter__(self) -> Any:
        return iter([*self._found.values()])

    def __getitem__(self, name: str | None) -> Served:
        """The model of a name; where there is one alone, it needs none.

        Raises:
            Refusal: 404, there is no such model; 422, a name is needed.
        """
        if name is None:
            if len(self._found) == 1:
                return next(iter(self._found.values()))
            raise Refusal(422, f"model is missing; {', '.join(self._found)} are served")
        if name not in self._found:
            raise Refusal(
                404, f"no model is called {name[:80]!r}: {nearest(name[:80], self._found)}"
            )
        return self._found[name]

    def refresh(self) -> list[str]:
        """Load what has changed and stands still; the names of what was put in its place.

        A folder is loaded once its files are the same at two looks, so that it is not read while it
        is written.
        """
        changed = []
        for name, folder in self.settings.models:
            now, before = _stamp(folder), self._seen[name]
            self._seen[name] = now
            old = self._found[name]
            if now != before or now == old.stamp:
                continue
            try:
                made = self._load(name, folder, old.revision + 1, now)
            except Exception as error:
                sentence = " ".join(str(error).split()) or type(error).__name__
                log.error("%s stays as it was: %s", name, sentence, extra={"model": name})
                self._found[name] = replace(old, stamp=now, error=sentence)
                continue
            self._found[name] = made
            log.info("%s is loaded again", name, extra={"model": name, "revision": made.revision})
            changed.append(name)
        return changed

    def _load(self, name: str, folder: str, revision: int, stamp: Any = None) -> Served:
        stamp = _stamp(folder) if stamp is None else stamp
        loaded = loading.load(folder)
        for change in self.settings.changes:
            loaded = _changed(loaded, change)
        loaded.to(self.settings.device)
        if self.settings.shared is not None:
            shared(loaded.model, self.settings.shared, _digest(loaded))
        return Served(name, loaded, revision, stamp)


def _stamp(folder: str) -> Any:
    """What the files of a folder look like from outside; None: there is none."""
    try:
        found = sorted(places.find(folder).iterdir())
        return [
            (f.name, s.st_size, s.st_mtime_ns)
            for f in found
            if f.is_file() and (s := f.stat()) is not None
        ]
    except (OSError, RequestError):
        return None


def _digest(loaded: Loaded) -> str:
    """What weights are called that are the same for all processes."""
    noted = loaded.config.get("weights") or {}
    return str(noted.get("sha256") or "")


def _changed(loaded: Loaded, change: str) -> Loaded:
    """With another setting of the decoder, where there is one."""
    if not loaded.task.options:
        return loaded
    key, value = override(change)
    settings = {**loaded.config["decode"], key.removeprefix("decode."): value}
    config = {**loaded.config, "decode": settings}
    return replace(loaded, config=config, decoder=decode.build(settings))
