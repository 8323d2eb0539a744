import pytest

import regard
from regard import tasks
from regard.data import sources
from regard.errors import RequestError
from regard.tasks import Prediction

LINES = "read\tR EH D | R IY D\nIt's\tIH T S\ncat\tK AE T\n"


@pytest.fixture
def folder(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.tsv").write_text(LINES)
    return tmp_path


def test_every_variant_is_learned_and_none_is_wrong(folder):
    task = tasks.load("pronunciation")()
    data = task.data({"path": str(folder)})
    assert data.train.texts == ["read", "read", "It's", "cat"]
    target, source = data.tokenizers["target"], data.tokenizers["source"]
    spoken = [target.decode(ids.tolist()) for ids in data.train.target]
    assert spoken == ["R EH D", "R IY D", "IH T S", "K AE T"]
    assert (source.kind, target.kind) == ("characters", "words")
    assert source.decode(data.train.source[2].tolist()) == "it's"
    assert len(data.test) == 3
    assert data.test.references[0] == ["R EH D", "R IY D"]
    first = tasks.load("pronunciation")(variants="first").data({"path": str(folder)})
    assert len(first.train) == 3
    assert first.train.references[0] == ["R EH D", "R IY D"]


def test_scores_go_by_the_nearest_variant(folder):
    task = tasks.load("pronunciation")()
    test = task.data({"path": str(folder)}).test
    outputs = ["R IY D", "IH T", "K AE T"]
    scores = task.score([Prediction(t, o) for t, o in zip(test.texts, outputs, strict=True)], test)
    assert scores["per"].value == pytest.approx(100 * 1 / 9)
    assert scores["wer"].value == pytest.approx(100 / 3)
    assert {"per", "wer"} <= set(task.lower_is_better)


def test_columns_may_have_names(tmp_path):
    (tmp_path / "train.tsv").write_text("id\tword\tsaid\n1\tcat\tK AE T\n")
    config = {
        "path": str(tmp_path), "header": True, "columns": {"source": "word", "target": "said"}
    }  # fmt: skip
    data = tasks.load("pronunciation")().data(config)
    assert data.train.references == [["K AE T"]]


def test_an_unknown_setting():
    with pytest.raises(RequestError, match="variants is 'some'"):
        tasks.load("pronunciation")(variants="some")


def test_the_shipped_dictionary():
    folder = sources.shipped() / "pronunciation"
    task = tasks.load("pronunciation")()
    data = task.data({"path": str(folder), "train": str(folder / "dev.tsv.gz")})
    assert len(data.train) > len(data.dev) == 2_538
    assert len(data.test) == 11_241
    assert len(data.tokenizers["source"]) == 4 + 27
    assert len(data.tokenizers["target"]) == 4 + 39
    assert not len(data.problems)
    assert (data.test.source.flat > 3).all()
    assert (data.test.target.flat > 3).all()


def test_the_shipped_pronouncer_is_as_good_as_its_card_says():
    """On 300 words of dev, which it was not trained on: PER 6.44 on all of test."""
    model = regard.load("pronunciation-small")
    assert model("thoroughbred") == "TH ER OW B R EH D"
    task = tasks.load("pronunciation")()
    folder = sources.shipped() / "pronunciation"
    given = {"path": str(folder), "train": str(folder / "dev.tsv.gz"), "limit": {"dev": 300}}
    dev = task.data(given).dev
    assert len(dev) == 300
    scores = task.score(model.predict(dev.texts, beam_size=1), dev)
    assert scores["per"].value < 8.5
