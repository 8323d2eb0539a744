r"""Semantic roles as srl-eval.pl of CoNLL-2005 scores them.

.. math:: P = \frac{right}{right + excess}, R = \frac{right}{right + missed}, F_1 = \frac{2PR}{P+R}

summed over all propositions. An argument is right if its label and all its phrases are. V is not
counted, and has a table of its own. What the program does is kept:

* a phrase `C-X` continues the latest X before it: both are one argument. Without an X before it, it
  is an X itself. So `C-V` behind V is not counted either. `R-X` is a label like any other;
* an argument reaches from the first word of its first phrase to the last word of its last one. Of
  several in one proposition that reach from and to the same words, only the last is looked for;
* of phrases within each other, an outer one counts as made of those directly inside, and of two
  with the same words only the inner one is there;
* a predicate of the references that is not found, or with another lemma, has all its arguments
  missed; one that is found and not in the references is *not* counted, so precision is too high
  where predicates are found too: `predicates="found"` mends that.

Source: Carreras and Màrquez (2005), section 4; the swap for found predicates: He et al. (2017).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.errors import RequestError, nearest
from regard.metrics._tables import Counts, Span, joined_spans, precision, rates, recall, scored
from regard.metrics.score import Score, Sums, same_number, signature

__all__ = ["Proposition", "srl_eval"]

EXCLUDED = ("V",)
PREDICATES = ("gold", "found")


@dataclass(frozen=True)
class Proposition:
    """A predicate and the phrases of its roles, V and C- among them.

    Args:
        phrases: (start, end, label), `end` not included; one inside another stands behind it.
        verb: its lemma; where output and reference differ in it, all arguments are missed.
        position: of its word in the sentence.
    """

    phrases: Sequence[Span]
    verb: str = ""
    position: int = 0

    @classmethod
    def of(cls, tags: Sequence[str], verb: str = "", position: int = 0) -> "Proposition":
        """From BIO tags; an I- tag that continues nothing begins a phrase.

        Example:
            >>> Proposition.of(["B-A0", "B-V", "I-A1"]).phrases
            [(0, 1, 'A0'), (1, 2, 'V'), (2, 3, 'A1')]
        """
        return cls(joined_spans(tags), verb, position)


@dataclass(eq=False)
class _Argument:
    """A phrase with what it is made of: phrases inside it, or pieces that continue it."""

    start: int
    end: int
    label: str
    pieces: list["_Argument"] = field(default_factory=list)


def srl_eval(
    outputs: Sequence[Sequence[Proposition]],
    references: Sequence[Sequence[Proposition]],
    *,
    predicates: str = "gold",
    samples: int = 0,
) -> dict[str, Score]:
    """F1, precision and recall of arguments, and the share of propositions without an error.

    Args:
        outputs: the propositions of each sentence.
        references: likewise.
        predicates: "gold", as the program; "found" takes precision from a run with both sides
            exchanged, so that arguments of predicates that are none count as wrong.
        samples: bootstrap samples of sentences for a 95 % interval in each `parts["interval"]`.

    Returns:
        `f1`, `precision`, `recall`, and `complete`, the program's "Percentage of perfect props".
        The `parts` of each: `right`, `excess`, `missed`, `propositions`, `perfect`, and the tables
        `roles` and `excluded`, label -> counts and rates.

    Raises:
        RequestError: nothing to score, or unequal numbers of sentences.

    Example:
        >>> gold = Proposition.of(["B-A0", "B-V", "B-A1", "I-A1"])
        >>> said = Proposition.of(["B-A0", "B-V", "B-A1", "O"])
        >>> found = srl_eval([[said]], [[gold]])
        >>> found["f1"].value, found["complete"].value, found["f1"].parts["missed"]
        (50.0, 0.0, 1)
    """
    if predicates not in PREDICATES:
        raise RequestError(f"predicates is {predicates!r}: {nearest(predicates, PREDICATES)}")
    same_number(outputs, references)
    counts, roles, excluded = _counted(outputs, references)
    parts = {
        **dict(
            zip(
                ("right", "excess", "missed", "propositions", "perfect"),
                counts.sum(0).tolist(),
                strict=True,
            )
        ),
        "roles": rates(roles),
        "excluded": rates(excluded),
    }
    told = signature(metric="srl-eval", excluded="+".join(EXCLUDED), predicates=predicates)
    # right and missed with both sides exchanged: what is said, right and not
    other = _counted(references, outputs)[0] if predicates == "found" else counts[:, [0, 2, 1]]
    every = np.concatenate([counts, other[:, [0, 2]]], 1).astype(np.float64)
    found = {"f1": _f1, "precision": _precision, "recall": recall, "complete": _complete}
    return {name: scored(name, Sums(every, of), told, parts, samples) for name, of in found.items()}


def _precision(sums: np.ndarray) -> np.ndarray:
    return precision(sums[..., 5:7])


def _f1(sums: np.ndarray) -> np.ndarray:
    both = np.stack([_precision(sums), recall(sums)])
    total = both.sum(0)
    return np.asarray(2 * both.prod(0) / np.where(total == 0, 1, total))


def _complete(sums: np.ndarray) -> np.ndarray:
    return np.asarray(100 * sums[..., 4] / np.where(sums[..., 3] == 0, 1, sums[..., 3]))


def _counted(
    outputs: Sequence[Sequence[Proposition]], references: Sequence[Sequence[Proposition]]
) -> tuple[np.ndarray, Mapping[str, Counts], Mapping[str, Counts]]:
    """(Right, excess, missed, propositions, perfect) of each sentence, and of each label."""
    counts = np.zeros((len(references), 5), np.int64)
    labels: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row, said, right in zip(counts, outputs, references, strict=True):
        there = {one.position: one for one in said}
        for gold in right:
            own = there.get(gold.position)
            phrases = own.phrases if own is not None and own.verb == gold.verb else []
            mine = np.zeros(3, np.int64)
            for kind, found in enumerate(_compared(_arguments(phrases), _arguments(gold.phrases))):
                for argument in found:
                    labels[argument.label][kind] += 1
                    mine[kind] += argument.label not in EXCLUDED
            row[:3] += mine
            row[3:] += (1, not mine[1:].any())
    told = {label: (c[0], c[1], c[2]) for label, c in labels.items()}
    inside = {label: told[label] for label in told if label not in EXCLUDED}
    return counts, inside, {label: told[label] for label in told if label in EXCLUDED}


def _arguments(phrases: Sequence[Span]) -> list[_Argument]:
    """The arguments of a proposition, from left to right, continued ones joined."""
    slots: dict[tuple[int, int], _Argument] = {}
    around: list[_Argument] = []
    for start, end, label in sorted(phrases, key=lambda one: (one[0], -one[1])):
        while around and around[-1].end <= start:
            around.pop()
        argument = _Argument(start, end, label)
        if around:
            if end > around[-1].end:
                raise RequestError(f"expected phrases within each other or apart, got {phrases}")
            around[-1].pieces.append(argument)
        around.append(argument)
        slots[start, end] = argument  # of two with the same words the inner one stays
    found: list[_Argument] = []
    latest: dict[str, _Argument] = {}
    for argument in slots.values():
        if argument.label.startswith("C-"):
            argument_label = argument.label[2:]
            if (whole := latest.get(argument_label)) is not None:
                if not whole.pieces:
                    whole.pieces.append(_Argument(whole.start, whole.end, whole.label))
                whole.pieces.append(argument)
                whole.end = argument.end
                continue
            argument.label = argument_label
        found.append(argument)
        latest[argument.label] = argument
    return found


def _compared(
    said: Sequence[_Argument], right: Sequence[_Argument]
) -> tuple[list[_Argument], list[_Argument], list[_Argument]]:
    """The arguments that are right, too many and missed."""
    wanted = {(one.start, one.end): one for one in right}
    good, excess = list[_Argument](), list[_Argument]()
    for one in said:
        gold = wanted.get((one.start, one.end))
        if gold is not None and _same(one, gold):
            good.append(one)
            del wanted[one.start, one.end]
        else:
            excess.append(one)
    return good, excess, list(wanted.values())


def _same(said: _Argument, gold: _Argument) -> bool:
    """Whether two arguments that reach as far have one label and the same phrases."""
    own = [(piece.start, piece.end) for piece in said.pieces]
    there = {(piece.start, piece.end) for piece in gold.pieces}
    return said.label == gold.label and len(own) == len(there) and set(own) == there
