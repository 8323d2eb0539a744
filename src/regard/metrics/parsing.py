r"""EVALB: labelled brackets of trees against those of a treebank, by the rules of COLLINS.prm.

With G and T the multisets of (label, start, end) of a gold and a test tree, summed over sentences,

    recall = Σ|G ∩ T| / Σ|G|,   precision = Σ|G ∩ T| / Σ|T|,   F1 = 2 P R / (P + R)

where, before counting,

* words with a deleted tag (punctuation, traces) are removed, and positions count the others;
* constituents without words, or with a deleted label (TOP), are removed;
* labels are cut before their first '-' or '='; equal labels (ADVP, PRT) count as one.

A tag is not a constituent. (NP (NP x)) against (NP x) matches once. A test bracket crosses if it
overlaps a gold bracket and neither contains the other.

Source: Sekine and Collins (1997), "Evalb: a bracket scoring program"; Black et al. (1991).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from regard.errors import RequestError, nearest
from regard.metrics.score import Score, Sums, signature
from regard.metrics.significance import bootstrap

__all__ = ["COLLINS", "Parameters", "evalb"]

Bracket = tuple[str, int, int]


@runtime_checkable
class Bracketed(Protocol):
    """The interface of trees (`data.annotations.trees.Tree`)."""

    def leaves(self) -> Sequence[tuple[str, str]]:
        """(Tag, word) of every word."""
        ...

    def brackets(self) -> Sequence[Bracket]:
        """(Label, start, end) of every constituent."""
        ...


@dataclass(frozen=True)
class Parameters:
    """The settings of an evalb parameter file.

    Args:
        name: of the file, for the signature.
        deleted: ignored labels and tags.
        equal: labels that count as another label.
    """

    name: str
    deleted: frozenset[str]
    equal: Mapping[str, str] = field(default_factory=dict)

    def same(self, label: str) -> str:
        """The label that a label counts as."""
        return self.equal.get(label, label)

    def drops(self, label: str) -> bool:
        """Whether a label or tag is ignored."""
        return label in self.deleted


COLLINS = Parameters(
    "collins", frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}), {"PRT": "ADVP"}
)
"""COLLINS.prm, which every published F1 on the Penn Treebank goes by."""

PUNCTUATION = ("gold", "own")

_COLUMNS = ("gold", "test", "match", "complete", "crossing", "none", "few", "words", "tags", "used")
_AT = {name: place for place, name in enumerate(_COLUMNS)}


def _share(part: str, whole: str) -> Callable[[np.ndarray], np.ndarray]:
    def of(sums: np.ndarray) -> np.ndarray:
        below = sums[..., _AT[whole]]
        return np.asarray(100 * sums[..., _AT[part]] / np.where(below == 0, 1, below))

    return of


def _f1(sums: np.ndarray) -> np.ndarray:
    # 2PR/(P+R) = 2 match / (gold + test)
    both = sums[..., _AT["gold"]] + sums[..., _AT["test"]]
    return np.asarray(200 * sums[..., _AT["match"]] / np.where(both == 0, 1, both))


def _crossing(sums: np.ndarray) -> np.ndarray:
    return np.asarray(_share("crossing", "used")(sums) / 100)


SCORES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "f1": _f1,
    "recall": _share("match", "gold"),
    "precision": _share("match", "test"),
    "complete": _share("complete", "used"),
    "crossing": _crossing,
    "no_crossing": _share("none", "used"),
    "few_crossing": _share("few", "used"),
    "tagging": _share("tags", "words"),
}
"""What evalb prints, from the sums of `_COLUMNS`."""


def evalb(
    tests: Sequence[Bracketed],
    golds: Sequence[Bracketed],
    *,
    parameters: Parameters = COLLINS,
    punctuation: str = "gold",
    samples: int = 0,
) -> dict[str, Score]:
    """Bracketing F1, recall, precision, and everything else that evalb prints.

    `complete` is the share of sentences with every bracket right, `crossing` the mean number of
    test brackets that cross a gold one, `no_crossing` and `few_crossing` the shares of sentences
    with none and with at most two, `tagging` the share of right tags among words that count.

    Args:
        tests: one tree per sentence.
        golds: the treebank's.
        parameters: of `COLLINS`, or others.
        punctuation: "own": each tree deletes the words that it tags as punctuation itself; a
            sentence whose two trees then differ in length is an error and *left out*, as in
            evalb. "gold": both delete the treebank's, so wrong tags cannot make a sentence easier.
        samples: bootstrap samples for a 95 % interval in each `parts["interval"]`; 0 for none.

    Every score's `parts` has the sums: brackets `gold`, `test`, `match`; sentences `used`,
    `errors` (different words) and `skipped` (a test tree without counted words).

    Raises:
        RequestError: nothing to score, or unequal numbers.
    """
    if punctuation not in PUNCTUATION:
        raise RequestError(f"punctuation is {punctuation!r}: {nearest(punctuation, PUNCTUATION)}")
    if len(tests) != len(golds):
        raise RequestError(f"expected as many trees as {len(golds)} gold ones, got {len(tests)}")
    if not golds:
        raise RequestError("nothing to score: there are no trees")
    counts = np.zeros((len(golds), len(_COLUMNS)), np.int64)
    lost = Counter[str]()
    for row, test, gold in zip(counts, tests, golds, strict=True):
        deleted = [parameters.drops(tag) for tag, _ in gold.leaves()]
        own = [parameters.drops(tag) for tag, _ in test.leaves()]
        if punctuation == "gold" and len(own) == len(deleted):
            own = deleted
        right, made = _Counted.of(gold, parameters, deleted), _Counted.of(test, parameters, own)
        if not made.words:
            lost["skipped"] += 1
        elif made.words != right.words:
            lost["errors"] += 1
        else:
            row[:] = _compared(made, right)
    sums = counts.sum(0)
    told = {name: int(sums[_AT[name]]) for name in ("gold", "test", "match", "words", "tags")}
    parts = {**told, "used": int(sums[_AT["used"]]), **{k: lost[k] for k in ("errors", "skipped")}}
    said = signature(evalb=parameters.name, punctuation=punctuation, errors=lost["errors"])
    scores = {}
    for name, of in SCORES.items():
        each = Sums(counts.astype(np.float64), of)
        more = {"interval": bootstrap(each, samples=samples)} if samples > 1 else {}
        scores[name] = Score(name, float(of(each.counts.sum(0))), said, {**parts, **more}, each)
    return scores


@dataclass(frozen=True)
class _Counted:
    """The counted words, tags and brackets of a tree."""

    words: list[str]
    tags: list[str]
    brackets: list[Bracket]

    @classmethod
    def of(cls, tree: Bracketed, parameters: Parameters, deleted: Sequence[bool]) -> "_Counted":
        kept = [leaf for leaf, out in zip(tree.leaves(), deleted, strict=True) if not out]
        # places[i]: how many words that count stand before word i.
        places = np.concatenate([[0], np.cumsum(~np.asarray(deleted, bool))]).tolist()
        brackets = []
        for label, start, end in tree.brackets():
            bare = label.split("-")[0].split("=")[0]
            if places[start] < places[end] and not parameters.drops(bare):
                brackets.append((parameters.same(bare), places[start], places[end]))
        return cls([w for _, w in kept], [parameters.same(t) for t, _ in kept], brackets)


def _compared(test: _Counted, gold: _Counted) -> list[int]:
    """The numbers of `_COLUMNS` of one sentence."""
    match = (Counter(test.brackets) & Counter(gold.brackets)).total()
    spans = {(start, end) for _, start, end in gold.brackets}
    crossing = sum(
        any(a < start < b < end or start < a < end < b for a, b in spans)
        for _, start, end in test.brackets
    )
    whole = len(test.brackets) == len(gold.brackets) == match
    right = sum(a == b for a, b in zip(test.tags, gold.tags, strict=True))
    return [
        len(gold.brackets),
        len(test.brackets),
        match,
        whole,
        crossing,
        crossing == 0,
        crossing <= 2,
        len(gold.words),
        right,
        1,
    ]
