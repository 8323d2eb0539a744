"""Labels of a folder's program are those of its model."""

import pytest

from regard import loading
from regard.convert import add_program
from regard.convert._to_program import program_of
from regard.errors import RequestError
from regard.folder.programs import open_program
from regard.runtime.stored_program import BeyondProgram
from tests.folder.test_programs import same
from tests.tasks import labeled

REVIEWS = [
    *("The film is lovely.", "", "it is dull", "  The plot is awful. We saw it. "),
    *("three unseen words", "!!! One. Two? " * 20),
]
READERS = {
    "self-attentive": {"embed": 8, "hidden": 6, "hops": 2},
    "cnn": {"embed": 8, "widths": [2, 3], "filters": 4},
    "swem": {"embed": 8},
}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return labeled.write(tmp_path_factory.mktemp("reviews") / "data", sizes=(60, 20, 20))


@pytest.mark.parametrize("name", READERS)
def test_labels_are_the_model_s(name, reviews, tmp_path):
    model = {"name": name, **READERS[name]}
    labeled.fitted(tmp_path, reviews, model, {"name": "classification"}, epochs=1)
    add_program(tmp_path / "run")
    found = open_program(tmp_path / "run").predict(REVIEWS)
    same(found, loading.load(tmp_path / "run").predict(REVIEWS))
    assert found[0].alternatives


@pytest.fixture(scope="module")
def entailing(tmp_path_factory):
    root = tmp_path_factory.mktemp("pairs")
    data = labeled.write(root / "data", sizes=(60, 20, 20), make=labeled.pairs)
    model = {"name": "decomposable", "embed": 8, "hidden": 6}
    columns = {"premise": "a", "hypothesis": "b"}
    labeled.fitted(root, data, model, {"name": "entailment"}, epochs=1, columns=columns)
    add_program(root / "run")
    return root / "run"


def test_labels_of_pairs_are_the_model_s(entailing):
    texts = ["w1 w2 ||| w2 w3", "w4\tw4 w5 w6", "w1", "w1 ||| ", "", "a ||| b ||| c"]
    found = open_program(entailing).predict(texts)
    same(found, loading.load(entailing).predict(texts))
    assert [bool(one.refused) for one in found] == [False, False, True, True, False, True]


def test_a_classifier_has_no_decoder(entailing):
    assert open_program(entailing, {"beam_size": 2}) is None
    assert open_program(entailing, n_best=2) is None


LABELS_REFUSED = {
    "several labels": ({"labels": "several"}, "models that learn 'several' have no form there yet"),
    "word vectors beside": (
        {},
        r"SWEM of model\.beside has no form there yet",
    ),
    "windows": ({"window": 4}, r"models with task\.window have no form there yet"),
    "characters": ({"characters": True}, r"models with task\.characters have no form there yet"),
}


@pytest.mark.parametrize("case", LABELS_REFUSED)
def test_labels_without_a_program_are_refused(case, reviews, tmp_path):
    task, said = LABELS_REFUSED[case]
    model = {"name": "swem", "embed": 8}
    if not task:
        model = {"name": "cnn", **READERS["cnn"], "beside": "swem"}
    if "characters" in task:
        model = {"name": "attention-via-attention", "embed": 8, "hidden": 6}
    labeled.fitted(tmp_path, reviews, model, {"name": "classification", **task}, epochs=1)
    with pytest.raises(RequestError, match=said):
        add_program(tmp_path / "run")


DOCUMENTS = {
    "attention": {"name": "han"},
    "mean": {"name": "han", "read": "mean"},
    "max": {"name": "han", "read": "max"},
    "beside": {"name": "han", "beside": {"name": "bag-of-ngrams", "buckets": 64}},
    "idf beside": {
        "name": "han",
        "beside": {"name": "bag-of-ngrams", "ngrams": 3, "buckets": 64, "weighting": "idf"},
    },
}


@pytest.mark.parametrize("case", DOCUMENTS)
@pytest.mark.parametrize("how", ["punctuation", "lines"])
def test_labels_of_documents_are_the_model_s(case, how, reviews, tmp_path):
    model = {**DOCUMENTS[case], "embed": 8, "hidden": 6, "context": 5}
    task = {"name": "classification", "sentences": how, "temperature": 1.7}
    labeled.fitted(tmp_path, reviews, model, task, epochs=1)
    add_program(tmp_path / "run")
    found = open_program(tmp_path / "run").predict(REVIEWS)
    same(found, loading.load(tmp_path / "run").predict(REVIEWS))


BAGS = {
    "alone": {"name": "bag-of-ngrams", "buckets": 64},
    "ratios": {"name": "bag-of-ngrams", "buckets": 64, "weighting": "nb"},
    "beside": {"name": "swem", "embed": 8, "beside": {"name": "bag-of-ngrams", "buckets": 64}},
}


@pytest.mark.parametrize("case", BAGS)
def test_labels_with_bags_of_ngrams_are_the_model_s(case, reviews, tmp_path):
    labeled.fitted(tmp_path, reviews, BAGS[case], {"name": "classification"}, epochs=1)
    add_program(tmp_path / "run")
    found = open_program(tmp_path / "run").predict(REVIEWS)
    same(found, loading.load(tmp_path / "run").predict(REVIEWS))


def test_a_text_shorter_than_the_model_s_windows_is_left_to_pytorch(reviews, tmp_path):
    labeled.fitted(
        tmp_path, reviews, {"name": "cnn", **READERS["cnn"]}, {"name": "classification"}, epochs=1
    )
    add_program(tmp_path / "run")
    with pytest.raises(BeyondProgram, match="its text has at least 3 tokens"):
        open_program(tmp_path / "run").predict(["lovely"])


def test_a_model_that_does_what_its_class_does_not_say_is_refused(reviews, tmp_path):
    model = {"name": "han", "embed": 8, "hidden": 6, "context": 5}
    task = {"name": "classification", "sentences": "punctuation"}
    labeled.fitted(tmp_path, reviews, model, task, epochs=1)
    loaded = loading.load(tmp_path / "run")
    loaded.model.output.register_forward_hook(lambda module, inputs, output: output + 1)
    with pytest.raises(RequestError, match="off the model, which does what its class does not"):
        program_of(loaded)
