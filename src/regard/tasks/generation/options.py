"""Per-input decoding constraints, validated and in the form that a decoder takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.data.text.copied_words import OwnWords
from regard.data.text.tokenizer import Tokenizer
from regard.decode.rules.forbidden_words import Avoid
from regard.errors import RequestError
from regard.protocols import UNK

__all__ = ["Spelling", "check_wishes", "token_ids", "wishes"]

Spelling = Tokenizer | OwnWords
"""What writes outputs: a vocabulary, for one input perhaps with words of its own."""


def check_wishes(count: int, asked: Mapping[str, Any], spelling: Callable[[int], Spelling]) -> None:
    """Refuse what is not asked for each input, or cannot be written, before anything is decoded.

    Args:
        spelling: what writes the output of an input, by its number.
    """
    for name, own in asked.items():
        if own is not None and len(own) != count:
            raise RequestError(f"expected {name} for each of {count} inputs, got {len(own)}")
    for number, begin in enumerate(asked.get("prefix") or ()):
        if begin:
            token_ids(spelling(number), "prefix", begin)
    for name in ("force_words", "bad_words"):
        for number, some in enumerate(asked.get(name) or ()):
            for phrase in some:
                token_ids(spelling(number), name, phrase)


def wishes(
    spelling: Callable[[int], Spelling],
    prefix: Sequence[str | None] | None = None,
    force_words: Sequence[Sequence[str]] | None = None,
    bad_words: Sequence[Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Per-input decoding constraints in the form that a decoder takes."""
    told: dict[str, Any] = {}
    if prefix is not None:
        told["prefix"] = [
            token_ids(spelling(n), "prefix", p) if p else [] for n, p in enumerate(prefix)
        ]
    if force_words is not None:
        told["force_words"] = [
            [token_ids(spelling(n), "force_words", p) for p in own]
            for n, own in enumerate(force_words)
        ]
    if bad_words:
        first = spelling(0)
        common = first.tokenizer if isinstance(first, OwnWords) else first
        spelled, letters, added = common.spelled(), [], []
        for n, own in enumerate(bad_words):
            one = spelling(n) if own else common
            extra = one.added() if isinstance(one, OwnWords) else []
            every = [*spelled, *extra] if extra else spelled
            letters.append(["".join(every[i] for i in token_ids(one, "bad_words", p)) for p in own])
            added.append(extra)
        told["rules"] = [Avoid(letters, spelled, added)]
    return told


def token_ids(spelling: Spelling, name: str, phrase: str) -> list[int]:
    """The token ids of a text that an output must or must not have.

    Raises:
        RequestError: the model cannot write it, or some of its letters.
    """
    ids = spelling.encode(phrase).ids
    if not ids or UNK in ids:
        raise RequestError(f"{name}: the model cannot write {phrase!r}; give words it can write")
    return ids
