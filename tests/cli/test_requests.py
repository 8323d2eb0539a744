"""What the command line says of requests that cannot be: one sentence, the key, exit code 2."""

import pytest
import torch

from tests.cli.run import run

NAME = "pronunciation/rnnsearch-cmudict"
SMALL = [
    NAME, "--tiny", "data.limit={train: 48, dev: 4, test: 6}",
    "data.train=pronunciation/dev.tsv.gz", "model.embed=8", "model.hidden=8", "model.align=8",
    "model.maxout=8", "train.steps=4", "train.batch.tokens=256", "train.threads=1",
]  # fmt: skip
BERT = ["translation/transformer-tiny-multi30k", "--tiny"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


WRONG = [
    ("decode.beam_size=0", "decode.beam_size: expected a number from 1 to 1,000, got 0"),
    ("decode.n_best=9", "decode.n_best: expected from 1 to beam_size, which is 5, got 9"),
    ("model.hidden=-1", "model.hidden: expected a number from 1 to 1,000,000, got -1"),
    ("model.dropout=2", "model.dropout: expected a number from 0 to below 1, got 2"),
    ("train.optimizer.lr=1e400", "train.optimizer.lr: expected a number from 0 to 1,000,000,000,"),
    ("train.optimizer.lr=-1", "train.optimizer.lr: expected a number from 0 to 1,000,000,000, got"),
    ("train.optimizer.lr=.nan", "train.optimizer.lr: expected a number from 0 to 1,000,000,000, "),
    ("train.epochs=.inf", "train.epochs: expected a number from -1,000,000,000 to 1,000,000,000"),
    ("train.seed=99999999999", "train.seed: expected a number from 0 to 4,294,967,295, got 9999"),
    ("train.threads=1000000", "train.threads: expected a number from 1 to 1,024, got 1000000"),
    ("data.max_length=.nan", "data.max_length: expected a whole number, got nan"),
    ("data.max_length=nan", "data.max_length: expected a whole number, got 'nan'"),
    (
        "data.tokenizer.source.vocab_size=.nan",
        "data.tokenizer.source.vocab_size: expected a whole numb",
    ),
    ("data.path=123", "data.path: expected a word, got 123"),
    (
        "task.variants=",
        'task.variants: expected a word, got nothing (null); an empty word is "" (in',
    ),
    ("data.limit=-1", "data.limit: expected a number from 1 to 1,000,000,000, got -1"),
    ("data.limit.dev=-1", "data.limit.dev: expected a number from 1 to 1,000,000,000, got -1"),
    ("data.columns={source: -1}", "data.columns.source: expected a number from 1 to 1,000,000,0"),
    ("model.hidden=" + "9" * 5000, "model.hidden: expected a whole number, got inf"),
    ("model.name=[]", "model has no []: "),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=[change[:40] for change, _ in WRONG])
@pytest.mark.parametrize("way", ["--print", "--dry"])
def test_a_number_that_cannot_be_is_refused_before_anything_is_read(capsys, change, said, way):
    ran = run(capsys, "train", *SMALL, change, way)
    assert ran.code == 2
    assert f"command line: {said}" in ran.err
    assert "unexpected" not in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("change", ["layers=-1", "heads=-1", "dim=0", "dim=15", "norm=none"])
def test_a_transformer_that_cannot_be_built_is_refused_by_check(capsys, change):
    ran = run(capsys, "train", *BERT, f"model.{change}", "--print")
    assert ran.code == 2
    assert "unexpected" not in ran.err
    assert "command line" in ran.err or ".yaml:" in ran.err


DRY = [
    ("task.variants=some", "task.variants is 'some'"),
    ("train.validate.metric=pre", "train.validate.metric: there is no 'pre' here"),
    ("data.format=tvs", "unknown data format 'tvs'"),
    ("data.tokenizer.source.kind=letters", "unknown tokenizer kind 'letters'"),
    ("train.start=nowhere", "train.start: no model folder 'nowhere'"),
]


@pytest.mark.parametrize(("change", "said"), DRY)
def test_a_dry_run_goes_all_the_ways_of_a_training(capsys, change, said):
    ran = run(capsys, "train", *SMALL, "train.validate.examples=2", change, "--dry")
    assert ran.code == 2, ran.err
    assert said in ran.err


def test_a_dry_run_decodes_and_scores(capsys, monkeypatch):
    ran = run(capsys, "train", *SMALL, "--dry", "--json")
    assert ran.code == 0, ran.err
    assert ran.result["scored"] == ["per", "wer"]
    asked = run(capsys, "train", *BERT, "task.tokenize=14a", "--dry")
    assert asked.code == 2
    assert "14a" in asked.err


def test_a_gpu_is_asked_for_where_there_is_none(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for way in (["--dry"], ["-o", "made"]):
        ran = run(capsys, "train", *SMALL, "train.device=cuda", *way)
        assert ran.code == 2
        assert "command line: train.device: expected a GPU with CUDA" in ran.err
