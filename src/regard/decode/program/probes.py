"""Probes: the arguments of steps at sizes of which none follows from another.

They are made of one batch that was encoded, whatever its source is: its sentences are repeated, its
states padded further, and arbitrary words are read. What a probe computes means nothing; which
operations it calls does.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.protocols import BOS, UNK, Decoding, Encoded

__all__ = ["probes", "states_after", "words"]

SIZES = ((2, 3, 1, 1, 0), (5, 2, 5, 2, 3), (3, 4, 11, 3, 4))
"""Sentences, hypotheses, padding, steps and own words of each probe."""
SPECIAL = 4
"""The ids before the words: padding, begin, end, unknown."""


def probes(model: Any, encoded: Encoded) -> list[tuple[Tensor, Decoding]]:
    """Tokens and decodings of later steps, for `recorded`.

    Args:
        model: in eval mode.
        encoded: a batch of at least one sentence, by the model's `encode`.
    """
    try:
        return _probes(model, encoded, padded=True)
    except RuntimeError:  # its states are no places of a source, but one summary
        return _probes(model, encoded, padded=False)


def _probes(model: Any, encoded: Encoded, *, padded: bool) -> list[tuple[Tensor, Decoding]]:
    found = []
    for sentences, beam, padding, steps, own in SIZES:
        begun = _started(model, encoded, sentences, padding if padded else 0, own)
        found.append(states_after(model, begun, sentences, beam, steps))
    return found


def states_after(
    model: Any, decoding: Decoding, sentences: int, beam: int, steps: int
) -> tuple[Tensor, Decoding]:
    """The arguments of the next step; hypotheses are in another order after each."""
    tokens = torch.full((sentences, 1), BOS, device=_device(model))
    for step in range(steps):
        width = tokens.shape[1]
        _, decoding = model.step(tokens, decoding)
        order = (torch.arange(beam) + step) % width
        decoding = decoding.select(order.expand(sentences, beam).to(tokens.device))
        tokens = words(model, sentences * beam, step).view(sentences, beam)
    return tokens, decoding


def words(model: Any, count: int, seed: int = 0) -> Tensor:
    """Ids of ordinary words of the target, spread over the vocabulary, without random numbers."""
    size = model.target_vocab_size
    first = min(SPECIAL, size - 1)
    ids = torch.arange(count, device=_device(model)) + seed
    found: Tensor = first + ids * 7 % max(1, size - first)
    return found


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device


def _started(model: Any, encoded: Encoded, sentences: int, padding: int, own: int) -> Decoding:
    """A decoding of `sentences` sentences, whose source has `padding` more places."""
    size = encoded.states.shape[1]
    extra: Mapping[str, Any] = {
        name: _padded(x, padding) if isinstance(x, Tensor) and _has_places(x, size) else x
        for name, x in encoded.extra.items()
    }
    if "copies" in extra:  # as many own words as no other probe has
        copies: Tensor = extra["copies"].clone()
        copies[0, 0] = max(int(copies.max()), model.target_vocab_size) + 1 + own
        extra = {**extra, "copies": copies}
        if "own" in extra:  # of each own word, what it is read as
            given: Tensor = encoded.extra["own"]
            more = int(copies.max()) + 1 - model.target_vocab_size - given.shape[1]
            extra["own"] = torch.nn.functional.pad(given, (0, more), value=UNK)
    padded = encoded._replace(states=_padded(encoded.states, padding), extra=extra)
    decoding: Decoding = model.start(padded)
    rows = torch.arange(sentences, device=encoded.states.device) % len(encoded.states)
    return decoding.rows(rows)


def _has_places(x: Tensor, size: int) -> bool:
    return x.dim() > 1 and x.shape[1] == size


def _padded(x: Tensor, padding: int) -> Tensor:
    """Zeros behind the second axis."""
    return torch.cat([x, x.new_zeros(len(x), padding, *x.shape[2:])], 1)
