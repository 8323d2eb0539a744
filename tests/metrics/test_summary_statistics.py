"""ROUGE against what rouge-score's command line printed; the rest against counts by hand."""

import json
from collections import Counter
from pathlib import Path

import pytest

from regard.data.text.words import unicode_words
from regard.errors import RequestError
from regard.metrics import copied_names, length_ratio, novelty, repetition, rouge
from regard.metrics.summary_statistics import overlap

FROZEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "rouge.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", FROZEN["cases"], ids=lambda c: f"stemmer={c['stemmer']}")
def test_what_rouge_score_printed(case):
    kinds = list(case["printed"])
    found = rouge(FROZEN["outputs"], FROZEN["references"], kinds=kinds, stemmer=case["stemmer"])
    for kind in kinds:
        rows = case["printed"][kind]
        means = [100 * sum(column) / len(rows) for column in zip(*rows, strict=True)]
        score = found[kind]
        assert score.name == kind
        assert score.value == pytest.approx(means[2], abs=1e-4)
        assert score.parts["precision"] == pytest.approx(means[0], abs=1e-4)
        assert score.parts["recall"] == pytest.approx(means[1], abs=1e-4)
        assert score.sums.of(score.sums.counts.sum(0)) == pytest.approx(score.value)
        stemmer = "porter" if case["stemmer"] else "no"
        assert score.signature.startswith(f"nrefs:1|measure:f1|stemmer:{stemmer}|tok:default|")
        assert score.signature.endswith(FROZEN["made by"].replace(" ", "-"))


def subsequence(one, other):
    """The longest common subsequence, tried out."""
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + subsequence(one[1:], other[1:])
    return max(subsequence(one[1:], other), subsequence(one, other[1:]))


def test_by_hand_with_several_references():
    output, right = "the cat sat on the mat", ["a cat on a mat", "the mat sat on the cat now"]
    y, best = output.split(), {}
    for kind in ("rouge1", "rouge2", "rougeL"):
        values = []
        for reference in right:
            r = reference.split()
            if kind == "rougeL":
                m, a, b = subsequence(y, r), len(y), len(r)
            else:
                n = int(kind[-1])
                one, two = (
                    Counter(tuple(x[i : i + n]) for i in range(len(x) - n + 1)) for x in (y, r)
                )
                m, a, b = sum((one & two).values()), sum(one.values()), sum(two.values())
            values.append(100 * 2 * m / (a + b))
        best[kind] = max(values)
    found = rouge([output], [right], kinds=list(best))
    assert {kind: score.value for kind, score in found.items()} == pytest.approx(best)
    assert "nrefs:2" in found["rouge1"].signature


def test_empty_outputs_and_other_scripts():
    assert rouge(["", "a b"], ["a b", "a b"])["rouge1"].value == pytest.approx(50.0)
    chinese = ["中文 摘要", "🙂 ok"], ["中文摘要", "🙂 fine"]
    assert rouge(*chinese)["rouge1"].value == 0.0
    found = rouge(*chinese, tokenize="unicode")["rouge1"]
    assert found.value == pytest.approx(75.0)
    assert "tok:unicode" in found.signature
    assert unicode_words("naïve_Ünï ไทย") == ["naïve", "ünï", "ไ", "ท", "ย"]


def test_what_is_wrong_is_said():
    with pytest.raises(RequestError, match="rougeX"):
        rouge(["a"], ["a"], kinds=["rougeX"])
    with pytest.raises(RequestError, match="unicode"):
        rouge(["a"], ["a"], tokenize="unicod")
    with pytest.raises(RequestError, match="as many"):
        rouge(["a"], [])


def test_length_novelty_and_repetition():
    outputs = ["a b c d", "x y", ""]
    sources = ["a b x c d", "Y X", "q"]
    assert length_ratio(outputs, ["a b", "x y z", "q q q"]).value == pytest.approx(100 * 6 / 8)
    # ab bc cd of which bc is new; xy is new
    assert novelty(outputs, sources).value == pytest.approx(100 * 2 / 4)
    assert novelty(outputs, sources, size=1).value == 0.0
    assert repetition(["a b c a b c a b c", "a b c"]).value == pytest.approx(100 * 4 / 8)
    assert repetition([""]).value == 0.0


def test_names_and_numbers_are_spelled_exactly():
    source = "The tool Foo (3.11) reads GNU/Linux files of Bar."
    score = copied_names(["Foo 3.11 for gnu/linux"], ["Foo, 3.11 and GNU/Linux by Baz"], [source])
    assert score.value == pytest.approx(100 * 2 / 3)  # Baz is not in the source
    assert score.parts["of"] == 3


def test_overlap_is_rouge_of_plain_words():
    one, other = list("abca"), list("bacde")
    for n in (1, 2):
        found = rouge([" ".join(one)], [" ".join(other)], kinds=[f"rouge{n}"])
        assert 100 * overlap(one, other, n) == pytest.approx(found[f"rouge{n}"].value)
    assert overlap([], []) == 0.0
