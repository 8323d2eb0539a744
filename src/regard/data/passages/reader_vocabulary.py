"""Ids of the words of a document and its query, where unknown words keep apart."""

from collections.abc import Sequence

from regard.data.text.tokenizer import Tokenizer
from regard.runtime.special_ids import UNK

__all__ = ["ReaderVocabulary"]


class ReaderVocabulary:
    """From words to ids, where unknown words keep apart within their document.

    The vocabulary's ids come first. A word that is not in it is number k of the unknown words of
    its document and query, in the order of their appearance, and gets id `len(vocabulary) + k`
    (from `anonymous` on again from 0): what stands twice is seen to be the same, and the reader
    learns what place such a word has, not which it is.

    Args:
        tokenizer: of the kind `words`.
        anonymous: how many ids there are for unknown words.
    """

    def __init__(self, tokenizer: Tokenizer, anonymous: int) -> None:
        self.known = {word: i for i, word in enumerate(tokenizer.vocabulary) if i > UNK}
        self.lowercase, self.anonymous = tokenizer.lowercase, anonymous
        self.size = len(tokenizer)

    def ids(self, document: Sequence[str], query: Sequence[str]) -> tuple[list[int], list[int]]:
        """Of a document's and its query's words."""
        words = [*document, *query]
        if self.lowercase:
            words = [word.lower() for word in words]
        found = list(map(self.known.get, words))
        unknown: dict[str, int] = {}
        ids = [
            self.size + unknown.setdefault(word, len(unknown)) % self.anonymous if i is None else i
            for i, word in zip(found, words, strict=True)
        ]
        return ids[: len(document)], ids[len(document) :]
