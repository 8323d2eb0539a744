"""Keys of a recipe's sections: those that are not there, tokenizers of texts, objectives."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import RequestError, nearest
from regard.fields import Field, TextField
from regard.fields.text import own_texts

__all__ = ["refuse_unknown", "tokenizers"]

TOKENIZER = ("kind", "vocab_size", "lowercase", "min_count")


def refuse_unknown(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse keys that a section does not have, with the nearest one that it has."""
    for key in given:
        if key not in known:
            raise RequestError(f"{where} has no key {key!r}: {nearest(str(key), known)}")


def tokenizers(
    given: Mapping[str, Any], fields: Mapping[str, Field]
) -> tuple[dict[str, Field], bool]:
    """The fields with the tokenizers that are wanted, and whether all texts have one vocabulary.

    What is said of a field overrides what is said of all, and that what the task has as default.
    Texts that are to differ cannot share.
    """
    texts = own_texts(fields)
    refuse_unknown("data.tokenizer", given, (*TOKENIZER, "shared", *texts))
    common = {key: given[key] for key in TOKENIZER if key in given}
    made: dict[str, TextField] = {}
    for name, own in texts.items():
        told = given.get(name) or {}
        refuse_unknown(f"data.tokenizer.{name}", told, TOKENIZER)
        made[name] = own.configured({**common, **told})
    settings = [(one.settings, one.min_count) for one in made.values()]
    alike = len(settings) > 1 and all(one == settings[0] for one in settings)
    one_for_all = given.get("shared", alike and not any(name in given for name in texts))
    if one_for_all and len(settings) > 1 and not alike:
        raise RequestError(
            "data.tokenizer: shared: true needs the same kind, vocab_size and lowercase on both "
            "sides"
        )
    return {**fields, **made}, bool(one_for_all)
