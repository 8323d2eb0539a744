"""Text: a sentence, a word or a document, in subwords, words or characters."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.data.text.normal_form import Composed, composed_all
from regard.data.text.segmented import chosen_kind
from regard.data.text.sentence_splitters import SPLITTERS, sentences_of
from regard.data.text.tokenizer import SPACE, SPECIALS, Encoding, Tokenizer
from regard.data.text.vocabulary_growth import frequent, grown, longest_pieces
from regard.encoders.kept import StateRows
from regard.errors import RequestError, nearest
from regard.fields.base import Bad, Field, Report
from regard.fields.contextual import EncoderStates
from regard.fields.pretrained import Pretrained
from regard.fields.sentence_columns import DocumentColumn
from regard.fields.text_column import TextColumn
from regard.protocols import UNK

__all__ = ["TextColumn", "TextField", "own_texts", "with_vocabularies"]

SUBWORDS = ("bpe", "unigram", "characters")
"""Kinds whose tokens may be parts of words."""
WORDS = ("words", "shapes", "wordpunct", "segmented")
"""Kinds with one token for each word."""


class TextField(Field):
    """A text and its vocabulary.

    Args:
        tokenizer: one of `data.text.tokenizer.KINDS`, or "auto": as `configured` says.
        vocab_size: of the vocabulary.
        lowercase: letters are made small.
        min_count: words that are rarer in the training data are unknown (kinds with words).
        characters: batches have the characters of every word too (kinds with words).
        cased: those characters are as they are written, whatever `lowercase` says (kind `words`).
        sentences: how texts are cut into sentences, a key of `sentence_splitters.SPLITTERS`;
            batches are documents then, (B, S, W). "": a text is one row.
        end: batches have EOS behind each text.
        target, of: see `Field`; a text `of` another one has its vocabulary.
    """

    kind: ClassVar[str] = "text"
    prefix: ClassVar[str] = "tokenizer"

    def __init__(
        self,
        tokenizer: str = "bpe",
        vocab_size: int = 8000,
        *,
        lowercase: bool = False,
        min_count: int = 1,
        characters: bool = False,
        cased: bool = False,
        sentences: str = "",
        end: bool = True,
        target: bool = False,
        of: str | None = None,
    ) -> None:
        super().__init__(target=target, of=of)
        if sentences and sentences not in SPLITTERS:
            raise RequestError(f"sentences: {sentences!r}: {nearest(sentences, SPLITTERS)}")
        if characters and tokenizer not in WORDS:
            raise RequestError(
                f"characters: they are of words; expected a tokenizer of words, got {tokenizer!r}"
            )
        self.settings: dict[str, Any] = {
            "kind": tokenizer,
            "vocab_size": vocab_size,
            "lowercase": lowercase,
            "segmenter": None,
            "fold": False,
        }
        self.usual = "bpe" if tokenizer == "auto" else tokenizer
        self.min_count, self.characters, self.end = min_count, characters, end
        if cased and tokenizer != "words":
            raise RequestError(
                f"cased: it is of words divided by blanks; expected kind 'words', got {tokenizer!r}"
            )
        self.sentences, self.cased = sentences, cased
        self.pretrained: Pretrained | None = None
        """The word vectors that a model is to start from."""
        self.contextual: EncoderStates | None = None
        """The encoder whose states a model reads beside words."""
        self._tokenizer: Tokenizer | None = None
        self._letters: dict[str, int] = {}

    @classmethod
    def with_tokenizer(cls, tokenizer: Tokenizer, **settings: Any) -> "TextField":
        """A text whose vocabulary is known."""
        made = cls(tokenizer.kind, len(tokenizer), **settings)
        made._tokenizer = tokenizer
        return made

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts texts into tokens.

        Raises:
            RequestError: nothing was learned yet.
        """
        if self._tokenizer is None:
            raise RequestError("the vocabulary of a text is not known before it was learned")
        return self._tokenizer

    def configured(self, settings: Mapping[str, Any]) -> "TextField":
        """With other settings of the tokenizer.

        Kind "auto" is this field's own where texts are written with blanks, and where they are not
        "segmented" in the place of words: that is decided where the vocabulary is learned.

        Args:
            settings: `kind`, `vocab_size`, `lowercase`, `min_count`, `segmenter`, `fold`.
        """
        made = copy(self)
        known = {key: value for key, value in settings.items() if key in self.settings}
        made.settings = {**self.settings, **known}
        if made.settings["kind"] == "auto" != self.settings["kind"]:
            made.usual = self.settings["kind"]
        made.min_count = settings.get("min_count", self.min_count)
        return made

    def starting_from(self, pretrained: Pretrained | None) -> "TextField":
        """With word vectors that a model is to start from.

        Raises:
            RequestError: its tokens are no words.
        """
        if pretrained is not None and (kind := self._kind) not in WORDS:
            raise RequestError(
                f"data.vectors: they are of words; expected a tokenizer of words, got {kind!r}"
            )
        made = copy(self)
        made.pretrained = pretrained
        return made

    def trained_from(self, pretrained: Pretrained) -> "TextField":
        """With the vectors of the words that it knows: its vocabulary stays.

        Raises:
            RequestError: see `starting_from` and `Pretrained.read`.
        """
        vectors = replace(pretrained, most=0).read(self.tokenizer.vocabulary)
        return self.starting_from(vectors)

    def in_context(self, contextual: EncoderStates | None) -> "TextField":
        """With the states of an encoder beside words.

        Raises:
            RequestError: texts are cut into sentences.
        """
        if contextual is not None and self.sentences:
            raise RequestError(
                "data.vectors.encoder: an encoder reads texts whole, and task.sentences cuts them "
                "into sentences: leave out one of the two"
            )
        made = copy(self)
        made.contextual = contextual
        return made

    def states(self, values: Sequence[Any]) -> StateRows | None:
        """The states of the tokens of all texts, where there is an encoder."""
        if self.contextual is None:
            return None
        read = [self.to_encoder(value) for value in values]
        return self.contextual.rows([text for text, _ in read], [places for _, places in read])

    def to_encoder(self, value: Any) -> tuple[str, NDArray[np.int64]]:
        """(the text that an encoder reads, in NFC, where each token is in it (tokens, 2))."""
        text = Composed(self.written(value))
        spans = [(text.from_raw(a), text.from_raw(b)) for a, b in self.cut(text.raw).offsets]
        return text.text, np.array(spans, np.int64).reshape(-1, 2)

    # -- the field

    @property
    def may_be_empty(self) -> bool:
        """A text to write may be none: of silence, nothing is right."""
        return self.target and self.end and not self.sentences

    @property
    def lists(self) -> bool:
        """A list has words."""
        return self._kind == "words"

    @property
    def _kind(self) -> str:
        return str(self.settings["kind"] if self._tokenizer is None else self._tokenizer.kind)

    def read(self, cell: str, row: Mapping[str, Any]) -> str:
        """The text without white space at its ends."""
        text = cell.strip()
        if not text:
            raise Bad("empty")
        return text

    def learn(self, values: Sequence[Any]) -> "TextField":
        """With a vocabulary of these texts."""
        texts = [self.written(value) for value in values]
        made = copy(self)
        if self.settings["kind"] == "auto":
            made.settings = {**self.settings, "kind": chosen_kind(self.usual, texts)}
        if made.settings["kind"] == "segmented":
            made._tokenizer = frequent(
                Tokenizer.train(texts, **made.settings), texts, self.min_count
            )
        else:
            common = made._common(texts) if self.min_count > 1 else texts
            made._tokenizer = Tokenizer.train(common, **made.settings)
        if self.pretrained is not None:  # its frequent words are known though training lacks them
            learned = made._tokenizer.vocabulary[len(SPECIALS) :]
            made.pretrained = self.pretrained.read(learned)
            every = [*dict.fromkeys([*learned, *made.pretrained.words])]
            made._tokenizer = made._tokenizer.with_vocabulary(every)
        if self.characters:
            letters = sorted(set(chain.from_iterable(composed_all(texts))) - set(" \n"))
            made._letters = {letter: i for i, letter in enumerate(letters, UNK + 1)}
        return made

    def grown(self, values: Sequence[Any]) -> "TextField":
        """The vocabulary of `before`, and behind it what is new and frequent in these texts.

        It cuts texts as `before` does; of the tokenizer's settings `vocab_size` (different tokens
        that these texts may use) and `min_count` hold.
        """
        old = self.before
        assert isinstance(old, TextField)
        if not self.extends:
            return self.sharing(old)
        if self.pretrained is not None:
            raise RequestError(
                "data.vectors: vectors are for words that a model does not know; expected none "
                "where train.vocabulary is 'extend'"
            )
        texts = [self.written(value) for value in values]
        made = self.sharing(old)
        size = self.settings["vocab_size"]
        made._tokenizer = grown(old.tokenizer, texts, size, self.min_count)
        if self.characters:
            there = set(chain.from_iterable(composed_all(texts))) - set(" \n")
            new = sorted(there - old._letters.keys())
            letters = enumerate([*old._letters, *new], UNK + 1)
            made._letters = {letter: i for i, letter in letters}
        return made

    def rows(self) -> Mapping[str, Sequence[str]]:
        """A row for each token, as it is written with '▁' for a space, and for each character."""
        if not self.learned:
            return {}
        spelled = (text.replace(" ", SPACE) for text in self.tokenizer.spelled())
        names = [
            text or name for text, name in zip(spelled, self.tokenizer.vocabulary, strict=True)
        ]
        found: dict[str, Sequence[str]] = {"vocab_size": names}
        return {**found, "num_characters": [*SPECIALS, *self._letters]} if self._letters else found

    def pieces(self, names: Sequence[str]) -> list[Sequence[str]]:
        """The longest tokens of this vocabulary, from the left, that each new one is written with.

        None where tokens are words, or where a letter is unknown.
        """
        if self.tokenizer.kind not in SUBWORDS:
            return [()] * len(names)
        known = set(self.rows()["vocab_size"][len(SPECIALS) :])
        longest = max(map(len, known), default=0)
        return [longest_pieces(name, known, longest) for name in names]

    def sharing(self, other: "TextField") -> "TextField":
        """With the vocabulary of another text."""
        made = copy(self)
        made._tokenizer, made._letters = other._tokenizer, other._letters
        made.pretrained = other.pretrained
        return made

    @property
    def learned(self) -> bool:
        """Whether it has a vocabulary."""
        return self._tokenizer is not None

    def arguments(self) -> dict[str, int]:
        """`vocab_size`, and `num_characters` where words come with their characters."""
        found = {"vocab_size": len(self.tokenizer)}
        return {**found, "num_characters": UNK + 1 + len(self._letters)} if self._letters else found

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> TextColumn | DocumentColumn:
        """The ids of all texts."""
        texts = [self.written(value) for value in values]
        if self.sentences:
            documents = [sentences_of(text, self.sentences) for text in texts]
            return DocumentColumn.of(documents, self.tokenizer.encode_all)
        ids = self.tokenizer.encode_all(texts)
        letters = None
        if self.characters:
            cut = str.split if self.cased else self.tokenizer.words_of
            words = [word for text in composed_all(texts) for word in cut(text)]
            letters = RaggedIds.rows([[self._letters.get(c, UNK) for c in word] for word in words])
        return TextColumn(ids, end=self.end, letters=letters, states=self.states(values))

    def cut(self, text: str) -> Encoding:
        """One text in tokens, with the place of each in it."""
        return self.tokenizer.encode(text)

    def decode(self, value: Any) -> str:
        """The text of some ids."""
        return self.tokenizer.decode(value)

    # -- saving: the file of a text is its tokenizer's

    def dump(self) -> str:
        """The tokenizer as JSON, with the letters where words come with them."""
        text = self.tokenizer.to_json()
        if not self._letters:
            return text
        return json.dumps({"tokenizer": json.loads(text), "letters": list(self._letters)})

    def load(self, text: str, file: str) -> "TextField":
        """With the vocabulary of its file."""
        made = copy(self)
        try:
            if self.characters:
                state = json.loads(text)
                letters = state["letters"]
                made._letters = {letter: i for i, letter in enumerate(letters, UNK + 1)}
                text = json.dumps(state["tokenizer"])
            made._tokenizer = Tokenizer.from_json(text)
            made._tokenizer.encode("a \uffff")  # what lacks a part says so at its first use
        except RequestError:
            raise
        except Exception as error:  # the Rust library raises bare Exception
            said = " ".join(str(error).split())
            raise RequestError(f"{file} is not a tokenizer of regard: {said}") from error
        return made

    def _common(self, texts: Sequence[str]) -> list[str]:
        """The words that are frequent enough, each as often as it is there."""
        plain = Tokenizer.train([], **self.settings)  # cuts as the learned one will
        words = [plain.words_of(text) for text in texts]
        counts = Counter(chain.from_iterable(words))
        kept = {word for word, count in counts.items() if count >= self.min_count}
        if not kept:
            raise RequestError(f"no word of the training texts occurs {self.min_count} times")
        return [" ".join(word for word in own if word in kept) for own in words]


def own_texts(fields: Mapping[str, Field]) -> dict[str, TextField]:
    """The texts among some fields that have a vocabulary of their own."""
    return {n: f for n, f in fields.items() if isinstance(f, TextField) and f.of is None}


def with_vocabularies(fields: Mapping[str, Field]) -> dict[str, Field]:
    """The fields, where a text `of` another one has its vocabulary."""
    found = dict(fields)
    for name, own in fields.items():
        if isinstance(own, TextField) and own.of is not None:
            first = found[own.of]
            assert isinstance(first, TextField)
            found[name] = own.sharing(first)
    return found
