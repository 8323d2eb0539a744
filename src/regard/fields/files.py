"""The files of fields in a model folder: one for each field that learned something of its own."""

from collections.abc import Mapping
from pathlib import Path

from regard.errors import RequestError
from regard.fields.base import Field
from regard.fields.text import TextField

__all__ = ["NAMES", "files_of", "read_fields"]

NAMES = ("tokenizer*.json", "field.*.json")
"""Patterns of the names of all such files."""


def files_of(fields: Mapping[str, Field]) -> dict[str, str]:
    """The names of the files and what is in them.

    Texts with one vocabulary have one file, `tokenizer.json`; other fields `<prefix>.<name>.json`.
    """
    own = {name: one for name, one in fields.items() if one.saved and one.of is None}
    own |= {
        name: one for name, one in fields.items() if one.saved and not isinstance(one, TextField)
    }
    texts = {name: one for name, one in own.items() if isinstance(one, TextField)}
    found = {}
    if texts and len({id(one.tokenizer) for one in texts.values()}) == 1:
        first = next(iter(texts.values()))
        found[f"{first.prefix}.json"] = first.dump() + "\n"
        own = {name: one for name, one in own.items() if name not in texts}
    for name, one in own.items():
        found[f"{one.prefix}.{name}.json"] = one.dump() + "\n"
    return found


def read_fields(fields: Mapping[str, Field], folder: Path) -> dict[str, Field]:
    """The fields with what the files in a folder say.

    Raises:
        FileNotFoundError: a field has no file.
        RequestError: a file is none of such a field.
    """
    shared = folder / "tokenizer.json"
    found: dict[str, Field] = dict(fields)
    whole: TextField | None = None
    for name, one in fields.items():
        if not one.saved or (isinstance(one, TextField) and one.of is not None):
            continue
        path = folder / f"{one.prefix}.{name}.json"
        if isinstance(one, TextField) and shared.is_file():
            whole = one.load(_text(shared), str(shared)) if whole is None else whole
            found[name] = one.sharing(whole)
        else:
            found[name] = one.load(_text(path), str(path))
    for name, one in fields.items():
        if isinstance(one, TextField) and one.of is not None:
            first = found[one.of]
            assert isinstance(first, TextField)
            found[name] = one.sharing(first)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not UTF-8: {error}") from error
