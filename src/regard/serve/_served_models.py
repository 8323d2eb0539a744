"""Models under their names, loaded again when their folders change. Imports nothing heavy."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from regard.errors import RequestError, nearest
from regard.folder import places
from regard.serve._errors import Refusal
from regard.serve.settings import Settings

__all__ = ["ServedModel", "ServedModels", "stamp_of"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedModel:
    """A model under its name.

    Args:
        revision: from 1; grows when it is loaded again.
        stamp: of the folder's files when it was loaded.
        error: why files that came later could not be loaded; "": there were none.
    """

    name: str
    revision: int
    stamp: Any
    error: str = ""


S = TypeVar("S", bound=ServedModel)


class ServedModels(ABC, Generic[S]):
    """All of them. What was taken from here stays whole while others are loaded in its place."""

    def __init__(self, settings: Settings, ready: Mapping[str, S] | None = None) -> None:
        self.settings = settings
        found = {} if ready is None else dict(ready)
        for name, folder in settings.models:
            if name not in found:
                found[name] = self.load(name, folder, 1)
        self._found: dict[str, S] = found
        self._seen = {name: one.stamp for name, one in found.items()}

    def __iter__(self) -> Any:
        return iter([*self._found.values()])

    def __getitem__(self, name: str | None) -> S:
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
            now, before = stamp_of(folder), self._seen[name]
            self._seen[name] = now
            old = self._found[name]
            if now != before or now == old.stamp:
                continue
            try:
                made = self.load(name, folder, old.revision + 1, now)
            except Exception as error:
                sentence = " ".join(str(error).split()) or type(error).__name__
                log.error("%s stays as it was: %s", name, sentence, extra={"model": name})
                self._found[name] = replace(old, stamp=now, error=sentence)
                continue
            self._found[name] = made
            log.info("%s is loaded again", name, extra={"model": name, "revision": made.revision})
            changed.append(name)
        return changed

    @abstractmethod
    def load(self, name: str, folder: str, revision: int, stamp: Any = None) -> S:
        """Load a folder.

        Args:
            stamp: of its files; None: it is looked at here.

        Raises:
            RegardError: it cannot be loaded.
        """


def stamp_of(folder: str) -> Any:
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
