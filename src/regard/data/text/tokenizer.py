"""Text to ids and back: byte-pair, unigram, word and character vocabularies with offsets kept.

Of kind "shapes" are words whose rare and unknown ones are read as what they look like (`shapes`);
of kind "wordpunct" words with punctuation and endings as n't and 's apart, as word vectors have it.
Of kind "spaced" are words with the punctuation around them apart, and '▁' where a space was: a text
is written out again as it was read, names and versions ("GNU/Linux", "3.11") in one piece.
Of kind "segmented" are the same, but where a script has no blanks words are those that a segmenter
finds (`data.text.segmenters`); subwords may be learned within such words, too.

Subword kinds mark the start of a word with '▁', and keep punctuation and digits apart from letters,
so that `decode(encode(text)) == text` for every text with single spaces whose characters were seen.
"""

import json
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from regard.data.ragged import RaggedIds
from regard.data.text.normal_form import Composed, composed
from regard.data.text.segmented import Seams, own_part, seamed, word_of_pieces
from regard.data.text.segmenters import Segmenter, units, written_with_blanks
from regard.data.text.vocabulary_kinds import (
    KINDS,
    SEGMENTED,
    SPACE,
    SPECIALS,
    normalizer,
    pieces_of,
)
from regard.data.text.word_shapes import is_shape, shape, with_shapes
from regard.errors import RequestError, nearest
from regard.runtime.special_ids import EOS, UNK
from regard.settings.old_names import TOKENIZER, renaming

__all__ = [
    "KINDS",
    "SPACE",
    "SPECIALS",
    "Encoding",
    "Tokenizer",
    "joined",
    "word_groups",
]

# Where Python's white space and the library's differ, or '▁' is in the text itself.
_ODD = re.compile("[▁\x1c-\x1f]")

OWN = "regard"
"""The key of a `tokenizer.json` for what the library does not do."""


@dataclass(frozen=True)
class Encoding:
    """A text in pieces, without BOS and EOS.

    Args:
        offsets: start and end of each piece in `text`, in characters; '▁' covers the space before.
        words: index of the word of each piece: of those `Tokenizer.units` gives, the last in it.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    words: list[int]
    text: str

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """A trained vocabulary. Made by `train`, `load` or `from_json`; copies and pickles.

    The text is brought to NFC, runs of white space become one space (none at the ends), letters
    become small where `lowercase` was asked. Ids 0 to 3 are padding, start, end and unknown; no
    text can produce the first three (a word "</s>" is an unknown one).

    Example:
        >>> tokenizer = Tokenizer.train(["ein Haus", "ein Hund"], kind="characters")
        >>> tokenizer.decode(tokenizer.encode("Haus ein").ids)
        'Haus ein'
    """

    def __init__(self, inner: tokenizers.Tokenizer, segmenter: Segmenter | None = None) -> None:
        self._inner, self.segmenter = inner, segmenter
        layout = json.loads(inner.to_str())
        self.kind = _kind_of(layout)
        self.lowercase = "Lowercase" in json.dumps(layout["normalizer"])
        vocabulary = inner.get_vocab(with_added_tokens=False)
        self.vocabulary: list[str] = sorted(vocabulary, key=vocabulary.__getitem__)
        """Every token, at the place of its id."""
        self._shapes: dict[str, int] = {}
        if self.kind == "words":  # a vocabulary with shapes is told by having some
            self._shapes = {name: i for name, i in vocabulary.items() if is_shape(name)}
            self.kind = "shapes" if self._shapes else "words"

    @classmethod
    @renaming(TOKENIZER)
    def train(
        cls,
        texts: Iterable[str],
        kind: str = "bpe",
        vocab_size: int = 8000,
        lowercase: bool = False,
        segmenter: str | Segmenter | None = None,
        fold: bool = False,
    ) -> "Tokenizer":
        """Learn a vocabulary of at most `vocab_size` tokens (specials among them) from texts.

        Args:
            texts: read once.
            kind: one of `KINDS`.
            vocab_size, lowercase: see the class.
            fold: what has no width is dropped, see `vocabulary_kinds.normalizer`.
            segmenter: what finds words where blanks are not written: "auto" (by the scripts of the
                texts), "letters", or names of `segmenters.SEGMENTERS`, "rjieba, pythainlp". Kind
                "segmented" has "auto" where nothing is said, other kinds have none.

        Raises:
            RequestError: an unknown kind, a size without room for anything but the specials, or a
                segmenter that is not installed.
        """
        if kind not in KINDS:
            raise RequestError(f"unknown tokenizer kind {kind!r}: {nearest(kind, KINDS)}")
        if vocab_size <= len(SPECIALS):
            least = len(SPECIALS)
            raise RequestError(
                f"tokenizer.vocab_size is {vocab_size}; it must be above {least} (specials)"
            )
        parts = KINDS[kind]
        own, texts = own_part(kind, segmenter, texts)
        inner = tokenizers.Tokenizer(parts.model())
        inner.normalizer = normalizer(lowercase, fold)
        inner.pre_tokenizer = pieces_of(kind, segmented=own is not None)
        if decoder := parts.decoder():
            inner.decoder = decoder
        if kind == "shapes":
            texts = with_shapes(texts, lowercase=lowercase)
        if own is not None:
            texts = (seamed(composed(text), own).text for text in texts)
        inner.train_from_iterator(texts, parts.trainer(vocab_size))
        layout = json.loads(inner.to_str())
        # An 'added' token would be found inside a text: '</s>' in somebody's HTML must stay text.
        layout["added_tokens"] = []
        layout["model"]["vocab"] = parts.settle(layout["model"]["vocab"])
        return cls.from_json(json.dumps(_with_names(layout, own), ensure_ascii=False))

    def encode(self, text: str) -> Encoding:
        """Cut a text into pieces, without BOS and EOS."""
        form = Composed(text)  # the library's places leave out the marks that it composes
        seams = self._seamed(form.text)
        raw = self._inner.encode(seams.text, add_special_tokens=False)
        places = seams.to_plain(raw.offsets)
        ids = [
            i if i > UNK else self._unknown(form.text[start:end])
            for i, (start, end) in zip(raw.ids, places, strict=True)
        ]
        if self.kind == "characters":
            words = list(range(len(ids)))
        else:
            words = word_of_pieces(form.text, places, self._divider)
        offsets = [form.to_raw(*place) for place in places]
        return Encoding(ids, raw.tokens, offsets, words, text)

    def units(self, text: str) -> list[tuple[int, int]]:
        """Where the words of a text stand that links and axes count, whatever the pieces are.

        Blanks divide them; where a script has none, words are those of the tokenizer's segmenter,
        and of subwords without one letters with their marks, but where blanks divided the words of
        the texts they were learned from. Of kind "characters" each letter is one.
        """
        if self.kind == "characters":
            return list(self.encode(text).offsets)
        form = Composed(text)
        return [form.to_raw(*place) for place in units(form.text, self._divider)]

    @cached_property
    def _divider(self) -> Segmenter | None:
        """What divides texts into units; None where blanks do."""
        if self.segmenter is not None:
            return replace(self.segmenter, for_display=True)
        blanks = self.kind not in SEGMENTED or written_with_blanks(self.vocabulary, SPACE)
        return None if blanks else Segmenter()

    def encode_all(self, texts: Sequence[str], at_once: int = 1 << 18) -> RaggedIds:
        """The ids of many texts, packed: the fast way to read a corpus.

        Pieces never cross white space, so that each different word is cut only once.

        Args:
            texts: as for `encode`.
            at_once: texts worked on together; more of them share more words and need more memory.
        """
        parts = [
            self._encode_some(texts[start : start + at_once])
            for start in range(0, max(len(texts), 1), at_once)
        ]
        return parts[0] if len(parts) == 1 else RaggedIds.join(parts)

    def _encode_some(self, texts: Sequence[str]) -> RaggedIds:
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__  # a new word gets the next number
        index, counts = array("l"), array("l")
        for text in texts:
            words = [text] if self._is_whole(text) else text.split()
            index.extend(map(numbers.__getitem__, words))
            counts.append(len(words))
        distinct = self._distinct(list(numbers))
        pieces = RaggedIds.rows(distinct).take(np.asarray(index, np.int64))  # a row for each word
        ends = np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))]).astype(np.int64)
        return RaggedIds(np.maximum(pieces.flat, np.int32(UNK)), pieces.starts[ends])

    def _distinct(self, texts: list[str]) -> list[list[int]]:
        if self._shapes:  # unknown words are wanted, and the fast way does not say where they are
            return [self.encode(text).ids for text in texts]
        if self.segmenter is not None:
            texts = [self._seamed(composed(text)).text for text in texts]
        return [e.ids for e in self._inner.encode_batch_fast(texts, add_special_tokens=False)]

    def _is_whole(self, text: str) -> bool:
        """Whether a text is cut as a whole: its words are not cut as they would be alone."""
        told = self.kind == "characters" or self.segmenter is not None
        return told or _ODD.search(text) is not None

    def _seamed(self, text: str) -> Seams:
        return Seams(text) if self.segmenter is None else seamed(text, self.segmenter)

    def _unknown(self, word: str) -> int:
        """The id of what is in no vocabulary: that of its shape where there are shapes."""
        if not self._shapes:
            return UNK
        own = shape(word)
        return self._shapes.get(own) or self._shapes.get(own.partition(":")[0] + ":", UNK)

    def with_vocabulary(self, words: Sequence[str]) -> "Tokenizer":
        """The same way of cutting, with these words as ids from 4 on (kinds with words)."""
        layout = json.loads(self.to_json())
        layout["model"]["vocab"] = {word: i for i, word in enumerate([*SPECIALS, *words])}
        return type(self).from_json(json.dumps(layout, ensure_ascii=False))

    def words_of(self, text: str) -> list[str]:
        """The tokens of a text as they are written in the vocabulary, unknown ones too."""
        normal = self._inner.normalizer.normalize_str(self._seamed(composed(text)).text)
        return [token for token, _ in self._inner.pre_tokenizer.pre_tokenize_str(normal)]

    def words_of_all(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """What `words_of` gives of many texts; each different word is cut only once."""
        known: dict[str, list[str]] = {}
        for text in texts:
            if self._is_whole(text):
                yield self.words_of(text)
                continue
            words = text.split()
            for word in words:
                if word not in known:
                    known[word] = self.words_of(word)
            yield [name for word in words for name in known[word]]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids: stops at the first EOS and leaves special tokens out."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i > UNK:
                tokens.append(self.vocabulary[i])
        return joined(tokens, self.kind)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, special ones too."""
        return [self.vocabulary[i] for i in ids]

    def spelled(self) -> list[str]:
        """What every id adds to a text, the space before a word included; special ones nothing."""
        joint = KINDS[self.kind].joint
        return [
            "" if i <= UNK else joint + name.replace(SPACE, " ")
            for i, name in enumerate(self.vocabulary)
        ]

    def words(self, ids: Iterable[int]) -> list[int]:
        """The index of the word each id belongs to, as `Encoding.words` has it for a text."""
        if KINDS[self.kind].joint or self.kind == "characters":
            return list(range(len(list(ids))))
        spelled, text, places = self.spelled(), "", []
        for i in ids:
            told = spelled[i] or "x"  # an unknown token stands for letters
            places.append((len(text), len(text) + len(told)))
            text += told
        return word_of_pieces(text, places, self._divider)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, size={len(self)}, lowercase={self.lowercase})"

    def __reduce__(self) -> tuple[Callable[[str], "Tokenizer"], tuple[str]]:
        return type(self).from_json, (self.to_json(),)

    def to_json(self) -> str:
        """The whole tokenizer as the JSON of the `tokenizers` library (a `tokenizer.json`)."""
        if self.segmenter is None:
            return self._inner.to_str()
        layout = _with_names(json.loads(self._inner.to_str()), self.segmenter)
        return json.dumps(layout, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """The inverse of `to_json`."""
        if f'"{OWN}"' not in text:
            return cls(tokenizers.Tokenizer.from_str(text))
        layout = json.loads(text)
        names = layout.pop(OWN, {}).get("segmenter", [])
        inner = tokenizers.Tokenizer.from_str(json.dumps(layout, ensure_ascii=False))
        return cls(inner, Segmenter.from_names(names))

    def without_segmenter(self) -> "Tokenizer":
        """The same for texts whose words have blanks between them, as other programs cut them."""
        return type(self)(self._inner)

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json`."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `tokenizer.json` that `save` wrote.

        Raises:
            RequestError: the file is not there or is not such a tokenizer.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RequestError(f"there is no tokenizer at {path}") from None
        except RequestError:
            raise
        except Exception as error:  # the Rust library raises bare Exception
            raise RequestError(f"{path} is not a tokenizer of regard: {error}") from error


def joined(tokens: Iterable[str], kind: str) -> str:
    """The text of some tokens of a kind, as they are in a vocabulary."""
    joint = KINDS[kind].joint
    return joint.join(tokens) if joint else "".join(tokens).replace(SPACE, " ").strip(" ")


def word_groups(words: Sequence[int]) -> list[list[int]]:
    """The positions of the pieces of each word, in order: `[0, 0, 1]` gives `[[0, 1], [2]]`."""
    groups: list[list[int]] = []
    for i, word in enumerate(words):
        if i and words[i - 1] == word:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _with_names(layout: dict[str, Any], segmenter: Segmenter | None) -> dict[str, Any]:
    """With the names of what cuts texts: a key that the library refuses, which cannot do that."""
    return layout if segmenter is None else {OWN: {"segmenter": segmenter.names}, **layout}


def _kind_of(layout: dict[str, Any]) -> str:
    """The kind a `tokenizer.json` was made as; told by its model and its way of splitting."""
    model = str(layout["model"]["type"])
    pieces = layout["pre_tokenizer"] or {}
    steps = [str(step["type"]) for step in pieces.get("pretokenizers", [])]
    splitter = " ".join([str(pieces.get("type")), *steps[:1], *steps[2:]])
    known = {
        ("BPE", "Sequence Metaspace"): "bpe",
        ("Unigram", "Sequence Metaspace"): "unigram",
        ("WordLevel", "WhitespaceSplit"): "words",
        ("WordLevel", "Sequence WhitespaceSplit"): "wordpunct",
        ("WordLevel", "Sequence Metaspace Split"): "spaced",
        ("WordLevel", "Sequence Metaspace"): "characters",
        ("BPE", "Sequence Metaspace Split"): "bpe",  # within the words of a segmenter
        ("Unigram", "Sequence Metaspace Split"): "unigram",
        ("WordLevel", "Sequence Metaspace Split Split"): "segmented",
    }
    try:
        return known[model, splitter]
    except KeyError:
        told = f"a {model} tokenizer split by {splitter} is not one of regard"
        raise RequestError(told) from None
