"""Vectors of words in their context: states of an encoder that somebody else has trained."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import sources
from regard.encoders import Encoder, open_encoder, stamp, words_from
from regard.encoders.kept import KeptStates, StateRows, key_of, usual_place
from regard.encoders.words import POOLS
from regard.errors import RequestError, nearest
from regard.fields.pretrained import Pretrained
from regard.system.devices import device_named

__all__ = ["TYPES", "EncoderStates", "opened", "vectors_of"]

log = logging.getLogger(__name__)

TYPES: Mapping[str, Any] = {
    "encoder": str,
    "layers": list[int],
    "pool": str,
    "words": bool,
    "store": str,
    "known": {"name": str, "stamp": str, "licence": str, "size": int},
}
"""Of each key of `data.vectors` that is about an encoder its type; see `EncoderStates`."""

TOLD = 1000
"""From this many texts on it is said that they are encoded, on a GPU where there is one."""


@lru_cache(maxsize=4)
def _opened(folder: Path, mark: str) -> Encoder:
    """Once for all fields, as long as its files stay as they are."""
    with torch.inference_mode(False):  # it stays, and gradients may be asked of it later
        found = open_encoder(folder)
    assert found.stamp == mark
    return found


@dataclass(frozen=True, eq=False)
class EncoderStates:
    """An encoder in a local folder, and what is taken of it.

    Args:
        encoder: its folder, of Hugging Face; see `regard.encoders`. Looked up as data are.
        layers: whose states are read, as transformers counts `hidden_states`: 0 below the first
            layer, -1 the last one. Of several a mixture is learned.
        pool: the state of a word is that of its `first` piece, or the `mean` of all of them.
        words: whether words have vectors of their own beside them.
        store: the folder that keeps states of data sets; "": see `encoders.kept.usual_place`.
        known: of the encoder that a model was trained with its `name`, `stamp`, `licence` and
            `size`; another one is refused. {}: any is taken.
        kept: states are kept on disk; those of single inputs are not.
    """

    encoder: str
    layers: tuple[int, ...] = (-1,)
    pool: str = "mean"
    words: bool = True
    store: str = ""
    known: Mapping[str, Any] = field(default_factory=dict)
    kept: bool = False

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> "EncoderStates | None":
        """From the section `data.vectors` of a recipe; None where it names no encoder.

        Raises:
            RequestError: keys of an encoder without one, or values that it cannot use.
        """
        told = {key: section[key] for key in TYPES if section.get(key) is not None}
        if not told.get("encoder"):
            if told:
                raise RequestError(
                    f"data.vectors.{next(iter(told))}: it is of an encoder; expected its folder as "
                    "data.vectors.encoder"
                )
            return None
        made = cls(**{**told, "layers": tuple(told.get("layers", cls.layers))})
        if made.pool not in POOLS:
            raise RequestError(f"data.vectors.pool: {made.pool!r}: {nearest(made.pool, POOLS)}")
        if not made.layers:
            raise RequestError("data.vectors.layers: expected a number or more, got none")
        return made

    @property
    def place(self) -> Path:
        """The folder.

        Raises:
            RequestError: it is not there; with what a model needs of it.
        """
        try:
            return sources.find(self.encoder)
        except RequestError as error:
            if not self.known:
                raise RequestError(f"data.vectors.encoder: {error}") from None
            raise RequestError(
                f"this model reads the states of an encoder, {self.said}: {error}; put its folder "
                "there, or in $REGARD_DATA"
            ) from None

    @property
    def said(self) -> str:
        """The encoder that a model was trained with, in words."""
        licence = self.known.get("licence")
        also = f", licence {licence}" if licence else ""
        return f"{self.known.get('name', self.encoder)} (stamp {self.known.get('stamp')}{also})"

    @property
    def read(self) -> tuple[Any, ...]:
        """What states depend on beside the text."""
        return self.known.get("stamp"), self.layers, self.pool

    def checked(self) -> "EncoderStates":
        """With what is known of the encoder in the folder.

        Raises:
            RequestError: it is not there, cannot be read, or is another one than it should be.
        """
        place, wanted = self.place, self.known.get("stamp")
        mark = stamp(place)
        if wanted and mark != wanted:
            raise RequestError(
                f"this model reads the states of an encoder, {self.said}, and {place} holds "
                f"another one (stamp {mark}): expected the same files"
            )
        if wanted and "size" in self.known:
            return self
        made = _opened(place, mark)
        made.numbered(self.layers)
        facts = {"name": made.name, "stamp": mark, "size": made.dim}
        facts |= {"licence": made.licence} if made.licence else {}
        return replace(self, known=facts)

    def noted(self) -> dict[str, Any]:
        """What a model folder keeps of it."""
        plain = {"encoder": self.encoder, "layers": [*self.layers], "pool": self.pool}
        return {**plain, "words": self.words, "known": dict(self.known)}

    def rows(self, texts: Sequence[str], places: Sequence[NDArray[np.int64]]) -> StateRows:
        """The states of the words of texts.

        Args:
            places: of each text the start and end of its words (words, 2).
        """
        own = self.checked()
        where, mark = own.place, own.known["stamp"]
        shape = (len(own.layers), int(own.known["size"]))
        folder = None
        if own.kept:
            base = Path(own.store).expanduser() if own.store else usual_place()
            layers = ",".join(map(str, _opened(where, mark).numbered(own.layers)))
            folder = base / f"{mark}-{layers}-{own.pool}"
        kept = KeptStates(folder, shape)
        keys = [key_of(text, at) for text, at in zip(texts, places, strict=True)]
        lacking = len({key for key in keys if key not in kept.at})
        device = "cpu"
        if lacking >= TOLD:
            device = device_named("auto")
            log.warning("%s texts are read by the encoder %s", f"{lacking:,}", own.known["name"])

        def compute(at: list[int]) -> list[NDArray[np.float32]]:
            encoder = _opened(where, mark).to(device)
            found = encoder.states([texts[i] for i in at], own.layers)
            return [words_from(one, places[i], own.pool) for i, one in zip(at, found, strict=True)]

        try:
            kept.add(keys, compute)
        finally:  # weights that gradients go through, and single texts, stay on the CPU
            if device != "cpu":
                _opened(where, mark).to("cpu")
        return kept.rows(keys)


def opened(states: EncoderStates) -> Encoder:
    """The encoder itself.

    Raises:
        RequestError: see `EncoderStates.checked`.
    """
    own = states.checked()
    return _opened(own.place, own.known["stamp"])


def vectors_of(told: Mapping[str, Any] | None) -> tuple[Pretrained | None, EncoderStates | None]:
    """(the word vectors, the encoder) that a section `data.vectors` names.

    Raises:
        RequestError: it names neither, or a key without a meaning.
    """
    if not told:
        return None, None
    encoder = EncoderStates.of(told)
    words = {k: v for k, v in told.items() if k not in TYPES and v is not None}
    if encoder is not None and not words:
        return None, encoder
    return Pretrained.of(words), encoder
