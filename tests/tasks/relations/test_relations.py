"""Relations of made-up abstracts: from files to training, scores, predictions and a view."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard import catalog, recipe, tasks, train
from regard.cli.evaluate import measure
from regard.data.annotations.documents import Mention, Relation, RelationDocument, as_line
from regard.data.formats.documents import WRITERS, read, write
from regard.data.pairs.concept_positions import PLACES
from regard.datasets.held_out import held_out
from regard.errors import RequestError
from regard.fields.annotated import AnnotatedField, NamesField
from regard.fields.relation import RelationField
from regard.tasks.relations.relations import Relations
from regard.tasks.relations.sampling import SAMPLINGS
from regard.tasks.relations.threshold import best_threshold
from regard.views import ViewOptions
from tests.cli.run import run
from tests.tasks.abstracts import abstracts, tiny, written


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return written(tmp_path_factory.mktemp("abstracts"))


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    (place / "small.yaml").write_text(tiny({"path": str(data)}, sampling="balanced"))
    told = recipe.load(place / "small.yaml")
    return train.fit(told, place / "run", progress=False), place / "run"


@pytest.fixture(scope="module")
def loaded(trained):
    return regard.load(trained[1])


def test_it_is_trained_and_scored(trained):
    metrics, folder = trained
    assert metrics["metrics"]["f1"] > 85
    assert set(metrics["metrics"]) == {"f1", "precision", "recall"}
    told = json.loads((folder / "config.json").read_text())["task"]
    assert 0 < told["threshold"] < 1  # found on dev: how is tested of `best_threshold`


def test_a_model_with_cues_and_features_comes_back_from_its_folder(data, tmp_path):
    more = {"features": True, "cues": 64, "sampling": "balanced"}
    (tmp_path / "small.yaml").write_text(tiny({"path": str(data)}, **more))
    told = recipe.load(tmp_path / "small.yaml", ["train.epochs=1"])
    metrics = train.fit(told, tmp_path / "run", progress=False)["metrics"]
    again = regard.load(tmp_path / "run")
    assert again.model.cues.weight.shape[0] == 64
    found = measure(again)["metrics"]
    assert found == pytest.approx(metrics)


def test_models_answer_together_each_as_sure_as_its_threshold_says(loaded):
    """A pair is at the threshold where the mean of the distances to the own ones is 0."""
    torch.manual_seed(3)
    other = copy.deepcopy(loaded.model)
    for weight in other.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    tasks = [loaded.task, loaded.task._with_threshold(0.2)]
    both = loaded.task.together([loaded.model, other], tasks)
    given = loaded.task.asked([as_line(one) for one in abstracts(6, 11)], loaded.fields).dataset
    inputs = given.collate(range(6))["document"]
    with torch.no_grad():
        each = [m(inputs).logits.double().log_softmax(-1) for m in (loaded.model, other)]
        found = both(inputs)
    odds = [one[:, 1] - one[:, 0] for one in each]
    first, second = (math.log(t / (1 - t)) for t in (loaded.task.threshold, 0.2))
    far = (odds[0] - first + odds[1] - second) / 2
    torch.testing.assert_close(found.logits[:, 1] - found.logits[:, 0] - first, far)
    assert (far > 0).any()
    assert (far < 0).any()
    names = torch.stack([m(inputs).extra["names"].double().log_softmax(-1) for m in both.models])
    torch.testing.assert_close(found.extra["names"], names.mean(0))


@pytest.mark.parametrize("format", ["jsonl", "pubtator"])
def test_documents_with_mentions_are_answered_in_any_format(loaded, format):
    some = abstracts(20, 9)
    found = loaded.predict([WRITERS[format]([one]) for one in some])
    field = loaded.fields["relation"]
    right = sum(one.output == field.written(own) for one, own in zip(found, some, strict=True))
    assert right >= 16
    for one, own in zip(found, some, strict=True):
        assert one.format == format
        assert replace(one.document, relations=()) == replace(own, relations=())
        assert [r.key for r in one.pairs] == [("CID", *p) for p in field.pairs(own)]
        there = [r for r in one.pairs if r.probability >= loaded.task.threshold]
        assert list(one.document.relations) == there
        if there:
            assert math.exp(one.score) == pytest.approx(min(r.probability for r in there))
        assert json.loads(json.dumps(one.as_json()))["document"]["id"] == own.id


def test_what_was_found_is_put_back_into_the_format(loaded, tmp_path):
    some = abstracts(8, 9)
    found = [one.document for one in loaded.predict([as_line(one) for one in some])]
    for name in ("out.pubtator", "out.xml", "out.jsonl"):
        write(found, tmp_path / name)
    told = (tmp_path / "out.pubtator").read_text()
    count = sum(len(one.relations) for one in found)
    assert told.count("\tCID\t") == (tmp_path / "out.xml").read_text().count("<relation ") == count


def test_the_command_writes_the_format_that_came_in(trained, tmp_path, capsys):
    some = abstracts(3, 9)
    write(some, tmp_path / "in.txt", "pubtator")
    done = run(capsys, "predict", str(trained[1]), "-i", str(tmp_path / "in.txt"))
    (tmp_path / "out.txt").write_text(done.out)
    back = [one for _, one in read(tmp_path / "out.txt", "pubtator")]
    assert [replace(one, relations=()) for one in back] == [
        replace(one, relations=()) for one in some
    ]
    lines = run(capsys, "predict", str(trained[1]), as_line(some[0]), some[0].text).out.splitlines()
    assert json.loads(lines[0])["mentions"] == json.loads(as_line(some[0]))["mentions"]
    assert "Chemical:" in lines[1] or not lines[1]


def test_mentions_of_a_bare_text_are_named_by_the_model(loaded):
    own = abstracts(1, 9)[0]
    (found,) = loaded.predict([own.text])
    named = [(m.start, m.end, m.type) for m in found.document.mentions]
    assert len({*named} & {(m.start, m.end, m.type) for m in own.mentions}) >= 6
    assert all(one.head.startswith("Chemical:") for one in found.pairs)
    told = found.as_json()["document"]["mentions"][0]
    assert told["concepts"] == [f"{told['type']}:{told['text'].lower()}"]


def test_odd_documents_are_answered_or_refused_in_a_sentence(loaded):
    long = "zorin was toxic . rash was severe . " * 14  # 112 pieces
    drug, harm = (
        Mention(((0, 5), (10, 15)), "Chemical", ("A",)),
        Mention(((6, 9),), "Disease", ("B",)),
    )
    odd = RelationDocument("1", long, (drug, harm, Mention(((0, 15),), "Chemical", ("C", "A"))))
    inside = loaded.predict(
        [as_line(odd), as_line(replace(odd, mentions=())), "", "{", "7|t|x\n7\t0"]
    )
    assert [r.key for r in inside[0].pairs] == [("CID", "A", "B"), ("CID", "C", "B")]
    assert (inside[1].output, inside[1].pairs, inside[1].document.mentions) == ("", (), ())
    assert inside[2].output == ""
    assert inside[3].refused
    assert "expected 4 cells" in inside[4].refused
    alone = [loaded.predict([text])[0].output for text in (as_line(odd), "rash")]
    assert alone[0] == inside[0].output


def test_batches_and_neighbors_change_nothing(loaded):
    some = [as_line(one) for one in abstracts(12, 4)] + [abstracts(1, 5)[0].text]
    together = loaded.predict(some)
    for text, one in zip(some, together, strict=True):
        (alone,) = loaded.predict([text])
        assert alone.output == one.output
        for a, b in zip(alone.pairs, one.pairs, strict=True):
            assert a.probability == pytest.approx(b.probability, abs=1e-5)


def test_the_view_shows_what_the_mentions_of_a_pair_looked_at(loaded):
    one = abstracts(1, 9)[0]
    head, tail = loaded.fields["relation"].pairs(one)[2]
    view = loaded.task.view(loaded, [as_line(one)], ViewOptions(target=f"{head} {tail}"))
    (run,) = view.runs
    assert run.result["pair"] == [head, tail]
    weights = view.maps[0].weights
    assert weights.shape == (2, 2, len(run.result["pieces"]))
    assert np.allclose(weights.sum(-1), 1, atol=1e-4)
    assert view.axes[view.maps[0].rows].pieces == [f"{x.lower()} ({x})" for x in (head, tail)]
    assert {panel.kind for panel in run.panels} == {"text", "table", "bars"}
    with pytest.raises(RequestError, match="no pair of the document; there is"):
        loaded.task.view(loaded, [as_line(one)], ViewOptions(target="A B"))
    (bare,) = loaded.task.view(loaded, ["nothing"], ViewOptions()).runs
    assert bare.result["input"] == "nothing"


@pytest.mark.parametrize("format", ["bioc", "jsonl"])
def test_other_formats_give_the_same_data(data, tmp_path, format):
    one = tasks.load("relations")().data({"path": str(data), "tokenizer": {"vocab_size": 200}})
    place = written(tmp_path / format, format=format)
    other = tasks.load("relations")().data({"path": str(place), "tokenizer": {"vocab_size": 200}})
    assert one.test.extras["document"] == other.test.extras["document"]
    assert np.array_equal(
        one.train.columns["document"].places.flat, other.train.columns["document"].places.flat
    )


def test_a_share_of_the_training_documents_is_held_out(data):
    task, files = Relations(), [str(data / "train.txt"), str(data / "dev.txt")]
    config = {"train": files, "dev": {"share": 0.2, "seed": 3}, "test": str(data / "test.txt")}
    found = task.data(config)
    assert (len(found.train), len(found.dev), len(found.test)) == (144, 36, 30)
    train, dev = held_out({"share": 0.2, "seed": 3}, 180)
    assert sorted(train + dev) == list(range(180))
    other = task.data({**config, "dev": {"share": 0.2, "seed": 4}})
    assert other.dev.texts != found.dev.texts
    alone = task.data(config, found.fields, ["dev"])
    assert alone.train is None
    assert alone.dev.texts == found.dev.texts
    for told, said in (({"share": 1.0}, "leaves 0"), ({"shares": 1.0}, "no key 'shares'")):
        with pytest.raises(RequestError, match=said):
            task.data({**config, "dev": told})
    with pytest.raises(RequestError, match="no key 'trian'"):
        task.data({"trian": "x"})


def test_unknown_relations_and_types_stay_and_count_as_errors(data, tmp_path):
    one = abstracts(1)[0]
    drug, other, harm, _ = one.concepts
    odd = (Relation("NEW", drug, harm), Relation("CID", drug, other))
    write([replace(one, relations=odd)], tmp_path / "test.txt")
    config = {"train": str(data / "train.txt"), "test": str(tmp_path / "test.txt")}
    found = Relations().data(config)
    assert found.problems.counts == {"unseen label": 1, "unseen types": 1}
    assert not found.problems.left_out
    assert found.test.columns["relation"].labels[0].tolist() == [-1, 0, 0, 0]
    assert found.test.references[0][0].count(";") == 1


def test_hypernyms_are_no_training_examples_and_are_scored_apart(data, tmp_path):
    one = RelationDocument(
        "1", "zorin rash skin",
        (
            Mention(((0, 5),), "Chemical", ("Z",)), Mention(((6, 10),), "Disease", ("RASH",)),
            Mention(((11, 15),), "Disease", ("SKIN",)),
        ),
        (Relation("CID", "Z", "RASH"),),
    )  # fmt: skip
    write([one], tmp_path / "train.txt")
    (tmp_path / "tree.tsv").write_text("SKIN\tC17\nRASH\tC17.800\n")
    config = {"train": str(tmp_path / "train.txt"), "tokenizer": {"vocab_size": 50}}
    plain = Relations().data(config).train
    assert plain.columns["relation"].labels[0].tolist() == [1, 0]
    task = Relations(tree=str(tmp_path / "tree.tsv"))
    found = task.data(config).train
    assert found.columns["relation"].labels[0].tolist() == [1, -1]
    said = [tasks.Prediction("", "Z CID RASH; Z CID SKIN")]
    scores = {name: score.value for name, score in task.score(said, found).items()}
    assert scores["precision"] == 50
    assert scores["filtered_precision"] == scores["filtered_f1"] == 100


def test_pieces_of_mentions_are_those_with_their_letters():
    fields = {"document": AnnotatedField("bpe", 60, end=False), "names": NamesField("document")}
    one = RelationDocument(
        "1", "x ab  (cd) ef", (
            Mention(((7, 9),), "X", ("C",)), Mention(((2, 4), (11, 13)), "Y", ("A", "B")),
            Mention(((7, 8),), "Z", ("D",)),
        ), (Relation("R", "A", "C"),),
    )  # fmt: skip
    known = {
        "document": fields["document"].learn([one]), "names": fields["names"].learn([one]),
        "relation": RelationField("document").learn([one]),
    }  # fmt: skip
    pieces = known["document"].cut(one.text)
    column = known["document"].encode([one], print, known)
    words = {}
    for place, entity in zip(column.places[0], column.entities[0], strict=True):
        start, end = pieces.offsets[place]
        name = [*one.concepts][entity]
        words[name] = words.get(name, "") + one.text[start:end].strip()
    assert words["A"] == words["B"] == "abef"
    assert words["C"] == "cd"
    assert words["D"][0] == "c"
    assert known["relation"].pairs(one) == [("A", "C"), ("B", "C")]
    tags = known["names"].encode([one], print, known).ids[0]
    named = known["names"].mentions(tags.tolist(), pieces)
    assert [(m.of(one.text), m.type) for m in named] == [("ab", "Y"), ("cd", "X"), ("ef", "Y")]


def test_a_second_relation_of_a_pair_is_told_of():
    """A pair has one class; the last one that is said is learned."""
    one = RelationDocument(
        "1", "a b", (Mention(((0, 1),), "X", ("A",)), Mention(((2, 3),), "X", ("B",))),
        (Relation("R", "A", "B"), Relation("R", "A", "B"), Relation("S", "A", "B")),
    )  # fmt: skip
    field, told = RelationField("document").learn([one]), []
    column = field.encode([one], lambda *said: told.append(said), {})
    assert [field.names[label] for label in column.labels[0].tolist()] == ["S", ""]
    assert [(row, kind) for row, kind, _ in told] == [(0, "several relations of a pair")]
    assert "'S' is learned" in told[0][2]


def test_what_is_said_of_pairs_goes_with_their_documents(data, tmp_path):
    words = [f"{word} {at} 1.0 0.5 0.25" for at, word in enumerate(("toxic", "safe", "unseen"))]
    (tmp_path / "vectors.txt").write_text("\n".join(words) + "\n")
    config = {
        "path": str(data), "tokenizer": {"kind": "wordpunct", "vocab_size": 200},
        "vectors": {"path": str(tmp_path / "vectors.txt"), "most": 3, "tune": False},
    }  # fmt: skip
    task = Relations(features=True, cues=64)
    found = task.data(config)
    sizes = task.model_arguments(found.fields)
    assert (sizes["num_features"], sizes["num_cues"]) == (len(PLACES), 64)
    model = catalog.build("bran", sizes, {"dim": 8, "heads": 2, "blocks": 1, "embed": 4})
    task.prepare(model, found)
    own = found.fields["document"].tokenizer.vocabulary.index("unseen")
    assert model.embed.weight[own].tolist() == [2.0, 1.0, 0.5, 0.25]
    assert not model.embed.weight.requires_grad
    whole, some = found.train.collate(range(9)), found.train.subset([7, 2]).collate([1])
    extras = whole["document"].extras
    assert torch.equal(extras["features"][2], some["document"].extras["features"][0])
    alone = some["document"].extras["cues"][0]
    assert torch.equal(extras["cues"][2][:, : alone.shape[1]], alone)
    assert (extras["cues"][2][:, alone.shape[1] :] == -1).all()
    total, count = task.loss(model, whole, 0)
    total.backward()
    assert count == 9
    assert float(model.cues.weight.grad.abs().sum()) > 0
    continued = task.data(config, found.fields, ["train"])
    assert continued.fields["document"].pretrained.vectors.shape == (3, 4)
    assert (
        not {"features", "cues"}
        & Relations()
        .data({"path": str(data), "tokenizer": {"vocab_size": 200}})
        .train.collate([0])["document"]
        .extras.keys()
    )


def test_samplings_weigh_as_they_say():
    true = torch.tensor([True, False, False, False])
    assert SAMPLINGS["all"](true).tolist() == [0.25] * 4
    assert SAMPLINGS["balanced"](true).tolist() == pytest.approx([0.5] + [1 / 6] * 3)
    torch.manual_seed(1)
    drawn = torch.stack([SAMPLINGS["sides"](true) for _ in range(2000)])
    assert torch.allclose(drawn.mean(0), SAMPLINGS["balanced"](true), atol=0.04)
    assert {tuple(row.gt(0).tolist()) for row in drawn} == {
        (True, *[False] * 3),
        (False, *[True] * 3),
    }
    for name in ("sides", "balanced"):
        assert SAMPLINGS[name](~true[1:]).tolist() == pytest.approx([1 / 3] * 3)
        assert SAMPLINGS[name](true[1:]).tolist() == pytest.approx([1 / 3] * 3)


def test_the_threshold_is_the_best_of_all():
    random = np.random.default_rng(3)
    for _ in range(20):
        scores = random.integers(0, 12, 40) / 12
        right = random.random(40) < scores
        true = int(right.sum()) + 3

        def f1(threshold, scores=scores, right=right, true=true):
            said = scores >= threshold
            return 2 * (right & said).sum() / (said.sum() + true)

        best = max(f1(t) for t in np.linspace(0, 1, 49))
        assert f1(best_threshold(scores, right, true)) == pytest.approx(best)
    assert best_threshold(np.zeros(0), np.zeros(0, bool), 3) == 0.5


@pytest.mark.parametrize("told", [{"sampling": "x"}, {"threshold": 1.5}])
def test_settings_out_of_range_are_refused(told):
    with pytest.raises(RequestError, match=f"task.{next(iter(told))}"):
        Relations(**told)
