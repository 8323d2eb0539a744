"""The kinds of vocabularies: how each cuts a text, and how the `tokenizers` library learns it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.runtime.special_ids import UNK

__all__ = [
    "FIRST",
    "KINDS",
    "SEAM",
    "SEGMENTED",
    "SPACE",
    "SPECIALS",
    "VocabularyKind",
    "normalizer",
    "pieces_of",
]


SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""Ids 0 to 3 of every vocabulary, in the order of `protocols.PAD, BOS, EOS, UNK`."""

SPACE = "▁"

# Any white space but a single blank becomes one.
_SPACES = normalizers.Replace(Regex(r"\s{2,}|[^\S ]"), " ")

# A digit alone, or a run of one punctuation mark, with the space before it: '▁2', '4', '▁"', '...'
_APART = Regex(r"▁?(?:\p{Nd}|([\p{P}\p{S}&&[^▁]])\1*)")


# What stands alone among words: "U.S.", "1,000.5", "<num>", "</e1>", the n't of "don't", the 's of
# "it's", a mark. A hyphen between letters does not: "well-known" is a word of most vectors.
_TOKENS = Regex(
    r"(?:\p{L}\.){2,}|\d+(?:[.,:]\d+)+|</?\p{L}+\d*>|(?i:n['\u2019]t)(?!\p{L})"
    r"|['\u2019](?i:s|re|ve|ll|d|m)(?!\p{L})|(?!(?<=\p{L})-(?=\p{L}))([\p{P}\p{S}])\1*"
)


# What a sentence puts around a word: "(", and the comma, full stop and quotation marks behind it.
# What is inside a word, as in "GNU/Linux" or "3.11", is the word's own.
_BEFORE = r"""("'\u00ab\u2018\u201c\[{\u00bf\u00a1"""
_BEHIND = r""",.;:!?)"'\u00bb\u2019\u201d\u2026\]}"""
_OPENING = Regex(rf"^▁?[{_BEFORE}](?=.)")
_CLOSING = Regex(rf"(?<=[^▁])[{_BEHIND}](?=[{_BEHIND}]*$)")


# Where a segmenter found the border of a word; the second at the beginning of a text, where the
# library puts a '▁' that no blank stands for. Neither is a character of any text.
SEAM, FIRST = "\ufdd0", "\ufdd1"
_SEAMS = Regex(f"^▁?{FIRST}|{SEAM}")


class VocabularyKind(NamedTuple):
    """What a kind is made of, in the library's parts."""

    model: Callable[[], Any]
    trainer: Callable[..., Any]
    pieces: Callable[[], Any]
    decoder: Callable[[], Any]
    settle: Callable[[Any], Any]  # what is done to the vocabulary as the library learned it
    joint: str  # what stands between two tokens when they are put together again


def _apart() -> list[Any]:
    return [pre_tokenizers.Split(_APART, "isolated")]


def _subwords() -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Metaspace(SPACE, "always"), *_apart()])


def _letters() -> Any:
    letter = pre_tokenizers.Split(Regex("."), "isolated")
    return pre_tokenizers.Sequence([pre_tokenizers.Metaspace(SPACE, "never"), letter])


def _punctuated() -> Any:
    split = pre_tokenizers.Split(_TOKENS, "isolated")
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])


def _around() -> list[Any]:
    return [pre_tokenizers.Split(one, "isolated") for one in (_OPENING, _CLOSING)]


def _spaces_kept() -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Metaspace(SPACE, "always"), *_around()])


def _bpe(size: int) -> Any:
    return trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(SPECIALS), show_progress=False
    )


def _unigram(size: int) -> Any:
    return trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        unk_token=SPECIALS[UNK],
        show_progress=False,
    )


def _listed(size: int) -> Any:
    return trainers.WordLevelTrainer(
        vocab_size=size, special_tokens=list(SPECIALS), show_progress=False
    )


def _word_level() -> Any:
    return models.WordLevel(vocab={SPECIALS[UNK]: 0}, unk_token=SPECIALS[UNK])


def _merges() -> Any:
    return models.BPE(unk_token=SPECIALS[UNK], fuse_unk=True)


def _fused() -> Any:
    return decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse()])


def _spaced() -> Any:
    return decoders.Metaspace(SPACE, "always")


def _plain() -> Any:
    return None


def _renumbered(ids: dict[str, int]) -> dict[str, int]:
    """Ids without holes: a word of the text that looks like a special token has none of its own."""
    names = sorted(ids, key=ids.__getitem__)
    listed = [*SPECIALS, *(name for name in names if name not in SPECIALS)]
    return {name: i for i, name in enumerate(listed)}


def _settled(pieces: list[list[Any]]) -> list[list[Any]]:
    """Unigram pieces in an order, and with scores, that are the same in every training.

    The library sums in an order that changes from run to run, and puts letters that got no score of
    their own 0.0001 apart in a random order above the lowest. Here scores are rounded, and those
    letters all have the lowest.
    """
    specials, learned = pieces[: len(SPECIALS)], pieces[len(SPECIALS) :]
    lowest = min((score for _, score in learned), default=0.0)
    letters = sum(len(piece) == 1 for piece, _ in learned)
    top = lowest + 1e-4 * letters
    even = [[p, lowest if len(p) == 1 and s <= top else s] for p, s in learned]
    rounded = [[p, round(s, 6)] for p, s in even]
    return [*specials, *sorted(rounded, key=lambda piece: (-piece[1], piece[0]))]


_whitespace = pre_tokenizers.WhitespaceSplit

KINDS: dict[str, VocabularyKind] = {
    "bpe": VocabularyKind(_merges, _bpe, _subwords, _spaced, lambda learned: learned, ""),
    "unigram": VocabularyKind(models.Unigram, _unigram, _subwords, _spaced, _settled, ""),
    "words": VocabularyKind(_word_level, _listed, _whitespace, _plain, _renumbered, " "),
    "shapes": VocabularyKind(_word_level, _listed, _whitespace, _plain, _renumbered, " "),
    "wordpunct": VocabularyKind(_word_level, _listed, _punctuated, _plain, _renumbered, " "),
    "spaced": VocabularyKind(_word_level, _listed, _spaces_kept, _fused, _renumbered, ""),
    "segmented": VocabularyKind(_word_level, _listed, _spaces_kept, _fused, _renumbered, ""),
    "characters": VocabularyKind(_word_level, _listed, _letters, _fused, _renumbered, ""),
}
"""What a recipe may name as `tokenizer.kind`."""


SEGMENTED: dict[str, Callable[[], list[Any]]] = {
    "segmented": _around,
    "bpe": _apart,
    "unigram": _apart,
}
"""Kinds whose texts a segmenter may cut into words, and how words are cut after that."""


def pieces_of(kind: str, *, segmented: bool) -> Any:
    """How a kind cuts texts, at the borders (`SEAM`) that a segmenter found where there is one."""
    if not segmented:
        return KINDS[kind].pieces()
    seams = pre_tokenizers.Split(_SEAMS, "removed")
    steps = [pre_tokenizers.Metaspace(SPACE, "always"), seams, *SEGMENTED[kind]()]
    return pre_tokenizers.Sequence(steps)


# Full-width digits and letters are those of ASCII; what has no width is dropped.
_WIDE = [*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)]
_DROPPED = Regex("[\u00ad\u200b\u2060\ufeff]")


def normalizer(lowercase: bool, fold: bool = False) -> Any:
    """What is done to a text before it is cut: NFC, single spaces, small letters where asked.

    Args:
        lowercase: letters are made small.
        fold: soft hyphens, zero-width spaces, word joiners and byte-order marks are dropped, and
            full-width letters and digits become plain ones: a part of SentencePiece's rules, which
            also change punctuation that Chinese is written with.
    """
    steps = [normalizers.NFC(), _SPACES, normalizers.Strip()]
    if fold:
        wide = [normalizers.Replace(chr(c), chr(c - 0xFEE0)) for c in _WIDE]
        steps = [normalizers.Replace(_DROPPED, ""), *wide, *steps]
    if lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)
