"""`regard demo`, on a recipe of seconds."""

import gzip
import shutil
import time
from dataclasses import replace
from itertools import islice

import pytest

from regard import decode, loading, recipe
from regard.cli import demo
from regard.cli._common import configure_talk
from regard.data.sources import shipped
from regard.folder import reading
from tests.cli.run import run
from tests.folder import toy

RECIPE = """
model: {name: rnnsearch, embed: 8, hidden: 12, align: 8, maxout: 6}
task: {name: pronunciation}
data: {path: PLACE}
train: {steps: 3, batch: {tokens: 400}, optimizer: {name: adam}, validate: {examples: 0}}
decode: {name: greedy, max_length: 10}
"""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The demo with a small recipe, a toy translator and two sentences a file."""
    place = tmp_path_factory.mktemp("demo")
    for split, count in (("train", 60), ("dev", 10), ("test", 20)):
        with gzip.open(shipped() / "pronunciation" / f"{split}.tsv.gz", "rt") as file:
            (place / f"{split}.tsv").write_text("".join(islice(file, 2000, 2000 + count)))
    (place / "quick.yaml").write_text(RECIPE.replace("PLACE", str(place)))
    toy.make(place / "models" / demo.TRANSLATOR, "transformer")
    for name in (demo.REVIEWER, *demo.READERS):
        shutil.copytree(reading.SHIPPED / name, place / "models" / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "RECIPE", str(place / "quick.yaml"))
        patch.setattr(reading, "SHIPPED", place / "models")
        yield place


@pytest.fixture
def small(monkeypatch):
    """Only the first sentences of the samples: what is measured here is not speed."""
    own = demo._sample

    def few(loaded, name):
        subset = decode.build({"name": "greedy", "max_length": 4})
        return own(replace(loaded, decoder=subset), name)

    monkeypatch.setattr(demo, "_sample", few)


@pytest.mark.slow
def test_the_demo_ends_with_one_json_line(capsys, quick, small, tmp_path):
    out = tmp_path / "out"
    ran = run(capsys, "demo", "--json", "--seconds", "1", "-o", str(out))
    assert (ran.code, ran.out.count("\n")) == (0, 1), ran.out + ran.err
    result = ran.result
    assert list(result) == [
        "pronunciation",
        "translation",
        "review",
        "found",
        "pictures",
        "seconds",
    ]
    assert 0 < result["pronunciation"]["per"] <= 200
    assert 0 < result["pronunciation"]["wer"] <= 100
    assert result["translation"]["bleu"] >= 0
    assert "nrefs:1" in result["translation"]["signature"]
    assert {k: v["examples"] for k, v in result["translation"]["files"].items()} == {
        "mt-gnome-de": 81,
        "mt-bible-de": 506,
    }
    assert result["pictures"] == [
        str(out / "pictures" / f"{name}.png")
        for name in ("pronunciation", "translation", "heads", "review", *demo.READERS)
    ]
    assert "[V gave]" in result["found"]["roles-small"]
    assert "[battery life]" in result["found"]["aspects-small"]
    assert result["found"]["relations-small"] == "Cause-Effect(e2,e1)"
    assert result["review"]["output"] == "pos"
    assert 0.5 < result["review"]["probability"] < 1
    for picture in result["pictures"]:
        with open(picture, "rb") as file:
            assert file.read(4) == b"\x89PNG"
    loaded = loading.load(out / "pronunciation")
    for word in result["pronunciation"]["words"]:
        assert loaded.translate(word["word"]) == word["output"]
        assert word["right"] == (word["output"] in word["gold"].split(" | "))


def test_people_see_words_scores_and_places(capsys, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "SHIPPED", tmp_path)
    ran = run(capsys, "demo", "--seconds", "1", "-o", str(tmp_path / "out"))
    assert ran.code == 0  # a build without the translator is no failure
    for said in (
        "Words it has never seen",
        "PER",
        "WER",
        "does not come with this build",
        "picture: ",
    ):
        assert said in ran.out


@pytest.mark.slow
def test_a_model_is_reused_only_if_asked(capsys, quick, tmp_path, monkeypatch):
    from regard import train

    monkeypatch.setattr(reading, "SHIPPED", tmp_path)
    own, calls = train.fit, []
    monkeypatch.setattr(
        train, "fit", lambda *a, **k: calls.append(k) or own(*a, **k), raising=False
    )
    words = ("demo", "--seconds", "1", "-o", str(tmp_path / "out"), "--json")
    first = run(capsys, *words, "--reuse").result  # nothing there to reuse
    again = run(capsys, *words, "--reuse").result
    assert len(calls) == 1
    assert first["pronunciation"] == again["pronunciation"]
    run(capsys, *words)
    assert len(calls) == 2
    assert calls[1]["fresh"]


def test_without_matplotlib_there_are_no_pictures(capsys, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "SHIPPED", tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    ran = run(capsys, "demo", "--seconds", "1", "-o", str(tmp_path / "out"), "--json")
    assert (ran.code, ran.result["pictures"]) == (0, [])
    assert "pip install 'regard[view]'" in ran.err


def test_something_is_said_every_few_seconds(capsys):
    configure_talk()  # whatever other tests left: one of them says -q
    with demo._heartbeat(every=0.3):
        time.sleep(1.5)
    assert capsys.readouterr().err.count("working") >= 2


def test_the_words_are_of_the_test_split_and_nowhere_else():
    data = shipped() / recipe.load("pronunciation/rnnsearch-cmudict-demo").data["path"]
    words = {}
    for split in ("train", "dev", "test"):
        with gzip.open(data / f"{split}.tsv.gz", "rt") as file:
            words[split] = {line.split("\t")[0] for line in file}
    assert set(demo.WORDS) <= words["test"]
    assert not set(demo.WORDS) & (words["train"] | words["dev"])
