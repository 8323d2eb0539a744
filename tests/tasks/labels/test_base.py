"""Tasks that label texts and pairs: data to predictions, scores, calibration and views."""

import json
import logging
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regard
from regard import tasks
from regard.cli.evaluate import measure
from regard.errors import RequestError
from regard.protocols import Output
from regard.tasks.objectives import OBJECTIVES
from tests.tasks.labeled import fitted, pairs, rows, write

SMALL = {
    "name": "self-attentive", "embed": 12, "hidden": 8, "attention": 8, "hops": 2, "ffn_dim": 12,
    "penalty": 0.1, "dropout": 0.0,
}  # fmt: skip
PAIR = {"name": "decomposable", "embed": 12, "dim": 12, "hidden": 16, "dropout": 0.0}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Every eighth label of dev is wrong, so that there is something to calibrate."""
    place = write(tmp_path_factory.mktemp("reviews"))
    lines = [json.loads(line) for line in (place / "dev.jsonl").read_text().splitlines()]
    for row in lines[::8]:
        row["label"] = {"pos": "neg", "neg": "pos"}[row["label"]]
    (place / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    return place


@pytest.fixture(scope="module")
def trained(reviews, tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    return fitted(place, reviews, SMALL, {"name": "classification"}), place / "run"


def test_a_classifier_is_trained_scored_and_used(trained):
    metrics, folder = trained
    assert metrics["metrics"]["accuracy"] > 95
    assert set(metrics["metrics"]) == {"accuracy", "macro_f1", "ece"}
    loaded = regard.load(folder)
    good, bad, nothing = loaded.predict(["The cast is GREAT.", "the plot is awful", "  "])
    assert (good.output, bad.output, nothing.output) == ("pos", "neg", "")
    every = [good, *good.alternatives]
    assert sum(one.probability for one in every) == pytest.approx(1)
    assert good.probability_of("neg") == every[1].probability < 0.5
    assert nothing.probability == 0.0


def test_the_temperature_is_in_the_folder_and_divides_the_logits(trained):
    _, folder = trained
    told = json.loads((folder / "config.json").read_text())["task"]
    assert told["temperature"] != 1.0
    loaded = regard.load(folder)
    assert loaded.task.temperature == told["temperature"]
    batch = loaded.task.asked(["the film is dull"], loaded.fields).dataset.collate([0])
    with torch.no_grad():
        logits = loaded.model(batch["text"]).logits.double() / told["temperature"]
    found = loaded.predict(["the film is dull"])[0]
    assert found.score == pytest.approx(logits.log_softmax(-1).max().item(), abs=1e-6)


def test_the_calibration_error_has_the_bins_of_its_diagram(trained, reviews):
    loaded = regard.load(trained[1])
    found = measure(loaded, reviews / "test.jsonl")
    bins = found["reliability"]
    assert sum(one["examples"] for one in bins) == found["examples"] == 40
    gaps = [one["examples"] * abs(one["confidence"] - one["accuracy"]) for one in bins]
    assert 100 * sum(gaps) / 40 == pytest.approx(found["metrics"]["ece"])
    json.dumps(found)


def test_without_an_error_on_dev_nothing_is_calibrated(tmp_path):
    data = write(tmp_path / "data")
    fitted(tmp_path, data, SMALL, {"name": "classification"}, 12)
    told = json.loads((tmp_path / "run" / "config.json").read_text())["task"]
    assert "temperature" not in told


def test_several_labels(tmp_path):
    def several(count, seed):
        return [
            {"text": row["text"], "label": ",".join([row["label"], row["of"]])}
            for row in rows(count, seed)
        ]

    data = write(tmp_path / "data", make=several)
    found = fitted(tmp_path, data, SMALL, {"name": "classification", "labels": "several"}, 30)
    assert found["metrics"]["micro_f1"] > 90
    (made,) = regard.load(tmp_path / "run").predict(["The cast is great."])
    assert made.output == "cast,pos"
    assert {one.output for one in made.alternatives[:2]} == {"cast", "pos"}


def test_ordered_labels(tmp_path):
    def stars(count, seed):
        level = {"dull": 2, "awful": 1, "poor": 1, "fine": 3, "lovely": 10, "great": 10}
        return [
            {"text": row["text"], "label": str(level[row["text"].split()[3].strip(".")])}
            for row in rows(count, seed)
        ]

    data = write(tmp_path / "data", make=stars)
    found = fitted(tmp_path, data, SMALL, {"name": "classification", "labels": "ordinal"}, 30)
    assert found["metrics"]["mse"] < 3
    assert found["metrics"]["spearman"] > 90
    loaded = regard.load(tmp_path / "run")
    assert loaded.fields["label"].names == ["1", "2", "3", "10"]
    said = loaded.predict(["The film is awful. We saw it.", "The film is great. We saw it."])
    assert [one.output for one in said] == ["1", "10"]


@pytest.mark.parametrize(
    ("target", "scores"),
    [("grade", ["pearson", "spearman", "mse"]), ("label", ["accuracy", "f1", "ece"]),
     ("rank", ["map", "mrr"])],
)  # fmt: skip
def test_similarity(target, scores, tmp_path):
    data = write(tmp_path / "data", make=pairs)
    columns = {"group": "query"} if target == "rank" else {}
    task = {"name": "similarity", "target": target, "features": ["overlap"]}
    found = fitted(tmp_path, data, PAIR, task, 15, columns=columns)
    assert list(found["metrics"]) == scores
    best = found["metrics"][scores[0]]
    assert best > 85, best
    loaded = regard.load(tmp_path / "run")
    same, other = loaded.predict(
        ["w1 w2 w3 w4 w5 w6 ||| w1 w2 w3 w4 w5 w6", "w1 w2 w3 w4\tw5 w6 w7"]
    )
    if target == "grade":
        assert float(same.output) > 4 > 2 > float(other.output)
        assert same.score == pytest.approx(float(same.output), abs=1e-4)
    else:
        assert (same.output, other.output) == ("1", "0")
    (wrong,) = loaded.predict(["one text alone"])
    assert wrong.refused == "expected 2 inputs, a ||| b; got 1"


def test_entailment_and_rows_chosen_by_a_column(tmp_path):
    def named(count, seed):
        return [
            {"premise": p["a"], "hypothesis": p["b"], "label": "yes" if p["label"] else "no",
             "source": "one" if i % 2 else "two"}
            for i, p in enumerate(pairs(count, seed))
        ]  # fmt: skip

    data = write(tmp_path / "data", (240, 40, 40), named)
    task = tasks.load("entailment")()
    assert len(task.data({"path": str(data), "where": {"source": "one"}}).train) == 120
    assert len(task.data({"path": str(data), "where": {"source": ["one", "two"]}}).train) == 240
    with pytest.raises(RequestError, match="no line has the key 'sauce'"):
        task.data({"path": str(data), "where": {"sauce": "one"}})
    said = r"train.jsonl: none of 240 rows is one that data.where asks for, source: three"
    with pytest.raises(RequestError, match=said):
        task.data({"path": str(data), "where": {"source": "three"}})
    split = task.data({"path": str(data), "where": {"source": {"train": "one", "test": ["two"]}}})
    assert [len(one) for one in (split.train, split.dev, split.test)] == [120, 40, 20]
    with pytest.raises(RequestError, match=r"data.where.source: no split 'tests'.*'test'"):
        task.data({"path": str(data), "where": {"source": {"tests": "one"}}})
    found = fitted(tmp_path, data, PAIR, {"name": "entailment", "features": ["overlap"]}, 15)
    assert found["metrics"]["accuracy"] > 90


# -- objectives


def test_losses_by_hand():
    logits = torch.tensor([[1.0, -1.0, 0.5], [0.2, 0.1, -3.0]])
    labels = torch.tensor([2, -1])
    one = OBJECTIVES["one"]()
    p = logits[0].double().softmax(0).tolist()
    assert one.loss(logits, labels).item() == pytest.approx(-math.log(p[2]), rel=1e-5)
    assert one.loss(logits, labels, torch.tensor([3.0, 1.0])).item() == pytest.approx(
        -3 * math.log(p[2]), rel=1e-5
    )
    focal = OBJECTIVES["one"](focal=2.0).loss(logits, labels)
    assert focal.item() == pytest.approx(-((1 - p[2]) ** 2) * math.log(p[2]), rel=1e-5)
    several = OBJECTIVES["several"]().loss(logits, torch.tensor([[1.0, 0, 0], [0, 1, 1]]))
    signs = torch.tensor([[1.0, -1, -1], [-1, 1, 1]])
    assert several.item() == pytest.approx(-F.logsigmoid(signs * logits).sum().item(), rel=1e-6)
    ordinal = OBJECTIVES["ordinal"]().loss(logits, torch.tensor([1, -1]))
    borders = -F.logsigmoid(torch.tensor([1.0, -1, -1]) * logits[0]).mean()
    assert ordinal.item() == pytest.approx(borders.item(), rel=1e-6)
    wanted = torch.tensor([[0.25, 0.75, 0.0]])
    grade = OBJECTIVES["grade"]().loss(logits[:1], wanted)
    kl = sum(w * math.log(w / q) for w, q in zip((0.25, 0.75), p[:2], strict=True))
    assert grade.item() == pytest.approx(kl, rel=1e-5)


def test_borders_that_do_not_agree_still_give_probabilities():
    field = OBJECTIVES["ordinal"]().field().learn(["1", "2", "3"])
    made = OBJECTIVES["ordinal"]().answer("", [0.3, 0.6], field)
    every = [made, *made.alternatives]
    assert made.output == "2"
    assert sum(one.probability for one in every) == pytest.approx(1)


def test_balanced_classes_count_as_if_they_were_equally_frequent(tmp_path):
    def uneven(count, seed):
        return [
            {"text": f"text {i}", "label": "rare" if i % 5 == 0 else "common"} for i in range(count)
        ]

    data = write(tmp_path / "data", (100, 10, 10), uneven)
    task = tasks.load("classification")(weights="balanced")
    found = task.data({"path": str(data)})
    batch = found.train.collate(range(100))
    rare = found.fields["label"].names.index("rare")
    assert batch["weight"][batch["label"] == rare].sum().item() == pytest.approx(50)
    assert batch["weight"].sum().item() == pytest.approx(100)

    class Even(torch.nn.Module):
        def forward(self, source):
            return Output(torch.zeros(100, 2))

    trained, count = task.loss(Even(), batch, step=1)
    judged, _ = task.loss(Even(), batch)
    assert (trained.item(), judged.item()) == (pytest.approx(count * math.log(2)),) * 2


# -- word vectors


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    place = tmp_path_factory.mktemp("vectors") / "own.txt"
    words = ["is", "fine", "lovely", "great", "superb", "dull", "awful", "poor", "dreadful"]
    random = np.random.default_rng(3)
    table = random.normal(size=(len(words), 12)) * 0.1
    table[1:5, 0], table[5:, 0] = 2.0, -2.0
    lines = [f"{w} {' '.join(f'{x:.6f}' for x in v)}" for w, v in zip(words, table, strict=True)]
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.mark.parametrize("tune", [False, True])
def test_words_that_training_lacks_are_known_by_their_vectors(reviews, vectors, tune, tmp_path):
    told = {"path": str(vectors), "most": 9, "tune": tune}
    found = fitted(tmp_path, reviews, SMALL, {"name": "classification"}, 8, vectors=told)
    assert found["metrics"]["accuracy"] > 95
    loaded = regard.load(tmp_path / "run")
    said = loaded.predict(["The film is superb. We saw it.", "The film is dreadful. We saw it."])
    assert [one.output for one in said] == ["pos", "neg"]
    words = loaded.tokenizers["text"].vocabulary
    row = loaded.model.embed.weight[words.index("superb")]
    given = [float(x) for x in vectors.read_text().splitlines()[4].split()[1:]]
    kept = torch.allclose(row, torch.tensor(given), atol=1e-5)
    assert kept  # of words that training lacks no gradient comes either
    moved = loaded.model.embed.weight[words.index("great")]
    given = [float(x) for x in vectors.read_text().splitlines()[3].split()[1:]]
    assert torch.allclose(moved, torch.tensor(given), atol=1e-5) != tune


def test_what_is_wrong_with_vectors(reviews, vectors, tmp_path):
    def fit(**told):
        fitted(tmp_path / "a", reviews, {**SMALL, "embed": told.pop("embed", 12)},
               {"name": "classification"}, 1, vectors=told)  # fmt: skip

    with pytest.raises(RequestError, match=r"model.embed: expected 12, .*own.txt, got 16"):
        fit(path=str(vectors), embed=16)
    with pytest.raises(RequestError, match=r"there is no data at 'nowhere.txt'"):
        fit(path="nowhere.txt")
    with pytest.raises(RequestError, match=r"data.vectors: expected a path"):
        fit(most=3)
    with pytest.raises(
        RequestError, match=r"data.vectors.most: expected a number from 0 to .*, got -1"
    ):
        fit(path=str(vectors), most=-1)
    capitals = tmp_path / "capitals.txt"
    capitals.write_text(vectors.read_text().upper())
    with pytest.raises(RequestError, match=r"capitals.txt has none of the .* words of the tr"):
        fit(path=str(capitals), most=9)
    task = tasks.load("classification")()
    config = {"path": str(reviews), "vectors": {"path": str(vectors)}, "tokenizer": {"kind": "bpe"}}
    with pytest.raises(RequestError, match="expected a tokenizer of words, got 'bpe'"):
        task.data(config)


# -- what is wrong with data


def test_bad_rows_are_named_and_counted_and_unseen_labels_are_errors(tmp_path, caplog):
    data = write(tmp_path / "data", (20, 5, 4))
    lines = (data / "test.jsonl").read_text().splitlines()
    lines += ['{"text": " ", "label": "pos"}', '{"text": "so so", "label": "mixed"}', '{"text": 3}']
    (data / "test.jsonl").write_text("\n".join(lines) + "\n")
    with caplog.at_level(logging.WARNING):
        found = tasks.load("classification")().data({"path": str(data)})
    assert "test.jsonl:5: empty" in caplog.text
    assert "test.jsonl:6: unseen label" in caplog.text
    (kept,) = [line for line in caplog.messages if "unseen" in line]
    assert kept.endswith("the line stays: nothing is learned from it, and scores count it")
    assert dict(found.problems.left_out) == {"empty": 1, "lacks a column": 1}
    assert "'mixed' is not in the training data" in caplog.text
    assert "test.jsonl:7: lacks a column" in caplog.text
    assert len(found.test) == 5
    assert found.test.collate([4])["label"].tolist() == [-1]


def test_a_column_that_is_all_one_label(tmp_path):
    def same(count, seed):
        return [{"text": f"text {i}", "label": "pos"} for i in range(count)]

    data = write(tmp_path / "data", (5, 2, 2), same)
    with pytest.raises(RequestError, match="expected two labels or more in training, got 'pos'"):
        tasks.load("classification")().data({"path": str(data)})


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("classification", {"labels": "two"}, "there is no 'two'"),
        ("classification", {"weights": "even"}, "task.weights: 'even'"),
        ("classification", {"labels": "several", "weights": "balanced"}, "they are of classes"),
        ("classification", {"temperature": 0.0}, "task.temperature is 0; it must be above 0"),
        ("classification", {"threshold": 1.0}, "task.threshold is 1; it must be between 0 and 1"),
        ("classification", {"sentences": "line"}, "lines"),
        ("similarity", {"target": "degree"}, "there is no 'degree'"),
        ("similarity", {"features": ["overlaps"]}, "overlap"),
    ],
)
def test_options_that_are_none(name, options, said):
    with pytest.raises(RequestError, match=said):
        tasks.load(name)(**options).fields()


def test_the_positive_label_must_be_one_of_training(tmp_path):
    data = write(tmp_path / "data", (20, 5, 5), pairs)
    with pytest.raises(RequestError, match=r"task.positive: there is no label 'yes'"):
        tasks.load("similarity")("label", positive="yes").data({"path": str(data)})


def test_labels_may_be_a_list_in_json_and_other_cells_may_not(tmp_path, caplog):
    def several(count, seed):
        lists = [[], ["pos"], ["b", "a"], [3, "a"], "a,b"]
        return [{"text": f"text {i}", "label": lists[i % 5]} for i in range(count)]

    data = write(tmp_path / "data", (10, 5, 5), several)
    with (data / "test.jsonl").open("a") as file:
        file.write('{"text": ["a", "b"], "label": "a"}\n{"text": "a", "label": ["a", null]}\n')
    with caplog.at_level(logging.WARNING):
        found = tasks.load("classification")("several").data({"path": str(data)})
    assert found.fields["label"].names == ["3", "a", "b", "pos"]
    assert [one[0] for one in found.test.references] == ["", "pos", "a,b", "3,a", "a,b"]
    assert found.test.collate([0])["label"].tolist() == [[0, 0, 0, 0]]
    for line in (6, 7):
        assert f"test.jsonl:{line}: lacks a column" in caplog.text


def test_quotes_of_a_tsv_file_are_text(tmp_path):
    for split in ("train", "dev", "test"):
        lines = ["text\tlabel", 'he said "so\t1', 'it is "good"\t0', "plain\t1"]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    found = tasks.load("classification")().data({"path": str(tmp_path)})
    assert list(found.train.texts) == ['he said "so', 'it is "good"', "plain"]


def test_two_ordered_labels_have_one_border(tmp_path):
    def two(count, seed):
        return [{"text": f"text {i}", "label": i % 2} for i in range(count)]

    task = tasks.load("classification")("ordinal")
    found = task.data({"path": str(write(tmp_path / "data", (6, 2, 2), two))})
    assert task.model_arguments(found.fields)["num_classes"] == 1
    made = task.objective.answer("", [0.8], found.fields["label"])
    assert made.output == "1"
    assert made.probability_of("0") == pytest.approx(0.2)


def test_what_is_odd_about_pairs(tmp_path, caplog):
    data = write(tmp_path / "data", (20, 5, 1), pairs)
    rows = ['{"a": "w1", "b": " ", "score": 3}', '{"a": "w1", "b": "w2", "score": "nan"}',
            '{"a": "w1", "b": "w2", "score": 99}']  # fmt: skip
    with (data / "test.jsonl").open("a") as file:
        file.write("\n".join(rows) + "\n")
    task = tasks.load("similarity")("grade")
    with caplog.at_level(logging.WARNING):
        found = task.data({"path": str(data)})
    assert "test.jsonl:2: empty (no b)" in caplog.text
    assert "test.jsonl:3: not a number ('nan' is not finite)" in caplog.text
    outside = found.test.collate([1])["score"][0]
    assert (outside[-1], outside.sum()) == (1, 1)  # the end of the range; the score is of 99 itself
    assert found.test.references[1] == ["99"]
    asked = task.asked(["a ||| ", "a ||| b ||| c", " ||| ", ""], found.fields).refused
    assert [one.refused for one in asked] == [
        "b is empty", "expected 2 inputs, a ||| b; got 3", "a is empty", ""
    ]  # fmt: skip


# -- views


def test_what_it_looked_at(trained):
    loaded = regard.load(trained[1])
    made = loaded.task.view(loaded, ["The cast is great."])
    (run,) = made.runs
    assert run.output == "pos"
    columns = made.axes[made.maps[run.maps[0]].columns]
    assert columns.pieces == ["the", "cast", "is", "great", "."]
    np.testing.assert_allclose(made.maps[run.maps[0]].weights.sum(-1), 1, atol=1e-5)
    assert [panel.kind for panel in run.panels] == ["matrix", "bars"]
    with pytest.raises(RequestError, match="the input is empty"):
        loaded.task.view(loaded, [" "])


# -- several models


def test_models_vote_with_the_mean_of_their_calibrated_probabilities(trained, reviews, tmp_path):
    _, first = trained
    fitted(tmp_path, reviews, {**SMALL, "hidden": 6}, {"name": "classification"}, 2)
    one, two = regard.load(first), regard.load(tmp_path / "run")
    assert one.task.temperature != two.task.temperature
    both = one.together(two)
    texts = ["The cast is great.", "The plot is dull. We saw it."]
    for text, voted in zip(texts, both.predict(texts), strict=True):
        alone = [each.predict([text])[0].probability_of("pos") for each in (one, two)]
        assert voted.probability_of("pos") == pytest.approx(sum(alone) / 2, abs=1e-6)
    assert one.together() is one


def test_models_that_read_texts_in_other_ways_vote(trained, reviews, tmp_path):
    """Another tokenizer, and one of a model that reads characters too."""
    fitted(tmp_path / "bpe", reviews, SMALL, {"name": "classification"}, 2,
           tokenizer={"kind": "bpe", "vocab_size": 60})  # fmt: skip
    letters = {"name": "attention-via-attention", "embed": 8, "hidden": 8, "filters": 8}
    fitted(tmp_path / "own", reviews, letters, {"name": "classification", "characters": True}, 2)
    one = regard.load(trained[1])
    others = [regard.load(tmp_path / name / "run") for name in ("bpe", "own")]
    every = [one, *others]
    texts = ["The cast is great.", "", "The plot is dull. We saw it. " * 20]
    for whole in (one.together(*others), others[1].together(one, others[0])):
        found = whole.predict(texts)
        assert found[1].output == ""
        for text, voted in zip(texts[::2], found[::2], strict=True):
            alone = [each.predict([text])[0].probability_of("pos") for each in every]
            assert voted.probability_of("pos") == pytest.approx(sum(alone) / 3, abs=1e-6)
    of_test = measure(one.together(*others))
    assert of_test["examples"] == 40
    assert of_test["metrics"]["accuracy"] > 90


def test_pairs_with_and_without_features_vote(tmp_path):
    data = write(tmp_path / "data", (60, 20, 20), pairs)
    task = {"name": "similarity", "target": "label"}
    fitted(tmp_path / "plain", data, PAIR, task, 1)
    fitted(tmp_path / "more", data, PAIR, {**task, "features": ["overlap"]}, 1)
    plain, more = (regard.load(tmp_path / name / "run") for name in ("plain", "more"))
    for both in (plain.together(more), more.together(plain)):
        (voted,) = both.predict(["w1 w2 w3 ||| w2 w3 w9"])
        alone = [one.predict([voted.input])[0].probability_of("1") for one in (plain, more)]
        assert voted.probability_of("1") == pytest.approx(sum(alone) / 2, abs=1e-6)
    row = {"a": "w1 ||| w2", "b": "w3", "label": 1}
    (tmp_path / "odd.jsonl").write_text(json.dumps(row) + "\n")
    said = r"of the ensemble cannot read 'w1 \|\|\| w2 \|\|\| w3': expected 2 inputs.* got 3"
    with pytest.raises(RequestError, match=said):
        measure(plain.together(more), tmp_path / "odd.jsonl")


def test_models_of_other_labels_do_not_vote(trained, tmp_path):
    def stars(count, seed):
        return [{"text": row["text"], "label": row["of"]} for row in rows(count, seed)]

    data = write(tmp_path / "data", make=stars)
    fitted(tmp_path, data, SMALL, {"name": "classification"}, 1)
    with pytest.raises(RequestError, match="another field 'label' than"):
        regard.load(trained[1]).together(regard.load(tmp_path / "run"))


def test_models_of_other_tasks_do_not_vote(trained, tmp_path):
    data = write(tmp_path / "data", (60, 20, 20), pairs)
    fitted(tmp_path, data, PAIR, {"name": "similarity", "target": "label"}, 1)
    with pytest.raises(RequestError, match="only models of one task go together"):
        regard.load(trained[1]).together(regard.load(tmp_path / "run"))
