"""A task is one file and one row: language identification is trained, scored, used and saved."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import loading, tasks
from regard.data import sources
from tests.cli.run import run
from tests.tasks.toy_language import LanguageIdentification

RECIPE = """
model:
  {name: self-attentive, embed: 16, hidden: 16, attention: 12, hops: 2, ffn_dim: 16, penalty: 0.1}
task: {name: language-identification}
data: {path: DATA, columns: {language: lang}}
train:
  epochs: 3
  batch: {tokens: 1000}
  optimizer: {name: adam, lr: 0.01}
  validate: {every: 10, examples: 100}
  log: 10
  seed: 1
"""


def test_dev_is_judged_in_batches_that_the_task_can_take(monkeypatch):
    """Pictures are of size 1 each: tokens alone would put all of dev into one batch."""

    class Dev:
        sizes = np.ones((600, 1), np.int64)

        def collate(self, indices):
            seen.append(len(indices))
            return torch.zeros(len(indices))

    seen = []
    task = LanguageIdentification()
    monkeypatch.setattr(task, "loss", lambda model, batch: (batch.sum(), len(batch)))
    found = task.judge(
        torch.nn.Identity(), Dev(), None, None, {}, tokens=4096, device=torch.device("cpu")
    )
    assert found == (0.0, 600, {})
    assert max(seen) <= task.most
    assert sum(seen) == 600


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Included English and German sentences, as a TSV with a label column."""
    place = tmp_path_factory.mktemp("data")
    files = [("mt-bible-de", "test"), ("mt-bible-de", "dev"), ("mt-gnome-de", "test")]
    for split, (name, own) in zip(("train", "dev", "test"), files, strict=True):
        source = sources.splits(sources.shipped() / name)[own]
        with gzip.open(source, "rt", encoding="utf-8") as file:
            heading, *rows = (line.rstrip("\n").split("\t") for line in file)
        pairs = [[row[heading.index(language)] for language in ("en", "de")] for row in rows[:80]]
        lines = [
            f"{text}\t{language}"
            for pair in pairs
            for text, language in zip(pair, ("en", "de"), strict=True)
        ]
        (place / f"{split}.tsv").write_text("\n".join(["text\tlang", *lines]) + "\n")
    return place


@pytest.fixture(scope="module", autouse=True)
def row():
    """One row in the table of tasks."""
    with pytest.MonkeyPatch.context() as patch:
        row = "tests.tasks.toy_language:LanguageIdentification"
        patch.setitem(tasks.TASKS, "language-identification", row)
        yield


@pytest.fixture(scope="module")
def folder(data, row, tmp_path_factory):
    place = tmp_path_factory.mktemp("toy")
    (place / "toy.yaml").write_text(RECIPE.replace("DATA", str(data)))
    from regard import recipe, train

    train.fit(recipe.load(place / "toy.yaml"), place / "run", progress=False)
    return str(place / "run")


def test_the_task_is_short():
    lines = Path(__file__).with_name("toy_language.py").read_text().splitlines()
    assert len(lines) <= 60


def test_it_learns_and_is_evaluated(folder, data, capsys):
    ran = run(capsys, "evaluate", folder, "--json")
    assert ran.code == 0
    assert ran.result["metrics"]["accuracy"] > 80
    other = run(capsys, "evaluate", folder, "--data", str(data / "dev.tsv"), "--columns",
                "language=lang", "--json")  # fmt: skip
    assert other.code == 0
    assert other.result["examples"] == len((data / "dev.tsv").read_text().splitlines()) - 1
    wrong = run(
        capsys, "evaluate", folder, "--data", str(data / "dev.tsv"), "--columns", "lang=lang"
    )
    assert wrong.code == 2
    assert "data.columns has no key 'lang': did you mean 'language'?" in wrong.err


def test_it_predicts(folder, capsys):
    ran = run(capsys, "predict", folder, "This is not the same window as the other one.",
              "Das Fenster wird nicht geschlossen.", "", "--json")  # fmt: skip
    assert ran.code == 0
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["output"] for one in found] == ["en", "de", ""]
    assert found[0]["score"] < 0


def test_an_option_that_it_cannot_use_is_refused(folder, capsys):
    ran = run(capsys, "predict", folder, "a text", "--prefix", "x")
    assert ran.code == 2
    assert "prefix: the task language-identification cannot use it" in ran.err


def test_it_is_saved_and_loaded(folder):
    files = {path.name for path in Path(folder).iterdir()}
    assert {"tokenizer.json", "field.language.json", "config.json"} <= files
    assert json.loads((Path(folder) / "field.language.json").read_text())["labels"] == ["de", "en"]
    loaded = loading.load(folder)
    assert loaded.fields["language"].names == ["de", "en"]
    (text,) = loaded.predict(["Die Datei wird nicht gefunden."])
    assert text.output == "de"


def test_an_unseen_label_and_empty_cells_are_told(folder, data, tmp_path, capsys):
    file = tmp_path / "odd.tsv"
    file.write_text("text\tlang\nA window is open.\tfr\n\ten\nThe file is not found.\t\nYes.\ten\n")
    ran = run(capsys, "evaluate", folder, "--data", str(file), "--json")
    assert ran.code == 0
    assert ran.result["examples"] == 2  # the unseen label counts, as an error
    assert ran.result["metrics"]["accuracy"] <= 50
    assert "odd.tsv:2: unseen label (language: 'fr' is not in the training data)" in ran.err
    assert "odd.tsv:3: empty (no text)" in ran.err
    assert "odd.tsv:4: empty (no language)" in ran.err


def test_it_is_looked_at_without_a_view_of_its_own(folder, tmp_path, capsys):
    """In the terminal, as a figure and as a page, by the house's own panels."""
    from regard import viewer

    shown = run(capsys, "look", str(folder), "das ist gut").out
    for said in ("self-attentive", "mean of", "d", "</s>", "answers"):
        assert said in shown or said == "mean of"
    assert shown.splitlines()[1] in ("de", "en")
    for name in ("page.html", "look.png", "look.seen"):
        assert run(capsys, "look", str(folder), "das ist gut", "-o", str(tmp_path / name)).code == 0
    view = viewer.read(tmp_path / "look.seen")
    (one,) = view.maps
    assert (one.kind, one.shape[1]) == ("word", 2)  # two hops, each over every letter
    assert view.axes[one.columns].pieces[-1] == "</s>"
    assert one.weights.sum(-1) == pytest.approx(1, abs=0.02)
    ran = run(capsys, "look", str(folder), "das ist gut", "--why")
    assert (ran.code, "no view of the task" in ran.err) == (2, True)
