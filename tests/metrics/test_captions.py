"""BLEU, ROUGE-L and CIDEr-D of captions: pycocoevalcap's frozen outputs, and the ends."""

import json
from pathlib import Path

import pytest

from regard.errors import RequestError
from regard.metrics import caption_bleu, caption_rouge, cider_d

FROZEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "captions.json").read_text(encoding="utf-8")
)
SAID, RIGHT = FROZEN["said"], FROZEN["right"]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bleu_is_what_pycocoevalcap_says(order):
    found = caption_bleu(SAID, RIGHT, order).value
    assert found == pytest.approx(100 * FROZEN["bleu"][order - 1], abs=1e-6)


def test_rouge_is_what_pycocoevalcap_says():
    assert caption_rouge(SAID, RIGHT).value == pytest.approx(100 * FROZEN["rouge"], abs=1e-9)


def test_cider_is_what_pycocoevalcap_says():
    found = cider_d(SAID, RIGHT)
    assert found.value == pytest.approx(FROZEN["cider"], abs=1e-9)
    assert found.parts["each"] == pytest.approx(FROZEN["cider_each"], abs=1e-9)


def test_perfect_and_empty_captions():
    right = ["a red dog on a tree", "two birds near the house"]
    assert caption_bleu(right, right).value == pytest.approx(100)
    assert caption_rouge(right, right).value == pytest.approx(100)
    assert cider_d(right, right).value == pytest.approx(10)
    for score in (caption_bleu, caption_rouge, cider_d):
        assert score(["", ""], right).value == 0
    with pytest.raises(RequestError, match="order is 5"):
        caption_bleu(right, right, 5)
