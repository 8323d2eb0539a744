"""The files of fields in a model folder: one for each field that learned something of its own."""

from collections.abc import Mapping
from pathlib import Path

from regard.errors import RequestError
from regard.fields.base import Field
from regard.fields.text import TextField, own_texts, with_vocabularies

__all__ = ["NAMES", "files_of", "read_fields"]

NAMES = ("tokenizer*.json", "field.*.json")
"""Patterns of the names of all such files."""


def files_of(fields: Mapping[str, Field]) -> dict[str, str]:
    """The names of the files and what is in them.

    Texts with one vocabulary have one file, `tokenizer.json`; other fields `<prefix>.<name>.json`.
    """
    own, texts = _saved(fields), own_texts(fields)
    found = {}
    if texts and len({id(one.tokenizer) for one in texts.values()}) == 1:
        first = next(iter(texts.values()))
        found[f"{first.prefix}.json"] = first.dump() + "\n"
        own = {name: one for name, one in own.items() if name not in texts}
    for name, one in own.items():
        if one.optional and not one.learned:
            continue
        found[f"{one.prefix}.{name}.json"] = one.dump() + "\n"
    return found


def read_fields(fields: Mapping[str, Field], folder: Path) -> dict[str, Field]:
    """The fields with what the files in a folder say.

    Raises:
        FileNotFoundError: a field has no file.
        RequestError: a file is not one of such a field.
    """
    shared = folder / "tokenizer.json"
    found: dict[str, Field] = dict(fields)
    whole: TextField | None = None
    for name, one in _saved(fields).items():
        path = folder / f"{one.prefix}.{name}.json"
        if one.optional and not path.is_file():
            continue
        if isinstance(one, TextField) and shared.is_file():
            whole = one.load(_text(shared), str(shared)) if whole is None else whole
            found[name] = one.sharing(whole)
        else:
            found[name] = one.load(_text(path), str(path))
    return with_vocabularies(found)


def _saved(fields: Mapping[str, Field]) -> dict[str, Field]:
    """The fields that have something of their own to save."""
    texts = own_texts(fields)
    return {
        name: one
        for name, one in fields.items()
        if one.saved and (name in texts or not isinstance(one, TextField))
    }


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not UTF-8: {error}") from error
