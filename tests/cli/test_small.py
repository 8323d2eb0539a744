"""Small things that people see: exit codes, progress, tables, first lines."""

import json
import logging
import re

import pytest

from regard import loading, recipe
from regard.cli import _progress
from regard.cli._common import configure_talk
from tests.cli.run import run
from tests.cli.toy import folder, layered, loaded  # noqa: F401

LONG = "das Fenster " * 700


def test_every_line_refused_is_a_failure_and_one_of_two_is_not(capsys, folder):  # noqa: F811
    assert run(capsys, "predict", folder, "das Fenster").code == 0
    assert run(capsys, "predict", folder, LONG, "das Fenster").code == 0
    assert run(capsys, "predict", folder, "").code == 0  # empty is not refused
    ran = run(capsys, "predict", folder, LONG, LONG, "--json")
    assert ran.code == 1
    assert [bool(json.loads(line)["refused"]) for line in ran.out.splitlines()] == [True, True]
    assert "2 of 2 lines were refused" in ran.err


def test_a_text_of_other_bytes_is_refused_as_a_line_is(capsys, folder):  # noqa: F811
    ran = run(capsys, "predict", folder, "das \udcff Fenster", "das Fenster", "--json")
    assert ran.code == 0, ran.err
    first, second = (json.loads(line) for line in ran.out.splitlines())
    assert first["refused"] == "not UTF-8"
    assert second["output"]


def test_predict_and_evaluate_say_how_far_they_are(capsys, folder, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_progress, "EVERY", 0.0)
    ran = run(capsys, "predict", folder, *["das Fenster"] * 5)
    assert re.search(r"^5 lines, \d+ a second$", ran.err, re.MULTILINE)
    assert len(ran.out.splitlines()) == 5
    (tmp_path / "test.tsv").write_text("de\ten\n" + "das Fenster\tthe window\n" * 7)
    ran = run(capsys, "evaluate", folder, "--data", str(tmp_path / "test.tsv"))
    assert ran.code == 0, ran.err
    assert re.search(r"^7 examples, \d+ a second$", ran.err, re.MULTILINE)
    assert "a second" not in run(capsys, "predict", folder, "das Fenster", "-q").err


def test_compare_takes_columns(capsys, folder, layered, tmp_path):  # noqa: F811
    path = tmp_path / "test.tsv"
    path.write_text("here\tthere\n" + "das Fenster\tthe window\n" * 4)
    words = ["compare", folder, layered, "--data", str(path), "--samples", "10", "--json"]
    assert run(capsys, *words).code == 2
    ran = run(capsys, *words, "--columns", "source=here,target=there")
    assert ran.code == 0, ran.err
    assert ran.result["examples"] == 4


def test_a_loaded_model_is_printed_on_one_line(loaded):  # noqa: F811
    said = repr(loaded)
    count = sum(p.numel() for p in loaded.model.parameters())
    assert said == f"Loaded(rnnsearch, {count:,} parameters, translation, {str(loaded.folder)!r})"
    assert str(loaded) == said


def test_the_table_of_recipes_has_names_of_files(capsys):
    ran = run(capsys, "recipes")
    assert "{" not in ran.out
    assert max(map(len, ran.out.splitlines())) < 150
    rows = {row["name"]: row["data"] for row in run(capsys, "recipes", "--json").result["recipes"]}
    assert rows["reading/aoa-cloze"] == "cloze/CN_train.txt.gz and 1 more"
    assert rows["graphs/gat-cora"] == "graphs/cora.npz"
    assert set(rows) == set(recipe.names())


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["-v"]])
def test_a_training_begins_with_short_lines(capsys, tmp_path, more):
    ran = run(capsys, "train", "pronunciation/rnnsearch-cmudict", "--tiny", "train.steps=1",
              "data.train=pronunciation/dev.tsv.gz", "data.limit={train: 16, dev: 2, test: 2}",
              "-o", str(tmp_path / "m"), *more)  # fmt: skip
    configure_talk()
    assert ran.code == 0, ran.err
    lines = ran.err.splitlines()
    (kernels,) = [line for line in lines if line.startswith("attention kernels: ")]
    assert len(kernels) < 80
    assert kernels.endswith("; -v says why")
    whys = [line for line in lines if line.startswith("kernel of ")]
    assert bool(whys) == bool(more)
    assert logging.getLogger("regard").level == logging.INFO
    assert loading.load(tmp_path / "m").task.name == "pronunciation"


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False])
def test_a_training_says_where_bf16_is_slow(capsys, tmp_path, monkeypatch, there):
    monkeypatch.setattr("regard.train.run.bf16_is_fast", lambda: there)
    ran = run(capsys, "train", "pronunciation/rnnsearch-cmudict", "--tiny", "train.steps=1",
              "data.train=pronunciation/dev.tsv.gz", "data.limit={train: 16, dev: 2, test: 2}",
              "train.precision=bf16", "train.device=cpu", "-o", str(tmp_path / "m"))  # fmt: skip
    assert ran.code == 0, ran.err
    assert ("train.precision=fp32 is faster" in ran.err) != there
