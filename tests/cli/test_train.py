"""`regard train`: print, dry, tiny, again, changed, fresh, seeds."""

import json
import re
import statistics

import pytest

from regard import recipe
from regard.folder.programs import open_program
from tests.cli.run import run

SMALL = [
    "pronunciation/rnnsearch-cmudict", "--tiny", "data.limit={train: 48, dev: 4, test: 6}",
    "data.train=pronunciation/dev.tsv.gz", "model.embed=8", "model.hidden=8", "model.align=8",
    "model.maxout=8", "train.steps=4", "train.batch.tokens=256", "train.validate.every=2",
    "train.validate.examples=0", "train.checkpoint.every=2", "train.threads=1",
    "decode.beam_size=2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_help_has_the_examples_first(capsys):
    out = run(capsys, "train", "--help").out
    assert out.index("regard train pronunciation/rnnsearch-cmudict --tiny") < out.index("Usage:")
    named = re.findall(r"regard train (\w+/[\w-]+)", out)
    assert len(named) >= 3
    assert set(named) <= set(recipe.names())
    assert out.index("Usage:") < out.index("--seeds 1-10")


def test_print_says_what_and_from_where(capsys, tmp_path):
    ran = run(capsys, "train", *SMALL, "--print")
    rows = {line.split()[0]: line.split(None, 1)[1] for line in ran.out.splitlines()}
    assert rows["train.steps"].split() == ["4", "#", "command", "line"]
    assert rows["train.seed"].split()[0] == "1"
    assert "rnnsearch-cmudict.yaml:" in rows["train.seed"]
    assert rows["train.strategy"].endswith("# default")
    found = run(capsys, "train", *SMALL, "--print", "--json").result
    assert found["recipe"]["model"]["hidden"] == 8
    assert found["from"]["train.steps"] == "command line"
    assert list(tmp_path.iterdir()) == []


def test_dry_builds_everything_and_writes_nothing(capsys, tmp_path):
    ran = run(capsys, "train", *SMALL, "--dry", "--json")
    assert ran.code == 0, ran.err
    assert ran.result["examples"]["dev"] == 4
    rows, longest = ran.result["shapes"]["source"]
    assert rows * longest <= 256
    assert ran.result["loss"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_train_again_changed_and_fresh(capsys, tmp_path):
    ran = run(capsys, "train", *SMALL, "--json")
    assert ran.code == 0, ran.err
    folder = tmp_path / "runs" / "pronunciation" / "rnnsearch-cmudict-tiny"
    assert ran.result["folder"] == str(folder.relative_to(tmp_path))
    assert ran.result["examples"] == 6
    assert set(ran.result["metrics"]) == {"per", "wer"}
    assert ran.result["training"]["steps"] == 4
    names = {p.name for p in folder.iterdir()}
    wanted = {"config.json", "model.safetensors", "recipe.yaml", "metrics.json", "README.md"}
    assert wanted | {"program.json"} <= names
    assert open_program(folder).predict(["abc"])[0].output
    assert "checkpoints" not in names
    before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}

    again = run(capsys, "train", *SMALL, "--json")
    assert again.code == 0
    assert "finished already" in again.err
    assert again.result == ran.result
    assert {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()} == before

    # What results do not depend on may change; 1.0 is 1 and a list is a tuple.
    same = ["train.log=7", "train.clip=1", "train.optimizer.betas=[0.9, 0.999]"]
    assert run(capsys, "train", *SMALL, *same).code == 0

    changed = run(capsys, "train", *SMALL, "train.seed=2", "--json")
    assert changed.code == 2
    assert "-train.seed: 1\n  +train.seed: 2" in changed.result["error"]
    assert changed.result["error"].count("\n") == 2
    assert (folder / "recipe.yaml").read_bytes() == before["recipe.yaml"][1]

    (folder / "mine.txt").write_text("kept")
    fresh = run(capsys, "train", *SMALL, "train.seed=2", "--fresh", "--json")
    assert fresh.code == 0
    assert "finished already" not in fresh.err
    assert (folder / "model.safetensors").read_bytes() != before["model.safetensors"][1]
    assert (folder / "mine.txt").read_text() == "kept"
    assert open_program(folder) is not None  # of the new weights

    covered = run(capsys, "train", *SMALL, "decode.coverage_penalty=0.2", "--fresh", "-v")
    assert covered.code == 0
    assert "no program.json: " in covered.err
    assert not (folder / "program.json").exists()  # the one of the training before is gone


@pytest.mark.slow
def test_seeds_give_mean_sd_and_each(capsys, tmp_path):
    ran = run(capsys, "train", *SMALL, "--seeds", "1-2", "-o", "many", "--json")
    assert ran.code == 0, ran.err
    each = [
        json.loads((tmp_path / "many" / f"seed-{n}" / "metrics.json").read_text())["metrics"]
        for n in (1, 2)
    ]
    assert ran.result["seeds"] == {"1": each[0], "2": each[1]}
    for name in ("per", "wer"):
        values = [scores[name] for scores in each]
        assert ran.result["metrics"][name] == pytest.approx(sum(values) / 2)
        assert ran.result["sd"][name] == pytest.approx(statistics.stdev(values))
    assert json.loads((tmp_path / "many" / "seeds.json").read_text()) == ran.result
    # However many run at once, each is the training that it would be alone.
    run(capsys, "train", *SMALL, "train.seed=2", "-o", "alone")
    alone, beside = (tmp_path / name / "model.safetensors" for name in ("alone", "many/seed-2"))
    assert alone.read_bytes() == beside.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.steps"], "expected key=value"),
        (["train.stesp=3"], "command line: Training has no setting 'stesp'"),
        (["--seeds", "3-1"], "--seeds: '3-1' is an empty range"),
        (["--seeds", "a"], "--seeds: expected numbers and ranges (1-3,7), got 'a'"),
        (["train.final=ema"], "command line: train.final is 'ema', but train.ema makes none"),
        (
            ["train.validate={metric: pre, examples: 2}"],
            "command line: train.validate.metric: there is no 'pre' here: did you mean 'per'?",
        ),
        (["train.validate.metric=per"], "train.validate.metric: there is no 'per' here: valid: l"),
        (["--what"], "no such option: --what"),
    ],
)
def test_wrong_requests_are_said_as_json_too(capsys, words, said):
    ran = run(capsys, "train", *SMALL, *words, "--json")
    assert ran.code == 2
    assert said.lower() in ran.result["error"].lower()
    assert said.lower() in ran.err.lower()


def test_no_such_recipe(capsys):
    ran = run(capsys, "train", "rnnsearch-cmudit", "--json")
    assert (ran.code, len(ran.out.splitlines())) == (2, 1)
    assert "did you mean 'rnnsearch-cmudict'?" in ran.result["error"]
