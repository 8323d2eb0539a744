"""SentencePiece models of the unigram kind as tokenizers of ours; the package is not needed.

A `.spm` file is a protocol buffer: pieces with scores (field 1), what it was trained as (2) and how
text is normalized (3). Marian's ids are those of its `vocab.json`, which has pieces that the file
has not: the other language's. They can be written, and out of a text they come where nothing else
would do: single letters that the file does not know, and language marks such as `>>fra<<`.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.convert._normalization import check
from regard.convert._vocabulary import ConvertedVocabulary
from regard.data.text.tokenizer import SPACE, SPECIALS, Tokenizer
from regard.errors import RequestError
from regard.protocols import UNK

__all__ = ["read"]

PIECES, TRAINER, NORMALIZER = 1, 2, 3
TEXT, SCORE, TYPE = 1, 2, 3
MODEL_TYPE, BYTE_FALLBACK = 3, 35
NORMAL, USER = 1, 4
UNIGRAM = 1
CHARSMAP, DUMMY_PREFIX, SQUEEZE = 2, 3, 4
FOREIGN = -1e3
"""The score of a letter of a piece that the model has not: below any way to cut it otherwise."""


def read(path: Path, side: ConvertedVocabulary) -> Tokenizer:
    """The tokenizer that cuts text as the model does and counts as `side` does.

    Raises:
        RequestError: no SentencePiece model, or one of another kind than unigram.
    """
    try:
        fields = [*_fields(path.read_bytes())]
        scores = {
            piece[TEXT].decode("utf-8"): float(piece.get(SCORE, 0.0))
            for piece in (dict(_fields(value)) for key, value in fields if key == PIECES)
            if piece.get(TYPE, NORMAL) in (NORMAL, USER)
        }
        trained = dict(_fields(next((v for k, v in fields if k == TRAINER), b"")))
        rules = dict(_fields(next((v for k, v in fields if k == NORMALIZER), b"")))
    except Exception as error:  # of bytes in another order Python raises nearly anything
        raise RequestError(f"{path} is not a SentencePiece model: {error!r}") from error
    if not scores:
        raise RequestError(f"{path} is not a SentencePiece model: it has no pieces")
    if trained.get(MODEL_TYPE, UNIGRAM) != UNIGRAM or trained.get(BYTE_FALLBACK):
        raise RequestError(f"{path}: expected a unigram model without bytes; others are not read")
    try:
        return Tokenizer.from_json(json.dumps(_layout(scores, rules, side), ensure_ascii=False))
    except Exception as error:  # the Rust library raises bare Exception
        raise RequestError(f"{path} is not a SentencePiece model: {error!r}") from error


def _layout(
    scores: dict[str, float], rules: dict[int, Any], side: ConvertedVocabulary
) -> dict[str, Any]:
    """The JSON of a tokenizer."""
    inner = tokenizers.Tokenizer(models.Unigram([(SPECIALS[UNK], 0.0)], 0, False))
    steps: list[Any] = []
    if rules.get(CHARSMAP):
        check(rules[CHARSMAP])
        steps.append(normalizers.Precompiled(rules[CHARSMAP]))
    if rules.get(SQUEEZE, 1):
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    inner.normalizer = normalizers.Sequence(steps)
    prepend = "always" if rules.get(DUMMY_PREFIX, 1) else "never"
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(SPACE, prepend)])
    inner.decoder = decoders.Metaspace(SPACE, prepend)
    layout: dict[str, Any] = json.loads(inner.to_str())
    layout["model"]["unk_id"] = UNK
    layout["model"]["vocab"] = [
        [name, scores.get(name, FOREIGN * len(name))] for name in side.names
    ]
    layout["added_tokens"] = [
        {
            "id": i,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": True,
            "normalized": False,
            "special": False,
        }
        for i, name in enumerate(side.names)
        if name.startswith(">>") and name.endswith("<<")
    ]
    return layout


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer: (number, value), values of length as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value: Any
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        else:
            raise ValueError(f"a field of kind {kind}")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
