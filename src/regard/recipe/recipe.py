"""Recipes: a YAML file (rules of YAML 1.2) that says everything a result depends on.

A recipe has the sections `model task data train decode`, what to `expect`, and changes that make it
`tiny` (seconds on a laptop, for tests). Values can be changed by `key=value`. Everything is checked
against the constructors that will get it, and every error names file and line.

    >>> from regard import recipe
    >>> r = recipe.load("translation/rnnsearch-multi30k", ["train.steps=2000"])  # doctest: +SKIP
    >>> r.train["steps"], r.where("train.steps")                                 # doctest: +SKIP
    (2000, 'command line')
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import RequestError, nearest
from regard.settings import old_names
from regard.settings.check import check, defaults
from regard.settings.overlay import Layered, flat, override
from regard.settings.yaml_reader import LONGEST, dump, parse

__all__ = ["SECTIONS", "Recipe", "find", "folder", "load", "names"]

SECTIONS = ("model", "task", "data", "train", "decode", "expect")
"""What a recipe can have, beside `tiny`."""


@dataclass(frozen=True)
class Recipe:
    """A recipe after `tiny` and `key=value` were laid over it.

    Args:
        name: `translation/rnnsearch-multi30k`, or the stem of a file elsewhere; ends in `-tiny`
            where the section `tiny` was laid over it.
        file: the file it was read from.
        layers: the values and where each came from.
    """

    name: str
    file: Path
    layers: Layered = field(repr=False)

    def section(self, name: str) -> dict[str, Any]:
        """One section as a dict; empty if the recipe does not have it."""
        value = self.layers.values.get(name)
        return {} if value is None else value

    @property
    def model(self) -> dict[str, Any]:
        """`name` and the keyword arguments of the model."""
        return self.section("model")

    @property
    def task(self) -> dict[str, Any]:
        """`name` and the keyword arguments of the task."""
        return self.section("task")

    @property
    def data(self) -> dict[str, Any]:
        """What `Task.data` gets."""
        return self.section("data")

    @property
    def train(self) -> dict[str, Any]:
        """The settings of the training; see `train_section.Training`."""
        return self.section("train")

    @property
    def decode(self) -> dict[str, Any]:
        """`name` and the keyword arguments of the decoder; a beam of 5 where not given."""
        return self.section("decode") or {"name": "beam"}

    @property
    def expect(self) -> dict[str, Any]:
        """Measured ranges: metric -> [lowest, highest]."""
        return self.section("expect")

    def where(self, key: str) -> str:
        """`file:line` of a dotted key, `command line`, or the nearest thing above it."""
        return self.layers.where(key)

    @cached_property
    def _targets(self) -> dict[str, tuple[Any, tuple[str, ...]]]:
        """Section -> (what gets its values, parameters that come from elsewhere). Imports torch."""
        from regard.recipe.targets import targets

        return targets(self)

    def check(self) -> "Recipe":
        """Check every section against the constructors. Imports the model's class, so torch.

        Everything is then made as far as that needs no data: task, decoder, optimizer, schedule,
        and the model without memory for its weights.

        Raises:
            RequestError: an unknown key, a missing one, a value of another type or out of range, or
                one that its constructor refuses; with its place.
        """
        self.layers.warn_of_old_names()
        for section, (target, given) in self._targets.items():
            values = {
                k: v for k, v in self._at(section).items() if f"{section}.{k}" not in self._targets
            }
            typed = check(values, target, section=section, where=self.where, given=given)
            self._at(section).update(typed)
        self._check_expect()
        from regard.recipe.dry_build import try_out

        try_out(self)
        return self

    def _at(self, section: str) -> dict[str, Any]:
        """The values of a dotted section."""
        if section == "decode":
            return self.decode
        value: Any = self.layers.values
        for part in section.split("."):
            value = {} if value.get(part) is None else value[part]
        if not isinstance(value, dict):
            raise RequestError(
                f"{self.where(section)}: {section}: expected keys with values, got {value!r}"
            )
        return value

    def _check_expect(self) -> None:
        for metric, value in self.expect.items():
            numbers = isinstance(value, list) and all(isinstance(v, int | float) for v in value)
            if not numbers or len(value) != 2 or value[0] > value[1]:
                at = self.where(f"expect.{metric}")
                raise RequestError(
                    f"{at}: expect.{metric}: expected [lowest, highest], got {value!r}"
                )

    def resolved(self) -> dict[str, Any]:
        """Every section with the defaults of its constructors filled in."""
        result: dict[str, Any] = {
            name: dict(self.decode if name == "decode" else self.section(name)) for name in SECTIONS
        }
        for section, (target, given) in self._targets.items():
            here = result
            *above, last = section.split(".")
            for part in above:
                here = here[part]
            values = dict(here.get(last) or {})
            usual = defaults(target, given).items()
            here[last] = {**values, **{k: v for k, v in usual if k not in values}}
        return result

    def dump(self) -> str:
        """The recipe as YAML, without `tiny` and without defaults: what was asked for."""
        return dump({name: self.section(name) for name in SECTIONS if self.section(name)})

    def table(self) -> Iterator[tuple[str, Any, str]]:
        """Each dotted key of the resolved recipe with its value and where that came from."""
        for key, value in flat(self.resolved()):
            yield key, value, self.layers.origin.get(key, "default")


def load(
    name: str | os.PathLike[str],
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    tiny: bool = False,
) -> Recipe:
    """Read a recipe.

    Args:
        name: a name in the recipe folder (`pronunciation/rnnsearch-cmudict`, or its last part where
            that is unique), or a path to a `.yaml` file.
        overrides: `["train.steps=300"]`, or a mapping with dotted keys.
        tiny: lay the section `tiny` over the rest.

    Raises:
        RequestError: no such recipe, not YAML, an unknown section or a malformed override.
    """
    file = find(name)
    if (size := file.stat().st_size) > 4 * LONGEST:
        raise RequestError(
            f"{_short(file)}: expected a recipe of at most {LONGEST:,} characters, got {size:,} "
            "bytes"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RequestError(f"{_short(file)}:{line}: not UTF-8") from None
    values, lines = parse(text, _short(file))
    if not isinstance(values, dict):
        raise RequestError(f"{_short(file)}:1: expected sections ({', '.join(SECTIONS)})")
    small = values.pop("tiny", None)
    small = {} if small is None else small
    if not isinstance(small, dict):
        at = f"{_short(file)}:{lines['tiny']}"
        raise RequestError(f"{at}: tiny: expected keys with values, got {small!r}")
    pairs = overrides if isinstance(overrides, Mapping) else dict(override(o) for o in overrides)
    said = [values, *([small] if tiny else []), pairs]
    old = old_names.of_recipe(_named("model", said))
    layers = Layered(values, lines, _short(file), old)
    if tiny:
        layers.lay(small, {key: f"{_short(file)}:{line}" for key, line in _inside(lines, "tiny")})
    for key, value in pairs.items():
        written = [key, *(f"{key}.{inner}" for inner in _keys(value))]
        layers.lay({key: value}, dict.fromkeys(written, "command line"))
    for switch, models in old_names.SWITCHES.items():
        layers.choose("model", switch, models)
    for section, value in layers.values.items():
        if section not in SECTIONS:
            raise RequestError(
                f"{layers.where(section)}: there is no section {section!r}: "
                f"{nearest(section, [*SECTIONS, 'tiny'])}"
            )
        if value is not None and not isinstance(value, dict):
            raise RequestError(
                f"{layers.where(section)}: {section}: expected keys with values, got {value!r}"
            )
    return Recipe(_name(file) + ("-tiny" if tiny else ""), file, layers)


def _named(section: str, layers: Sequence[Mapping[str, Any]]) -> Any:
    """What the last of the layers that says it has as the `name` of a section."""
    name = None
    for layer in layers:
        inside = layer.get(section)
        if isinstance(inside, Mapping):
            name = inside.get("name", name)
        name = layer.get(f"{section}.name", name)
    return name


def _keys(value: Any) -> Iterator[str]:
    """The dotted keys inside a value, those of mappings too."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from (f"{key}.{inner}" for inner in _keys(item))


def _inside(lines: Mapping[str, int], section: str) -> Iterator[tuple[str, int]]:
    prefix = section + "."
    return ((k.removeprefix(prefix), line) for k, line in lines.items() if k.startswith(prefix))


def folder() -> Path:
    """Where the recipes are: in the package when installed, at the top of the repository if not."""
    here = Path(__file__).resolve().parent.parent
    inside = here / "recipes"
    return inside if inside.is_dir() else here.parent.parent / "recipes"


def names() -> list[str]:
    """The names of all recipes, `task/model-data`."""
    root = folder()
    return sorted(p.relative_to(root).with_suffix("").as_posix() for p in root.glob("*/*.yaml"))


def find(name: str | os.PathLike[str]) -> Path:
    """The file of a recipe, by path or by name.

    Raises:
        RequestError: there is no such recipe.
    """
    text = os.fspath(name)
    if text.endswith((".yaml", ".yml")):
        path = Path(text)
        if not path.is_file():
            raise RequestError(f"there is no recipe file {text!r}; see `regard recipes`")
        return path
    known = names()
    matches = [full for full in known if full == text or full.endswith("/" + text)]
    if len(matches) != 1:
        shorts = [full.rpartition("/")[2] for full in known]
        hint = "there are " + ", ".join(matches) if matches else nearest(text, [*known, *shorts])
        raise RequestError(f"there is no recipe {text!r}: {hint}; see `regard recipes`")
    return folder() / f"{matches[0]}.yaml"


def _name(file: Path) -> str:
    try:
        return file.resolve().relative_to(folder().resolve()).with_suffix("").as_posix()
    except ValueError:
        return file.stem


def _short(file: Path) -> str:
    """A path as people would type it: relative to the working directory where that is shorter."""
    try:
        return file.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(file)
