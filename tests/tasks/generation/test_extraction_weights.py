"""ABS+ in summarization: weights are found on dev, kept in the folder, and make outputs better."""

import json
from importlib.util import find_spec

import pytest
import torch

import regard
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.decode import Beam, Greedy
from regard.decode.rules.extractive import FEATURES, Extraction
from regard.errors import RequestError
from regard.fields.copied import CopiedColumn
from regard.protocols import UNK
from regard.recipe import load as load_recipe
from regard.tasks.generation import extraction_weights
from regard.tasks.generation.summarization import Summarization
from regard.train import fit

needs_rouge = pytest.mark.skipif(
    find_spec("rouge_score") is None, reason="rouge-score is not installed"
)


def tokenizer(text):
    return Tokenizer.train([text], "words", 100)


def test_sources_in_ids_of_the_target():
    source, target = tokenizer("b a c d"), tokenizer("d c e")
    text = source.encode("a b c d").ids
    both = {"source": source, "target": target}
    known = target.encode("c d").ids
    ids = RaggedIds.rows([text, text[:1]])
    assert extraction_weights.in_target_ids(ids, both) == [[UNK, UNK, *known], [UNK]]
    assert extraction_weights.in_target_ids(ids, {"source": source, "target": source})[0] == text
    copied = CopiedColumn(ids, RaggedIds.rows([[9, 10, *known], [9]]))
    assert extraction_weights.in_target_ids(copied, both) == [[9, 10, *known], [9]]


def test_rules_of_the_task():
    ids, both = RaggedIds.rows([[4, 5]]), dict.fromkeys(("source", "target"), tokenizer("a b c"))
    assert Summarization().rules(ids, both, None) == []
    (unknown,) = Summarization(copying=False).rules(ids, both, None)
    assert unknown(torch.zeros(1, 1, 6), torch.zeros(1, 1, 0), torch.tensor([0]))[0, 0, UNK] < 0
    (rule,) = Summarization(extraction={"bigram": 2.0}).rules(ids, both, None)
    assert isinstance(rule, Extraction)
    scores = rule(torch.zeros(1, 1, 7), torch.tensor([[[4]]]), torch.tensor([0]))
    assert scores[0, 0].nonzero().flatten().tolist() == [5]
    with pytest.raises(RequestError, match="no feature 'bigrams'"):
        Summarization(extraction={"bigrams": 2.0})


def test_only_a_beam_has_hypotheses_to_choose_from():
    assert extraction_weights.n_best(Beam(4)).n_best == 4
    with pytest.raises(RequestError, match=r"expected decode\.name beam, got greedy"):
        extraction_weights.n_best(Greedy())


@needs_rouge
def test_weights_are_found_when_a_training_ends(tmp_path):
    """A model that learned nothing writes better with words of the text."""
    rows = [{"text": f"w{i} w{i + 1} w{i + 2} w{i + 3}", "headline": f"w{i} w{i + 1}"}
            for i in range(40)]  # fmt: skip
    for split in ("train", "dev", "test"):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(lines)
    asked = [
        f"data.path={tmp_path}", "data.tokenizer.kind=words", "data.tokenizer.vocab_size=100",
        "train.steps=2", "train.validate.every=0", "model.hidden=8", "model.embed=8",
        "model.source_embed=8", "decode.beam_size=4", "decode.max_length=4",
    ]  # fmt: skip
    scores = []
    for name, more in (
        ("plain", ["task.tune_extraction=0"]),
        ("better", ["task.tune_extraction=20"]),
    ):
        recipe = load_recipe("summarization/abs-headlines", [*asked, *more])
        scores.append(fit(recipe, tmp_path / name, progress=False)["metrics"]["rouge1"])
    weights = regard.load(tmp_path / "better").task.extraction
    assert set(weights) == set(FEATURES)
    assert weights["reordered"] <= 0.0
    assert scores[1] > 2 * scores[0]
