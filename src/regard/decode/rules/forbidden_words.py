"""Rules for what may come next, given what a hypothesis has written so far.

Each rule changes the scores of some next tokens; all look at one tensor, `read`, the tokens of
every hypothesis. No rule touches EOS, so that a hypothesis can always end.

    no_repeat_ngram n     no n-gram of this length is repeated             Paulus et al. 2018, 2.5
    repetition_penalty θ  log p(y) * θ for every y that was written before Keskar et al. 2019, 4.1
    Avoid                 no forbidden word or phrase is completed, however it is cut in tokens
"""

import math
from collections.abc import Callable, Sequence

import regex
from torch import Tensor

from regard.data.text.words import is_word_character

__all__ = ["Avoid", "Phrases", "Rule"]

Phrases = Sequence[Sequence[Sequence[int]]]
"""For each sentence its phrases, each a list of ids."""

Rule = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(scores (n, width, V), read (n, width, t), the sentences (n,) in the batch) -> scores."""


class Avoid:
    """No sentence writes any of its phrases, however the tokens cut them.

    A token is impossible where it completes a phrase in the text so far, unless it goes on with a
    letter or digit right behind it: " buttons" is another word than " button".

    Args:
        phrases: for each sentence, texts as `spelled` would write them, word boundaries included.
        spelled: what every id adds to the text; special ones nothing.
        own: for each sentence what the ids behind those add, where it has words of its own.
    """

    def __init__(
        self,
        phrases: Sequence[Sequence[str]],
        spelled: Sequence[str],
        own: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.phrases, self.spelled = phrases, spelled
        self.own = own if own is not None else [()] * len(phrases)
        self._ends: dict[str, list[int]] = {}
        self._whole: dict[str, list[int]] = {}

    def __call__(self, scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        """A rule: scores with -inf where a phrase would be complete."""
        scores = scores.clone()
        for row, sentence in enumerate(rows.tolist()):
            own = self.phrases[sentence]
            if not own:
                continue
            longest, words, known = max(map(len, own)), self.own[sentence], len(self.spelled)
            for slot, ids in enumerate(read[row, :, -longest:].tolist()):
                pieces = [self.spelled[i] if i < known else words[i - known] for i in ids]
                text = " " + "".join(pieces)  # a text begins like a word
                banned = [i for phrase in own for i in self._completing(phrase, text)]
                banned += [
                    i
                    for i, word in enumerate(words, known)
                    if any(_completes(phrase, text, word) for phrase in own)
                ]
                scores[row, slot, banned] = -math.inf
        return scores

    def _completing(self, phrase: str, text: str) -> list[int]:
        """The ids that complete a phrase behind `text`, or have all of it inside."""
        found = list(self._having(phrase))
        for begun in range(len(phrase)):
            if text.endswith(phrase[:begun]):
                found += self._beginning(phrase[begun:])
        return found

    def _beginning(self, rest: str) -> list[int]:
        """The ids that write the rest of a phrase and end its last word."""
        if rest not in self._ends:
            self._ends[rest] = [i for i, piece in enumerate(self.spelled) if _ends(rest, piece)]
        return self._ends[rest]

    def _having(self, phrase: str) -> list[int]:
        """The ids that have all of a phrase behind their first character."""
        if phrase not in self._whole:
            whole = _inside(phrase)
            self._whole[phrase] = [i for i, p in enumerate(self.spelled) if whole.match(p)]
        return self._whole[phrase]


def _ends(rest: str, piece: str) -> bool:
    """Whether a piece writes the rest of a phrase and ends its last word."""
    return piece.startswith(rest) and not is_word_character(piece[len(rest) : len(rest) + 1])


def _inside(phrase: str) -> regex.Pattern[str]:
    """What matches a piece that has all of a phrase behind its first character."""
    return regex.compile(rf"(?s).+{regex.escape(phrase)}(?![\w\p{{M}}])")


def _completes(phrase: str, text: str, piece: str) -> bool:
    """Whether a piece behind `text` completes a phrase, or has all of it inside."""
    begun = (n for n in range(len(phrase)) if text.endswith(phrase[:n]))
    return bool(_inside(phrase).match(piece)) or any(_ends(phrase[n:], piece) for n in begun)
