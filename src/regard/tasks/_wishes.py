"""What is asked of the outputs of some inputs, checked and as a decoder takes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.tokenize import Tokenizer
from regard.decode.rules import Avoid
from regard.errors import RequestError
from regard.protocols import UNK

__all__ = ["check_wishes", "wishes"]


def check_wishes(count: int, asked: Mapping[str, Any], target: Tokenizer) -> None:
    """Refuse what is not asked for each input, or cannot be written, before anything is decoded."""
    for name, own in asked.items():
        if own is not None and len(own) != count:
            raise RequestError(f"expected {name} for each of {count} inputs, got {len(own)}")
    for name in ("force_words", "bad_words"):
        for some in asked.get(name) or ():
            for phrase in some:
                _ids(target, name, phrase)


def wishes(
    target: Tokenizer,
    prefix: Sequence[str | None] | None = None,
    force_words: Sequence[Sequence[str]] | None = None,
    bad_words: Sequence[Sequence[str]] | None = None,
) -> dict[str, Any]:
    """What is asked of the outputs of some inputs, as a decoder takes it."""
    told: dict[str, Any] = {}
    if prefix is not None:
        told["prefix"] = [ids.tolist() for ids in target.encode_all([p or "" for p in prefix])]
    if force_words is not None:
        told["force_words"] = [[_ids(target, "force_words", p) for p in own] for own in force_words]
    if bad_words is not None:
        spelled = target.spelled()
        letters = [
            ["".join(spelled[i] for i in _ids(target, "bad_words", p)) for p in own]
            for own in bad_words
        ]
        told["rules"] = [Avoid(letters, spelled)]
    return told


def _ids(target: Tokenizer, name: str, phrase: str) -> list[int]:
    ids = target.encode(phrase).ids
    if not ids or UNK in ids:
        raise RequestError(f"{name}: the model cannot write {phrase!r}; give words it can write")
    return ids
