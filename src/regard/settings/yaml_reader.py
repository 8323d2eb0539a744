"""YAML with the rules of YAML 1.2, and the line on which every key stands.

PyYAML follows YAML 1.1: `3e-4` is a string there, `no` is false and `1:30` is ninety. Here scalars
follow the core schema of YAML 1.2, and digits may be grouped by underscores (`20_000`).
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from regard.errors import RequestError

__all__ = ["DEPTH", "LONGEST", "Lines", "dump", "parse", "scalar"]

Lines = dict[str, int]
"""Dotted key -> line number, counted from 1."""

DEPTH = 50
"""Levels of lists and mappings; no recipe needs more than five."""
DIGITS = 1000
LONGEST = 1 << 16
"""Characters of a text; the reader takes a second for three times as many."""

_INT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?)(?:[eE][-+]?[0-9]+)?"
)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}


def scalar(text: str) -> Any:
    """The value of a plain (unquoted) scalar.

    Example:
        >>> [scalar(text) for text in ("3e-4", "20_000", "no", "1:30", "true", "~", "0x1F")]
        [0.0003, 20000, 'no', '1:30', True, None, 31]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text) if len(text) <= DIGITS else float(text)  # no setting's range has it
    if _FLOAT.fullmatch(text):
        return float(text)
    if re.fullmatch(r"0x[0-9a-fA-F]+|0o[0-7]+", text):
        return int(text, 0)
    return text


class _Loader(yaml.SafeLoader):
    """Composes nodes and resolves nothing: tags of plain scalars are left to `scalar`."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


class _FastLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """The same by libyaml, ten times as fast, where PyYAML was built with it."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


def parse(text: str, name: str, *, prefix: str = "", line: int = 0) -> tuple[Any, Lines]:
    """The value of a YAML text, and the line of every key in it.

    Args:
        text: one YAML document.
        name: what to call it in an error.
        prefix: put before every dotted key.
        line: added to every line number.

    Raises:
        RequestError: the text is not YAML, has a key twice, an anchor, a tag, a key that is not a
            plain word, more than `DEPTH` levels, or more
            than `LONGEST` characters.
    """
    if len(text) > LONGEST:
        raise RequestError(f"{name}: expected at most {LONGEST:,} characters, got {len(text):,}")
    odd = any(mark in text for mark in "\t?\ufeff")  # libyaml allows them in more places
    try:
        node = _compose(text, name, line, _Loader if odd else _FastLoader)
    except (yaml.YAMLError, UnicodeError):  # the reader in Python says it in words that are known
        node = _compose_or_refuse(text, name, line)
    lines: Lines = {}
    return (None if node is None else _value(node, name, prefix, lines, line)), lines


def _compose_or_refuse(text: str, name: str, line: int) -> yaml.Node | None:
    try:
        return _compose(text, name, line, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{name}:{mark.line + 1 + line}" if mark is not None else name
        said = " ".join(str(getattr(error, "problem", error)).split())
        raise RequestError(f"{at}: not YAML: {said}") from None


def _compose(text: str, name: str, line: int, loader: Any) -> yaml.Node | None:
    depth = 0
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        start = event.start_mark.line if event.start_mark else 0
        at = f"{name}:{start + 1 + line}"
        if depth > DEPTH:
            raise RequestError(f"{at}: expected at most {DEPTH} levels of lists and mappings")
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise RequestError(f"{at}: expected plain values, got an anchor or a tag")
    node: yaml.Node | None = yaml.compose(text, loader)
    return node


def _value(node: yaml.Node, name: str, path: str, lines: Lines, offset: int) -> Any:
    if isinstance(node, yaml.ScalarNode):
        plain = not node.style and node.tag == "tag:yaml.org,2002:str"
        return scalar(node.value) if plain else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, name, path, lines, offset) for item in node.value]
    result: dict[str, Any] = {}
    assert isinstance(node, yaml.MappingNode)
    for key_node, value_node in node.value:
        at = key_node.start_mark.line + 1 + offset
        if not isinstance(key_node, yaml.ScalarNode):
            raise RequestError(
                f"{name}:{at}: expected a plain word as key, got a list or a mapping"
            )
        key = str(key_node.value)
        if key in result:
            first = lines[_join(path, key)]
            raise RequestError(f"{name}:{at}: {key!r} is here twice (first on line {first})")
        lines[_join(path, key)] = at
        result[key] = _value(value_node, name, _join(path, key), lines, offset)
    return result


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class _Dumper(yaml.SafeDumper):
    """Writes what `parse` reads back: strings that look like values in quotes, floats in full."""


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = None if isinstance(scalar(value), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _word(dumper: yaml.SafeDumper, value: object) -> yaml.Node:
    names: dict[Any, str] = {None: "null", math.inf: ".inf", -math.inf: "-.inf"}
    text = ".nan" if value != value else names.get(value, repr(value))
    text = text.lower() if isinstance(value, bool) else text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text)


_Dumper.add_representer(str, _string)
for _kind in (int, float, bool, type(None)):
    _Dumper.add_representer(_kind, _word)
_Dumper.yaml_implicit_resolvers = {}


def dump(value: Mapping[str, Any]) -> str:
    """YAML text that `parse` reads back to the same value, one key a line."""
    text = yaml.dump(
        _plain(value),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
    return str(text)


def _plain(value: Any) -> Any:
    """Tuples as lists and mappings as dicts: what YAML can write."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
