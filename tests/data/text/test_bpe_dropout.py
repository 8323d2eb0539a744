"""BPE-dropout: words in other pieces, as often as the paper's algorithm says."""

import json
import random
from collections import Counter
from itertools import pairwise

import pytest
import torch

from regard.data.ragged import RaggedIds
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError

TEXTS = [
    "unrelated relations were related, 17 times", "a relation (un)relates", "the times of 2019 ...",
    "ein Haus, ein Hund; Hunde im Hause", "unter Hunden, hinter Häusern", "times: related?!",
] * 3  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=110)


def by_the_book(word: str, merges: dict[tuple[str, str], int], p: float, draw: random.Random):
    """Algorithm 1 of the paper, step by step, on strings."""
    split = list(word)
    while True:
        possible = [
            (merges[pair], place)
            for place, pair in enumerate(pairwise(split))
            if pair in merges and draw.random() >= p
        ]
        if not possible:
            return tuple(split)
        _, place = min(possible)
        split[place : place + 2] = [split[place] + split[place + 1]]


@pytest.mark.parametrize(
    ("word", "p"),
    [
        ("unrelated", 0.1),
        ("Hunden", 0.5),
        pytest.param("unrelated", 0.5, marks=pytest.mark.slow),
        pytest.param("Hunden", 0.1, marks=pytest.mark.slow),
    ],
)
def test_pieces_come_as_often_as_by_the_papers_algorithm(tokenizer, word, p):
    count = 20_000
    ids = RaggedIds.rows([tokenizer.encode(word).ids] * count)
    torch.manual_seed(1)
    found = Counter(tuple(tokenizer.tokens(row.tolist())) for row in BpeDropout(tokenizer, p)(ids))
    pairs = json.loads(tokenizer.to_json())["model"]["merges"]
    merges = {tuple(pair): rank for rank, pair in enumerate(pairs)}
    draw = random.Random(2)
    expected = Counter(by_the_book("▁" + word, merges, p, draw) for _ in range(count))
    assert len(expected) > 3
    assert set(found) ^ set(expected) <= {k for k in found | expected if (found + expected)[k] < 30}
    for pieces, times in expected.items():
        # Two counts of the same share differ by their standard deviation times 5 at most.
        assert abs(found[pieces] - times) <= 5 * (found[pieces] + times + 1) ** 0.5, pieces


@pytest.mark.parametrize("p", [0.0, 0.1, 0.9, 1.0])
def test_the_text_stays(tokenizer, p):
    ids = tokenizer.encode_all([*TEXTS, "", "Haus"])
    torch.manual_seed(3)
    found = BpeDropout(tokenizer, p)(ids)
    assert len(found) == len(ids)
    for before, after in zip(ids, found, strict=True):
        assert tokenizer.decode(after.tolist()) == tokenizer.decode(before.tolist())
        assert len(after) >= len(before)
    assert (found.flat.tolist() == ids.flat.tolist()) == (p == 0.0)
    if p == 1.0:
        assert all(len(name) == 1 for name in tokenizer.tokens(found.flat.tolist()))


def test_words_with_unknown_letters_stay_as_they_are(tokenizer):
    ids = tokenizer.encode_all(["ein Ҕaus Hunden"])
    found = tokenizer.tokens(BpeDropout(tokenizer, 1.0)(ids)[0].tolist())
    assert found == [*"▁ein▁", "<unk>", "aus", *"▁Hunden"]


def test_the_same_generator_gives_the_same_pieces(tokenizer):
    ids, cut = tokenizer.encode_all(TEXTS), BpeDropout(tokenizer, 0.3)
    torch.manual_seed(5)
    first, second = cut(ids), cut(ids)
    torch.manual_seed(5)
    assert BpeDropout(tokenizer, 0.3)(ids).flat.tolist() == first.flat.tolist()
    assert first.flat.tolist() != second.flat.tolist()


def test_what_has_no_merges_and_what_is_no_probability_are_refused(tokenizer):
    with pytest.raises(RequestError, match="kind 'characters' has none"):
        BpeDropout(Tokenizer.train(TEXTS, "characters"), 0.1)
    with pytest.raises(RequestError, match=r"is 1\.5; it must be from 0 to 1"):
        BpeDropout(tokenizer, 1.5)
