"""What a finished training says about itself."""

import json

import pytest

from regard import native, train
from regard import recipe as recipes
from tests.train.runs import recipe


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize(("model", "packs"), [("rnnsearch", True), ("transformer", False)])
def test_scores_in_low_precisions_stand_in_the_folder_and_on_the_card(model, packs, tmp_path):
    quick = ["decode.name=greedy", "decode.max_length=4"]
    asked = recipes.load(recipe(tmp_path, model=model, steps=2, validate=0), quick)
    metrics = train.fit(asked, tmp_path / "run", progress=False)
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    card = (tmp_path / "run" / "README.md").read_text()
    assert kept["metrics"] == metrics["metrics"]
    if not packs:  # a head of 8 is not done in C
        assert "precision" not in kept
        assert "decoded in" not in card
        return
    assert kept["precision"].keys() == {"bfloat16", "int8"}
    for precision, scores in kept["precision"].items():
        change = scores["bleu"] - kept["metrics"]["bleu"]
        row = f"| bleu, decoded in {precision} | {scores['bleu']:.2f} | {change:+.2f} |"
        assert row in card
