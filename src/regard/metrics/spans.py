r"""Spans of tagged words, by two named rules that differ on tags that are not valid.

.. math:: P = \frac{right}{said}, \quad R = \frac{right}{there}, \quad F_1 = \frac{2PR}{P + R}

A span is right if its first word, its last word and its label are.

* `conlleval`, the program of CoNLL-2000 to 2003, needs no scheme: it reads IOB1, IOB2 and IOBES
  alike. A span begins at B and S, behind O, E and S, and where the label changes, so an I that
  continues nothing begins one. It does not know BILOU.
* `seqeval_strict`, the package seqeval with `mode="strict"`, goes by a table of each scheme: in
  IOB2 such an I is no span, in IOBES and BILOU a span without its end is not one.

Valid tags in IOB2, IOBES or BILOU have the same spans by both rules; in IOB1 they differ (see
`seqeval_strict`). Source: Tjong Kim Sang and De Meulder (2003); Nakayama (2018), seqeval.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regard.errors import RequestError, nearest
from regard.metrics._tables import Counts, Span, f1, joined_spans, precision, rates, recall, scored
from regard.metrics.score import Score, Sums, same_number, signature

__all__ = ["conlleval", "seqeval_strict"]

Tags = Sequence[Sequence[str]]


def conlleval(outputs: Tags, references: Tags, *, samples: int = 0) -> dict[str, Score]:
    """F1, precision, recall and the accuracy of single tags, as conlleval prints them.

    The label "0" counts as none, as in the program.

    Args:
        outputs: the tags of each sentence, O or a letter of BIES, with or without a label.
        references: likewise.
        samples: bootstrap samples for a 95 % interval in each `parts["interval"]`; 0 for none.

    Returns:
        `f1`, `precision`, `recall`, `accuracy`. The `parts` of each: `right`, `said`, `there`,
        `words`, and `types`, label -> counts and rates.

    Raises:
        RequestError: nothing to score, unequal numbers, or a tag of another kind.

    Example:
        >>> found = conlleval([["I-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]])
        >>> found["f1"].value, found["accuracy"].value
        (100.0, 66.66666666666667)
        >>> print(found["f1"])
        F1 100.00 (metric:conlleval|version:...)
    """
    return _scored(outputs, references, _by_conlleval, signature(metric="conlleval"), samples)


def seqeval_strict(
    outputs: Tags, references: Tags, scheme: str = "iob2", *, samples: int = 0
) -> dict[str, Score]:
    """F1, precision and recall (micro averages), as seqeval in strict mode; and accuracy.

    Its table of IOB1 is kept: a span begins with an I behind O, B, or an I of another label, and
    with a B only behind a B or I of the same label. So of `O B-X I-X` only the last word is a span,
    and `B-X` behind `I-Y` begins none. A tag without a label has the label "_", and hyphens around
    a label are dropped.

    Args:
        outputs: the tags of each sentence, in the scheme; they need not follow each other rightly.
        references: likewise.
        scheme: `iob1`, `iob2` (`bio`), `iobes` or `bilou`.
        samples: bootstrap samples for a 95 % interval in each `parts["interval"]`; 0 for none.

    Returns:
        As `conlleval`.

    Raises:
        RequestError: nothing to score, unequal numbers, or a letter that the scheme does not have.

    Example:
        >>> found = seqeval_strict([["I-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]])
        >>> found["f1"].value, found["f1"].parts["said"]
        (0.0, 0)
    """
    name = {"bio": "iob2"}.get(scheme, scheme)
    if name not in _TABLE:
        raise RequestError(f"unknown scheme of tags {scheme!r}: {nearest(scheme, _TABLE)}")
    told = signature(metric="seqeval", mode="strict", scheme=name)
    return _scored(outputs, references, lambda tags: _by_table(tags, name), told, samples)


def _scored(
    outputs: Tags,
    references: Tags,
    spans: Callable[[Sequence[str]], list[Span]],
    told: str,
    samples: int,
) -> dict[str, Score]:
    same_number(outputs, references)
    counts = np.zeros((len(references), 5), np.float64)  # right, excess, missed, tags, words
    right, said, there = Counter[str](), Counter[str](), Counter[str]()
    for number, (row, own, gold) in enumerate(zip(counts, outputs, references, strict=True)):
        if len(own) != len(gold):
            raise RequestError(f"expected {len(gold)} tags in example {number + 1}, got {len(own)}")
        try:
            mine, wanted = set(spans(own)), set(spans(gold))
        except RequestError as error:
            raise RequestError(f"example {number + 1}: {error}") from None
        both = mine & wanted
        right.update(label for *_, label in both)
        said.update(label for *_, label in mine)
        there.update(label for *_, label in wanted)
        equal = sum(a == b for a, b in zip(own, gold, strict=True))
        row[:] = len(both), len(mine) - len(both), len(wanted) - len(both), equal, len(gold)
    types: Mapping[str, Counts] = {
        label: (right[label], said[label] - right[label], there[label] - right[label])
        for label in said | there
    }
    parts = {
        "right": right.total(),
        "said": said.total(),
        "there": there.total(),
        "words": int(counts[:, 4].sum()),
        "types": rates(types),
    }
    found = {"f1": f1, "precision": precision, "recall": recall, "accuracy": _accuracy}
    return {
        name: scored(name, Sums(counts, of), told, parts, samples) for name, of in found.items()
    }


def _accuracy(sums: np.ndarray) -> np.ndarray:
    return np.asarray(100 * sums[..., 3] / np.where(sums[..., 4] == 0, 1, sums[..., 4]))


def _by_conlleval(tags: Sequence[str]) -> list[Span]:
    """The spans of any tags; see the head of this file."""
    for tag in tags:
        letter = tag.partition("-")[0]
        if tag != "O" and (letter not in ("B", "I", "E", "S") or tag == f"{letter}-"):
            raise RequestError(f"conlleval knows O and the letters B, I, E, S; got {tag!r}")
    named = [tag.removesuffix("-0") if tag[1:] == "-0" else tag for tag in tags]
    return joined_spans(named)


_TABLE: Mapping[str, tuple[str, str, str]] = {
    "iob1": ("OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "iob2": ("*B*", "BI= II=", "IO* II! IB* BO* BI! BB*"),
    "iobes": ("*B* *S*", "BI= BE= II= IE=", "S** E**"),
    "bilou": ("*B* *U*", "BI= BL= II= IL=", "U** L**"),
}
"""Where a span begins, goes on and has ended: letter before, letter, and whether their labels are
equal (=), unequal (!) or any (*)."""


def _by_table(tags: Sequence[str], scheme: str) -> list[Span]:
    """The spans that a table tells."""
    begins, goes_on, ends = _TABLE[scheme]
    letters = {"O", *filter(str.isalpha, begins + goes_on)}
    pairs = [("O", "_")]
    for tag in tags:
        if tag[:1] not in letters:
            raise RequestError(
                f"{scheme} has the letters {', '.join(sorted(letters))}; got {tag!r}"
            )
        pairs.append((tag[0], tag[1:].strip("-") or "_"))
    pairs.append(("O", "_"))
    spans: list[Span] = []
    at = 1  # pairs[at] is the tag of word at - 1
    while at < len(pairs):
        if not _stands(begins, pairs[at - 1], pairs[at]):
            at += 1
            continue
        start = at
        at += 1
        while at < len(pairs) and _stands(goes_on, pairs[at - 1], pairs[at]):
            at += 1
        if at < len(pairs) and _stands(ends, pairs[at - 1], pairs[at]):
            spans.append((start - 1, at - 1, pairs[start][1]))
    return spans


def _stands(rules: str, before: tuple[str, str], now: tuple[str, str]) -> bool:
    same = "=" if before[1] == now[1] else "!"
    return any(
        rule[0] in ("*", before[0]) and rule[1] in ("*", now[0]) and rule[2] in ("*", same)
        for rule in rules.split()
    )
