"""`model.beside` from a recipe to scores of each branch and to the page."""

import json

import pytest
import torch

import regard
from regard import recipe
from regard.errors import RequestError
from regard.evaluation.scoring import branches_of
from regard.train.building import build
from tests.cli.run import run
from tests.tasks.labeled import fitted, write

DOCUMENTS = {"name": "classification", "sentences": "punctuation"}


def test_documents_with_counts_beside_attention(tmp_path, capsys):
    data = write(tmp_path / "data")
    beside = {"name": "bag-of-ngrams", "ngrams": 2, "buckets": 500, "rate": 3, "weighting": "idf"}
    model = {"name": "han", "embed": 8, "hidden": 6, "context": 6, "beside": beside}
    fitted(tmp_path, data, model, DOCUMENTS, epochs=3)
    loaded = regard.load(tmp_path / "run")
    assert loaded.config["model"]["beside"] == beside
    assert loaded.config["model"]["vocab_size"] == loaded.model.wide.vocab_size
    assert loaded.model.wide.bags.idf.std() > 0.1  # counted in the training texts, and kept

    result = run(capsys, "evaluate", str(tmp_path / "run"), "--branches", "--json").result
    test = loaded.task.data(loaded.config["data"], loaded.fields, splits=("test",)).test
    right = [one[0] for one in test.references]
    for name, branch in (("deep", loaded.model.deep), ("wide", loaded.model.wide)):
        said = loaded.task.predict(branch, test, loaded.decoder, loaded.fields)
        hits = [one.output == label for one, label in zip(said, right, strict=True)]
        alone = result["branches"][name]["accuracy"]
        assert alone == pytest.approx(100 * sum(hits) / len(hits))

    text = "The film is awful. We saw it."
    made = loaded.task.view(loaded, [text])
    table = next(p for p in made.runs[0].panels if p.title == "what n-grams add to the score")
    parts = {words: float(part) for words, part in table.cells}
    assert "is awful" in parts
    assert ". we" not in parts
    asked = loaded.task.asked([text], loaded.fields).dataset.collate([0])
    with torch.no_grad():
        (logits,) = loaded.model.wide(asked["text"]).logits
    label = loaded.fields["label"].names.index(made.runs[0].output)
    assert sum(parts.values()) == pytest.approx(float(logits[label] - logits.mean()), abs=0.01)


def test_branches_of_a_model_with_one_are_refused(tmp_path):
    data = write(tmp_path / "data")
    fitted(tmp_path, data, {"name": "bag-of-ngrams"}, {"name": "classification"}, epochs=1)
    loaded = regard.load(tmp_path / "run")
    with pytest.raises(RequestError, match=r"--branches: .* expected one with model.beside"):
        branches_of(loaded)
    titles = [p.title for p in loaded.task.view(loaded, ["The film is fine."]).runs[0].panels]
    assert titles == ["what n-grams add to the score", "probabilities"]


def test_a_trained_model_is_the_deep_branch_of_one_that_begins_from_it(tmp_path):
    data = write(tmp_path / "data")
    model = {"name": "han", "embed": 8, "hidden": 6, "context": 6}
    fitted(tmp_path / "alone", data, model, DOCUMENTS, epochs=1)
    alone = regard.load(tmp_path / "alone" / "run").model.state_dict()
    told = json.loads((tmp_path / "alone" / "own.yaml").read_text())
    told["model"]["beside"] = {"name": "bag-of-ngrams", "ngrams": 2, "buckets": 50}
    told["train"]["start"] = str(tmp_path / "alone" / "run")
    (tmp_path / "both.yaml").write_text(json.dumps(told))
    made = build(recipe.load(tmp_path / "both.yaml").plan()).model
    for name, weight in made.deep.state_dict().items():
        assert torch.equal(weight, alone[name]), name
    assert made.wide.bags.weight.std() > 0
    told["model"]["hidden"] = 7
    (tmp_path / "other.yaml").write_text(json.dumps(told))
    with pytest.raises(RequestError, match=r"train.start needs a model of the same kind and sizes"):
        build(recipe.load(tmp_path / "other.yaml").plan())
