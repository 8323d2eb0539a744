"""A recipe as layers over each other (file, `tiny:`, command line), each value with its origin."""

import logging
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from regard.errors import RequestError
from regard.settings.yaml_reader import DEPTH, Lines, parse

__all__ = ["Layered", "flat", "override"]

_talk = logging.getLogger("regard.recipe")


class Layered:
    """Nested values that remember where each came from.

    Args:
        values: what the file says.
        lines: of each dotted key.
        file: what to call it.
        old: dotted keys of earlier versions and what they are called today; they are stored under
            the name of today.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        lines: Lines,
        file: str,
        old: Mapping[str, str] | None = None,
    ) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.file = file
        self.old = dict(old or {})
        self._renamed: dict[str, str] = {}  # old dotted key -> where it stands
        self.notes: list[str] = []
        self.lay(values, {key: f"{file}:{line}" for key, line in lines.items()})

    def lay(self, values: Mapping[str, Any], origin: Mapping[str, str], prefix: str = "") -> None:
        """Lay values over what is there.

        A dotted key (`train.steps`) reaches inside. A mapping is merged key by key, unless it has a
        `name` other than the one there: then it replaces (another optimizer has other settings).
        """
        self._laid: dict[str, str] = {}  # dotted key of today -> as it was written
        for key, value in values.items():
            self._set(key.split("."), value, prefix + key, origin)

    def _set(self, path: list[str], value: Any, written: str, origin: Mapping[str, str]) -> None:
        if len(path) > DEPTH:
            at = origin.get(written, self.file)
            raise RequestError(f"{at}: expected at most {DEPTH} levels of keys, got {len(path)}")
        said = ".".join(path)
        if said in self.old:
            self._renamed[said] = origin.get(written, self.file)
            path = self.old[said].split(".")
        other = self._laid.setdefault(".".join(path), said)
        if other != said:
            raise RequestError(
                f"{origin.get(written, self.file)}: {said} and {other} are one setting, under its "
                f"old name and under that of today: expected one of them"
            )
        here = self.values
        for depth, part in enumerate(path[:-1]):
            inner = here.setdefault(part, {})
            if inner is None:
                inner = here[part] = {}
            if not isinstance(inner, dict):
                raise RequestError(
                    f"{origin.get(written, self.file)}: {'.'.join(path)}: "
                    f"{'.'.join(path[: depth + 1])} is {inner!r} and has no keys"
                )
            here = inner
        dotted = ".".join(path)
        old = here.get(path[-1])
        merge = (
            isinstance(value, Mapping)
            and isinstance(old, dict)
            and value.get("name", old.get("name")) == old.get("name")
        )
        if merge:
            for key, item in value.items():
                self._set([*path, *key.split(".")], item, f"{written}.{key}", origin)
            return
        for known in [k for k in self.origin if k == dotted or k.startswith(dotted + ".")]:
            del self.origin[known]
        self.origin[dotted] = origin.get(written, self.file)
        if isinstance(value, Mapping):
            here[path[-1]] = {}
            for key, item in value.items():
                self._set([*path, *str(key).split(".")], item, f"{written}.{key}", origin)
        else:
            here[path[-1]] = deepcopy(value)

    def choose(self, section: str, key: str, names: Mapping[Any, str]) -> None:
        """Replace an old switch of a section by the `name` of what its value chose.

        Args:
            section: the section with a `name`.
            key: the switch.
            names: value of the switch -> name; other names keep a setting called like that.
        """
        inside, dotted = self.values.get(section), f"{section}.{key}"
        if isinstance(inside, dict) and inside.get("name") in names.values() and key in inside:
            if not isinstance(inside[key], bool):
                return  # the check will say that there is no such setting
            inside["name"] = names[inside.pop(key)]
            self._renamed[dotted] = self.origin[f"{section}.name"] = self.origin.pop(dotted)
            self.old[dotted] = f"{section}.name={inside['name']}"

    def warn(self) -> None:
        """Log the notes, and what each old name is called today; once."""
        for note in self.notes:
            _talk.warning(note)
        self.notes.clear()
        for key, place in self._renamed.items():
            _talk.warning("%s: %s is now called %s", place, key, self.old[key])
        self._renamed.clear()

    def where(self, key: str) -> str:
        """Where a dotted key was written, or the nearest thing above it, or the first one below."""
        parts = key.split(".")
        for size in range(len(parts), 0, -1):
            found = self.origin.get(".".join(parts[:size]))
            if found:
                return found
        below = (at for known, at in self.origin.items() if known.startswith(key + "."))
        return next(below, self.file)


def override(text: str) -> tuple[str, Any]:
    """Split `key=value`; the value follows the rules of the recipe.

    Example:
        >>> override("train.optimizer={name: sgd, lr: 1}")
        ('train.optimizer', {'name': 'sgd', 'lr': 1})
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RequestError(f"command line: expected key=value (train.steps=2000), got {text!r}")
    return key.strip(), parse(value.strip(), f"command line: {text!r}")[0]


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys with their values, in order; an empty mapping is a value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
