"""Numbers and cues of pairs of concepts, on a document that is small enough to count by hand."""

import math
from zlib import crc32

import pytest

from regard.data.annotations.documents import Mention, RelationDocument
from regard.data.pairs.concept_cues import cue_names, pair_cues
from regard.data.pairs.concept_positions import PLACES, pair_places, sentence_ends

TEXT = "Zorin and rash. In 12 rats melpax-induced rash was often seen. Zorin had no effect."


def mention(name, kind, concept, nth=0):
    start = -1
    for _ in range(nth + 1):
        start = TEXT.index(name, start + 1)
    return Mention(((start, start + len(name)),), kind, (concept,))


DOCUMENT = RelationDocument(
    "1", TEXT, (
        mention("Zorin", "C", "Z"), mention("rash", "D", "R"), mention("melpax", "C", "M"),
        mention("rash", "D", "R", 1), mention("Zorin", "C", "Z", 1),
    ),
)  # fmt: skip
PAIRS = [("Z", "R"), ("M", "R")]


def test_sentences_end_where_another_begins():
    assert sentence_ends(TEXT) == [16, 63]
    assert sentence_ends("pH 7.4 e.g. small. (Next) vs. 3") == [19, 30]


def test_numbers_of_a_pair():
    zorin, melpax = pair_places(DOCUMENT, PAIRS)
    text, z, r, m = len(TEXT), (0, 63), (10, 42), 27
    assert dict(zip(PLACES, zorin.tolist(), strict=True)) == pytest.approx({
        "mentions of head, log": math.log(2), "mentions of tail, log": math.log(2),
        "mentions of head, share of the most mentioned head's": 1,
        "mentions of tail, share of the most mentioned tail's": 1,
        "heads of the document, log": math.log(2), "tails of the document, log": 0,
        "characters between the nearest mentions, log / 5": math.log(11) / 5,
        "sentences with both, log": math.log(2), "a sentence has both": 1,
        "neighboring sentences have them at best": 0, "head in the first sentence": 1,
        "tail in the first sentence": 1, "both in the first sentence": 1,
        "first mention of head, share of the text": 0,
        "first mention of tail, share of the text": r[0] / text,
        "last mention of head, share of the text": z[1] / text,
        "last mention of tail, share of the text": r[1] / text,
        "share of mentions of tail to which no other head is nearer": 0.5,
        "share of mentions of head to which no other tail is nearer": 1,
    })  # fmt: skip
    own = dict(zip(PLACES, melpax.tolist(), strict=True))
    assert own["mentions of head, share of the most mentioned head's"] == 0.5
    assert own["characters between the nearest mentions, log / 5"] == pytest.approx(
        math.log1p(r[1] - m) / 5
    )
    assert own["head in the first sentence"] == own["both in the first sentence"] == 0
    assert pair_places(DOCUMENT, []).shape == (0, len(PLACES))


def test_cues_of_a_pair():
    zorin, melpax = cue_names(DOCUMENT, PAIRS)
    assert {c for c in melpax if c.startswith("h")} == {
        "h= M", "hw melpax", "hs lpax", "h- 0", "h- rats", "h+ induced", "h+ <D>", "h-- 0 rats",
        "h++ induced <D>", "h-+ rats | induced", "ht induced", "ht# 1", "ht= induced",
    }  # fmt: skip
    assert {c for c in zorin if c.startswith(("ht", "th"))} == {"ht and", "ht# 1", "ht= and"}
    assert {c for c in zorin if c.startswith("t-")} == {
        "t- <C>", "t- and", "t-- <C> and", "t- induced", "t-- <C> induced", "t-+ and | in",
        "t-+ induced | was",
    }  # fmt: skip
    assert {c for c in melpax if c.startswith("title")} == {
        "title zorin",
        "title and",
        "title rash",
    }


def test_cues_are_numbers_that_hold_on_every_machine():
    first, second = pair_cues(DOCUMENT, PAIRS, 1000)
    assert first == sorted(set(first))
    assert max(first) < 1000
    assert crc32(b"title zorin") % 1000 in {*first} & {*second}
    assert crc32(b"hw melpax") % 1000 in second


def test_mentions_inside_each_other_share_a_token():
    inner = Mention(((10, 12),), "D", ("I",))
    cues = cue_names(RelationDocument("1", TEXT, (*DOCUMENT.mentions, inner)), [("Z", "I")])[0]
    assert "tw ra" in cues
    assert "ht and" in cues
