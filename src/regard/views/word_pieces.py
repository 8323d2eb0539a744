"""Names of the places of a text: its pieces, and the words that they make.

Read from a tokenizer's own output, or told by how tokenizers write pieces (`▁the`, `Ġthe`, `##ing`,
`th@@ e`) and special tokens (`[CLS]`, `</s>`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import regex

from regard.data.text.tokenizer import SPACE, Encoding, Tokenizer, word_groups
from regard.errors import RequestError
from regard.protocols import EOS

__all__ = [
    "END",
    "Named",
    "WordPieces",
    "from_pieces",
    "from_tokenizer",
    "is_marks",
    "special_places",
]


END = "</s>"


# Marks that stand by themselves on the axes where a piece of their own has them: of ASCII these,
# of other scripts all punctuation but dashes and dots between letters.
_APART = regex.compile(r"""(?V1)[.,;:!?"'()\[\][\p{P}--[\x00-\x7f\p{Pd}\p{Pc}·‧・]]]+""")


@dataclass(frozen=True)
class WordPieces:
    """The pieces of a sequence, end token included, and how they make words.

    Args:
        pieces: the text of each piece.
        groups: the places of the pieces of each word, in order.
        texts: the text of each word.
    """

    pieces: list[str]
    groups: list[list[int]]
    texts: list[str]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "WordPieces":
        """Of an output's ids, which may end in EOS."""
        inside = list(ids[:-1]) if ids and ids[-1] == EOS else list(ids)
        tokens = tokenizer.tokens(inside)
        groups = _apart(word_groups(tokenizer.words(inside)), tokens)
        texts = [tokenizer.decode([inside[i] for i in group]) for group in groups]
        texts = [
            text or "".join(tokens[i] for i in group)
            for text, group in zip(texts, groups, strict=True)
        ]
        return cls._ended(tokens, groups, texts, len(inside) < len(ids))

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, encoding: Encoding) -> "WordPieces":
        """Of an input with its end token: words as they were written, even where unknown."""
        groups = _apart(word_groups(encoding.words), encoding.tokens)
        texts = [
            encoding.text[encoding.offsets[group[0]][0] : encoding.offsets[group[-1]][1]].strip()
            or "".join(encoding.tokens[i] for i in group)
            for group in groups
        ]
        return cls._ended(encoding.tokens, groups, texts, True)

    @classmethod
    def _ended(
        cls, pieces: Sequence[str], groups: list[list[int]], texts: list[str], ended: bool
    ) -> "WordPieces":
        if not ended:
            return cls(list(pieces), groups, texts)
        return cls([*pieces, END], [*groups, [len(pieces)]], [*texts, END])


def _apart(groups: list[list[int]], pieces: Sequence[str]) -> list[list[int]]:
    """Marks before and after a word become words: `(file).` is `(`, `file`, `)`, `.`."""
    found: list[list[int]] = []
    for group in groups:
        units: list[list[int]] = []
        for i in group:  # a space that is a piece of its own belongs to what follows
            if units and pieces[units[-1][-1]] == SPACE:
                units[-1].append(i)
            else:
                units.append([i])
        mark = [_is_mark("".join(pieces[i] for i in unit)) for unit in units]
        first = next((n for n, m in enumerate(mark) if not m), len(units))
        last = next((len(units) - n for n, m in enumerate(reversed(mark)) if not m), first)
        found += units[:first]
        found += [[i for unit in units[first:last] for i in unit]] if first < last else []
        found += units[last:]
    return found


def _is_mark(piece: str) -> bool:
    return _APART.fullmatch(piece.lstrip(SPACE)) is not None


SPECIAL = re.compile(r"\[[A-Z]+\d*\]|<[^<>\s]{1,24}>")


_MARKS = regex.compile(r"""(?V1)[.,;:!?"'()\[\]{}\-[\p{P}--[\x00-\x7f]]]*""")


def is_marks(text: str) -> bool:
    """Whether there is nothing in a text but punctuation of any script."""
    return _MARKS.fullmatch(text) is not None


STARTS = ("▁", "Ġ")


class Named(NamedTuple):
    """What an `Axis` needs: groups and texts are empty where every piece is a word."""

    pieces: list[str]
    groups: list[list[int]]
    texts: list[str]
    special: list[int]


def from_pieces(pieces: list[str]) -> Named:
    """Words are joined as tokenizers write them."""
    groups = _groups(pieces)
    texts = [_text_of([pieces[i] for i in group]) for group in groups]
    return _named(pieces, groups, texts, special_places(pieces))


def _text_of(pieces: Sequence[str]) -> str:
    """The word of some pieces; the mark of a blank may be a piece of its own."""
    told = "".join(map(_bare, pieces))
    return told[1:] if len(pieces) > 1 and pieces[0] in STARTS else told


def from_tokenizer(given: Any, row: int = 0) -> Named | None:
    """Of what a tokenizer of Hugging Face gave, or None where it is something else.

    Args:
        given: a `BatchEncoding`, a `tokenizers.Encoding`, or a pair of a tokenizer and a text, the
            tokenizer's output, or ids.
        row: of the batch; a batch of one has the same text in every row.

    Raises:
        RequestError: a slow tokenizer's output, which has no names, or no such row.
    """
    if isinstance(given, tuple) and len(given) == 2 and _is_tokenizer(given[0]):
        return _of_pair(given[0], given[1], row)
    if _is_encoding(given):
        return _of_encoding(given, None)
    if hasattr(given, "input_ids") and hasattr(given, "encodings"):
        if not given.encodings:
            raise RequestError(
                "a slow tokenizer's output has no names of tokens; "
                "give (tokenizer, output) in its place"
            )
        return _of_encoding(_row(given.encodings, row), None)
    return None


def special_places(pieces: Sequence[str]) -> list[int]:
    """Places of special tokens, told by their brackets."""
    return [i for i, piece in enumerate(pieces) if SPECIAL.fullmatch(piece)]


def _is_tokenizer(value: Any) -> bool:
    return not isinstance(value, str) and callable(getattr(value, "encode", None))


def _is_encoding(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("tokens", "offsets", "special_tokens_mask"))


def _of_pair(tokenizer: Any, given: Any, row: int) -> Named:
    if isinstance(given, str):
        made = tokenizer(given) if callable(tokenizer) else tokenizer.encode(given)
        encodings = [made] if _is_encoding(made) else getattr(made, "encodings", None)
        if encodings:
            return _of_encoding(encodings[0], given)
        return _of_ids(tokenizer, made["input_ids"])
    if _is_encoding(given):
        return _of_encoding(given, None)
    if hasattr(given, "encodings") and given.encodings:
        return _of_encoding(_row(given.encodings, row), None)
    ids = given["input_ids"] if hasattr(given, "keys") else given
    ids = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return _of_ids(tokenizer, _row(ids, row) if ids and isinstance(ids[0], list) else ids)


def _of_ids(tokenizer: Any, ids: Sequence[int]) -> Named:
    """Ids alone: their pieces, joined as they are written."""
    convert = getattr(tokenizer, "convert_ids_to_tokens", None)
    whole = [int(i) for i in ids]
    pieces = convert(whole) if convert is not None else [tokenizer.id_to_token(i) for i in whole]
    named = from_pieces([str(piece) for piece in pieces])
    known = set(getattr(tokenizer, "all_special_ids", ()))
    own = {i for i, one in enumerate(whole) if one in known}
    return named._replace(special=sorted({*named.special, *own}))


def _of_encoding(encoding: Any, text: str | None) -> Named:
    """Pieces that touch, and that the tokenizer counts to one word, are one."""
    pieces = [str(piece) for piece in encoding.tokens]
    offsets, words, sides = encoding.offsets, encoding.word_ids, encoding.sequence_ids
    added = {i for i, flag in enumerate(encoding.special_tokens_mask) if flag}
    special = added | set(special_places(pieces))
    if not any(word is not None for word in words):  # a tokenizer without words
        return from_pieces(pieces)._replace(special=sorted(special))
    groups: list[list[int]] = []
    for i, piece in enumerate(pieces):
        goes_on = (
            i > 0
            and not {i, i - 1} & special
            and (words[i], sides[i]) == (words[i - 1], sides[i - 1])
            and offsets[i][0] <= offsets[i - 1][1]
            and not piece.startswith(STARTS)
            and not any(is_marks(_bare(one)) for one in (piece, pieces[i - 1]))
            and not (text is not None and text[slice(*offsets[i])][:1].isspace())
        )
        if goes_on:
            groups[-1].append(i)
        else:
            groups.append([i])
    texts = []
    for group in groups:
        said = "".join(_bare(pieces[i]) for i in group)
        if text is not None and group[0] not in added:
            said = text[offsets[group[0]][0] : offsets[group[-1]][1]].strip() or said
        texts.append(said)
    return _named(pieces, groups, texts, sorted(special))


def _named(
    pieces: list[str], groups: list[list[int]], texts: list[str], special: list[int]
) -> Named:
    plain = texts == pieces
    return Named(pieces, [] if plain else groups, [] if plain else texts, special)


def _row(rows: Sequence[Any], row: int) -> Any:
    if len(rows) == 1:
        return rows[0]
    if not -len(rows) <= row < len(rows):
        raise RequestError(f"there is no row {row} in a tokenizer's batch of {len(rows)}")
    return rows[row]


def _groups(pieces: Sequence[str]) -> list[list[int]]:
    starts = any(piece[:1] in STARTS for piece in pieces)
    groups: list[list[int]] = []
    apart = True  # whether the next piece begins a word
    for i, piece in enumerate(pieces):
        special = bool(SPECIAL.fullmatch(piece))
        goes_on = piece.startswith("##") or (starts and piece[:1] not in STARTS)
        goes_on = (goes_on and not apart) or (bool(groups) and pieces[i - 1].endswith("@@"))
        mark = is_marks(_bare(piece))
        if goes_on and not special and not mark:
            groups[-1].append(i)
        else:
            groups.append([i])
        apart = special or mark
    return groups


def _bare(piece: str) -> str:
    if piece.startswith("##") and len(piece) > 2:
        return piece[2:]
    if piece[:1] in STARTS and len(piece) > 1:
        return piece[1:]
    return piece[:-2] if piece.endswith("@@") and len(piece) > 2 else piece
