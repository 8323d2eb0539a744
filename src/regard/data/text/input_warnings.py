"""Warnings about inputs with unknown letters, or with too many tokens."""

import logging
from collections.abc import Iterable, Sequence

from regard.data.text.tokenizer import Tokenizer
from regard.runtime.special_ids import UNK

__all__ = ["warn_too_long", "warn_unknown"]

log = logging.getLogger(__name__)

UNKNOWN = 0.5
"""From this share of unknown letters on an input is told of."""


def warn_unknown(
    pairs: Iterable[tuple[str, Sequence[int]]], tokenizer: Tokenizer, total: int
) -> None:
    """Say of how many inputs half of the letters or more are unknown.

    A run of unknown letters may be one token, however long: tokens do not show it.

    Args:
        pairs: texts with their ids.
        total: how many inputs there are.
    """
    found = []
    for text, ids in pairs:
        if UNK in ids:
            read = " ".join(text.split())
            if len(tokenizer.decode(ids)) <= (1 - UNKNOWN) * len(read):
                found.append(read)
    if found:
        log.warning(
            "%d of %d inputs: half of the letters or more are unknown to the model, as in %r",
            len(found),
            total,
            found[0][:40],
        )


def warn_too_long(refused: int, total: int, most: int) -> None:
    """Say how many inputs are refused because they are too long."""
    if refused:
        log.warning(
            "%d of %d inputs have more than %d tokens and are refused", refused, total, most
        )
