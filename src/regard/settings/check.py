"""Values of a recipe against the signature of what they will be given to."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_type_hints

from regard.errors import RequestError, nearest
from regard.settings.ranges import within

__all__ = [
    "arguments_of",
    "check",
    "check_keys",
    "defaults",
    "given_by_data",
    "hints_of",
    "optional_of_data",
    "section_of",
    "settings_of",
]

T = TypeVar("T")
Where = Callable[[str], str]


def check(
    values: Mapping[str, Any],
    target: Callable[..., Any],
    *,
    section: str,
    where: Where,
    given: Iterable[str] = (),
    extra: Iterable[str] = ("name",),
) -> dict[str, Any]:
    """Refuse what `target` would not take: unknown and missing keys, wrong types, wrong numbers.

    Args:
        values: the section, e.g. `{"name": "rnnsearch", "embed": 256}`.
        target: the class or function that gets them.
        section: the dotted name of the section, for the error.
        where: gives `file:line` of a dotted key.
        given: parameters that come from elsewhere (vocabulary sizes).
        extra: keys that are not parameters.

    Returns:
        the values as their types want them: a whole number where a number is expected (`dropout:
        0`) comes back as one.

    Raises:
        RequestError: with the place, what was expected, what was given, and the nearest name.
    """
    typed = dict(values)
    parameters, open_ended = _parameters(target, given)
    hints = hints_of(target)
    name = getattr(target, "__name__", str(target))
    for key, value in values.items():
        dotted = f"{section}.{key}"
        if key in parameters:
            if key in hints:
                typed[key] = _typed(value, hints[key], dotted, where)
            within(dotted, value, where)
        elif key not in set(extra) and not open_ended:
            near = nearest(key, parameters)
            place = f"{where(dotted)}: ".removeprefix(": ")
            raise RequestError(f"{place}{name} has no setting {key!r} ({section}): {near}")
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in values:
            place = f"{where(section)}: ".removeprefix(": ")
            raise RequestError(f"{place}{name} needs a value for {section}.{key}")
    return typed


def check_keys(values: Any, types: Mapping[str, Any], *, section: str, where: Where) -> None:
    """Refuse values of another type than their keys have, and numbers out of range.

    Args:
        values: the section; a key that is null is passed over.
        types: of each key; a mapping is that of a section inside.
        section: the dotted name of the section, for the error.
        where: gives `file:line` of a dotted key, or "".

    Raises:
        RequestError: with the place, what was expected, and what was given.
    """
    if not isinstance(values, Mapping):
        place = f"{where(section)}: ".removeprefix(": ")
        raise RequestError(f"{place}{section}: expected keys with values, got {values!r}")
    for key, value in values.items():
        dotted = f"{section}.{key}"
        kind = types.get(key)
        if value is None:
            continue
        if isinstance(kind, Mapping):
            check_keys(value, kind, section=dotted, where=where)
            continue
        if kind is not None:
            _typed(value, kind, dotted, where)
        within(dotted, value, where)


def defaults(target: Callable[..., Any], given: Iterable[str] = ()) -> dict[str, Any]:
    """The default values of `target` that a recipe could have written (numbers, words, lists)."""
    found = {
        key: parameter.default
        for key, parameter in _parameters(target, given)[0].items()
        if parameter.default is not inspect.Parameter.empty
    }
    return {key: value for key, value in found.items() if _writable(value)}


def given_by_data(model: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of a model that follow from the data; by the house's rule its positional ones.

    Example:
        >>> given_by_data(lambda vocab_size, num_classes, *, dim=8: None)
        ('vocab_size', 'num_classes')
    """
    found = inspect.signature(model).parameters.values()
    return tuple(p.name for p in found if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)


def optional_of_data(model: Callable[..., Any]) -> set[str]:
    """Those of `given_by_data` that the data need not give, as features of a pair."""
    found = inspect.signature(model).parameters
    return {n for n in given_by_data(model) if found[n].default is not inspect.Parameter.empty}


def _writable(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _parameters(
    target: Callable[..., Any], given: Iterable[str]
) -> tuple[dict[str, inspect.Parameter], bool]:
    found = inspect.signature(target).parameters
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    skipped = set(given)
    named = {k: p for k, p in found.items() if p.kind not in kinds and k not in skipped}
    return named, any(p.kind is inspect.Parameter.VAR_KEYWORD for p in found.values())


def hints_of(target: Callable[..., Any]) -> dict[str, Any]:
    """The type of each parameter; none where they cannot be known at run time."""
    plain = is_dataclass(target) or not inspect.isclass(target)
    try:
        return get_type_hints(target if plain else target.__init__, include_extras=True)
    except (NameError, TypeError):  # a name that only a type checker sees: nothing to check against
        return {}


def _typed(value: Any, hint: Any, key: str, where: Where) -> Any:
    """The value, checked; only a whole number may change, to the float that its type asks for."""
    from pydantic import ValidationError

    adapter = _adapter(hint)
    if adapter is None:  # a type that no YAML can write: its constructor will say
        return value
    try:
        # Through JSON, where strict means: a list may be a tuple, and "no" is never False.
        found = adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        at = ".".join(str(part) for part in problem["loc"] if isinstance(part, int))
        place = f"{where(key)}: ".removeprefix(": ")
        got = f"{value!r} ({problem['msg'].lower()})"
        if value is None:  # `key=` on a command line, or a key with nothing behind it
            empty = """; an empty word is "" (in a shell '""')""" if hint is str else ""
            got = f"nothing (null){empty}"
        raise RequestError(
            f"{place}{key}{'.' + at if at else ''}: expected {_expected(hint)}, got {got}"
        ) from None
    return found if isinstance(found, float) else value


@lru_cache(maxsize=512)
def _adapter(hint: Any) -> Any:
    """What validates values of a type; None if nothing can."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(hint)
    except PydanticUserError:
        return None


def _expected(hint: Any) -> str:
    """A type in words that a reader of the recipe understands."""
    names = {
        int: "a whole number",
        float: "a number",
        str: "a word",
        bool: "true or false",
        type(None): "null",
    }
    if hasattr(hint, "__metadata__"):  # Annotated, with a range
        return _expected(hint.__origin__)
    if hint in names:
        return names[hint]
    parts = get_args(hint)
    kind = getattr(hint, "__origin__", None)
    if parts and (kind in (None, Union) or isinstance(hint, UnionType)):  # int | None
        return " or ".join(_expected(part) for part in parts)
    if parts and str(kind) == "typing.Literal":
        return "one of " + ", ".join(str(part) for part in parts)
    if kind in (dict,) or str(kind) == "collections.abc.Mapping":
        return "keys with values"
    if kind in (list, tuple):
        return "a list"
    return getattr(hint, "__name__", str(hint).replace("typing.", ""))


def settings_of(kind: type[Any], given: Mapping[str, Any] | None, name: str) -> Any:
    """Settings of one kind from a recipe's keys; None where there are none."""
    return None if given is None else section_of(kind, given, f"task.{name}")


def section_of(kind: type[T], given: T | Mapping[str, Any] | None, section: str) -> T:
    """Settings of one kind: as they are, from a section's keys, or the defaults for None.

    Raises:
        RequestError: a key or a value that `kind` does not take; or neither settings nor keys.
    """
    if isinstance(given, kind):
        return given
    if given is not None and not isinstance(given, Mapping):
        expected = f"keys with values or {kind.__name__}"
        raise RequestError(f"{section}: expected {expected}, got {given!r}")
    return kind(**check(given or {}, kind, section=section, where=lambda key: "", extra=()))


def arguments_of(section: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a section, without the `name` of what takes them."""
    return {key: value for key, value in section.items() if key != "name"}
