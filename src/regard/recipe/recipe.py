"""Recipes: a YAML file (rules of YAML 1.2) that says everything a result depends on.

A recipe has the sections `model task data train decode`, what to `expect`, and changes that make it
`tiny` (seconds on a laptop, for tests). Recipes for one data set share its section: `data: {use:
data/multi30k}` has the values of `recipes/data/multi30k.yaml`, and what stands beside it lies over
them. Values can be changed by `key=value`. Everything is checked against the constructors that will
get it, and every error names file and line.

    >>> from regard import recipe
    >>> r = recipe.load("translation/rnnsearch-multi30k", ["train.steps=2000"])  # doctest: +SKIP
    >>> r.train["steps"], r.where("train.steps")                                 # doctest: +SKIP
    (2000, 'command line')
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError, nearest
from regard.recipe.files import find, folder, name_of, names, read, shared_data, shared_file, short
from regard.settings import old_names
from regard.settings.check import check, defaults
from regard.settings.overlay import Layered, flat, override
from regard.settings.yaml_reader import dump

if TYPE_CHECKING:
    from regard.recipe.plan import Plan

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
        shared: the file of the section that `data.use` named.
    """

    name: str
    file: Path
    layers: Layered = field(repr=False)
    shared: Path | None = None

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
        """This recipe, once `plan` has taken every section of it. Imports torch.

        Raises:
            RequestError: see `plan`.
        """
        self.plan()
        return self

    def plan(self) -> "Plan":
        """Check every section against the constructors, and make what needs no data of it.

        Raises:
            RequestError: an unknown key, a missing one, a value of another type or out of range, or
                one that its constructor refuses; with its place.
        """
        self.layers.warn()
        for section, (target, given) in self._targets.items():
            values = {
                k: v for k, v in self._at(section).items() if f"{section}.{k}" not in self._targets
            }
            typed = check(values, target, section=section, where=self.where, given=given)
            self._at(section).update(typed)
        self._check_expect()
        from regard.recipe.plan import Plan

        return Plan.of(self)

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
        RequestError: no such recipe or shared data, not YAML, an unknown section or a malformed
            override.
    """
    file = find(name)
    values, lines = read(file, f"sections ({', '.join(SECTIONS)})")
    small = values.pop("tiny", None)
    small = {} if small is None else small
    if not isinstance(small, dict):
        at = f"{short(file)}:{lines['tiny']}"
        raise RequestError(f"{at}: tiny: expected keys with values, got {small!r}")
    pairs = overrides if isinstance(overrides, Mapping) else dict(override(o) for o in overrides)
    said = [values, *([small] if tiny else []), pairs]
    old = old_names.of_recipe(_named("model", said))
    path = short(file)
    layers = Layered({}, {}, path, old)
    shared = _named("data", said, "use")
    places = {key: f"{path}:{line}" for key, line in lines.items()}
    under = None
    below: dict[str, Any] = {}
    if shared is not None:
        used = [*(["tiny.data.use"] if tiny else []), "data.use"]
        here = next((places[key] for key in used if key in places), "command line")
        asked = _named("data", [pairs], "use") is not None
        under = shared_file(shared, file, "command line" if asked else here)
        below, lines_below = shared_data(under)
        layers.lay(below, lines_below)
    layers.lay(values, places)
    if tiny:
        layers.lay(small, {key: f"{path}:{line}" for key, line in _inside(lines, "tiny")})
    for key, value in pairs.items():
        written = [key, *(f"{key}.{inner}" for inner in _keys(value))]
        layers.lay({key: value}, dict.fromkeys(written, "command line"))
    if shared is not None and isinstance(layers.values["data"], dict):
        layers.values["data"].pop("use", None)
    _note_kept(layers, [below, *said])
    for switch, models in old_names.SWITCHES.items():
        layers.choose("model", switch, models)
    for section, value in layers.values.items():
        if section not in SECTIONS:
            from regard.recipe.train_section import Training

            inside = [f"train.{own.name}" for own in fields(Training) if own.name == section]
            inside += [k for k, _ in flat(layers.values) if k.endswith(f".{section}")]
            hint = (
                f"did you mean {inside[0]!r}?" if inside else nearest(section, [*SECTIONS, "tiny"])
            )
            raise RequestError(f"{layers.where(section)}: there is no section {section!r}: {hint}")
        if value is not None and not isinstance(value, dict):
            raise RequestError(
                f"{layers.where(section)}: {section}: expected keys with values, got {value!r}"
            )
    return Recipe(name_of(file) + ("-tiny" if tiny else ""), file, layers, under)


def _named(section: str, layers: Sequence[Mapping[str, Any]], key: str = "name") -> Any:
    """What the last of the layers that says it has as the `name` (or another key) of a section."""
    name = None
    for layer in layers:
        inside = layer.get(section)
        if isinstance(inside, Mapping):
            name = inside.get(key, name)
        name = layer.get(f"{section}.{key}", name)
    return name


OF_ONE_PATH = ("where", "split", "vectors")
"""Keys of `data` that say something of the data at its path, and not of every data set alike."""


def _note_kept(layers: Layered, said: Sequence[Mapping[str, Any]]) -> None:
    """Note what stays of other data where a layer gives a path: mappings are merged."""
    paths = [_named("data", [layer], "path") for layer in said]
    named = [i for i, path in enumerate(paths) if path is not None]
    if not named or all(paths[i] == paths[named[-1]] for i in named):
        return
    kept = [
        key
        for key in OF_ONE_PATH
        if not any(_names("data", key, layer) for layer in said[named[-1] :])
        and layers.values["data"].get(key) is not None
    ]
    if kept:
        which = " and ".join(f"data.{key} ({layers.where(f'data.{key}')})" for key in kept)
        layers.notes.append(
            f"{layers.where('data.path')}: data.path is {paths[named[-1]]!r} now, and {which} "
            f"still hold{'s' * (len(kept) == 1)}; data.{kept[0]}=null leaves it out"
        )


def _names(section: str, key: str, layer: Mapping[str, Any]) -> bool:
    """Whether a layer sets a key of a section, or something inside it."""
    inside, dotted = layer.get(section), f"{section}.{key}"
    return (isinstance(inside, Mapping) and key in inside) or any(
        one == dotted or one.startswith(f"{dotted}.") for one in layer
    )


def _keys(value: Any) -> Iterator[str]:
    """The dotted keys inside a value, those of mappings too."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from (f"{key}.{inner}" for inner in _keys(item))


def _inside(lines: Mapping[str, int], section: str) -> Iterator[tuple[str, int]]:
    prefix = section + "."
    return ((k.removeprefix(prefix), line) for k, line in lines.items() if k.startswith(prefix))
