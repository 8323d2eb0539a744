"""An interrupted training continues to the same weights, bit for bit."""

import json
import signal
import subprocess
import time

import pytest

from regard import recipe as recipes
from regard.errors import RegardError
from regard.system import files
from regard.train import checkpoints
from regard.train import run as train_run
from regard.train.run import fit
from tests.faults.kills import RECIPE
from tests.folder import toy
from tests.train.runs import command, environment, losses, recipe, run, steps


def interrupt(path, folder, number, after):
    """Start the training, send a signal once `after` steps are logged, give what it left."""
    process = subprocess.Popen(
        command(path, folder), env=environment(), stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while steps(folder) < after:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.parametrize(("model", "bpe_dropout"), [("transformer", 0.1), ("rnnsearch", 0.0)])
def test_after_kill_and_after_ctrl_c_the_same_command_ends_in_the_same_weights(
    tmp_path, model, bpe_dropout
):
    path = recipe(tmp_path, model, bpe_dropout=bpe_dropout)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(path, whole)
    code, _ = interrupt(path, broken, signal.SIGKILL, after=50)
    assert code == -signal.SIGKILL
    assert not (broken / "config.json").exists()
    code, said = interrupt(path, broken, signal.SIGINT, after=130)
    assert code == 130, said
    assert "the same command continues" in said
    stopped = steps(broken)
    assert 130 <= stopped < 300
    done = run(path, broken)
    assert f"continuing after step {stopped}" in done.stderr
    weights = [(folder / "model.safetensors").read_bytes() for folder in (whole, broken)]
    assert weights[0] == weights[1]
    assert losses(whole) == losses(broken)
    assert sorted(losses(broken)) == list(range(1, 301))
    scores = [json.loads((folder / "metrics.json").read_text()) for folder in (whole, broken)]
    assert scores[0]["metrics"] == scores[1]["metrics"]
    assert scores[0]["dev"] == scores[1]["dev"]
    # A finished training says so and does nothing.
    before = (broken / "model.safetensors").stat().st_mtime_ns
    assert "finished already" in run(path, broken).stderr
    assert (broken / "model.safetensors").stat().st_mtime_ns == before
    # Nothing is loaded from the folder but plain data and safetensors.
    names = {p.suffix for p in broken.rglob("*") if p.is_file()}
    assert names <= {".json", ".jsonl", ".safetensors", ".yaml", ".md"}


@pytest.mark.slow
def test_another_seed_gives_other_weights(tmp_path):
    folders = []
    for seed in (1, 2):
        path = recipe(tmp_path, steps=5)
        path.write_text(path.read_text().replace("log: 1", f"log: 1\n  seed: {seed}"))
        folders.append(tmp_path / str(seed))
        run(path, folders[-1])
    assert losses(folders[0])[1] != losses(folders[1])[1]


class Killed(BaseException):
    """Stands for SIGKILL."""


def killed_at(monkeypatch, name, folder, vocab_size, steps=4):
    """A training into the folder, killed once a file of this name was to be written, or was."""
    path = folder.parent / f"{vocab_size}.yaml"
    path.write_text(RECIPE % folder.parent.joinpath("data") + "  seed: 1\n")
    own = recipes.load(path, {"data.tokenizer.vocab_size": vocab_size, "train.steps": steps})
    real = files.replace_file

    def replace(target, write):
        if target.name == name == "recipe.yaml":
            raise Killed
        real(target, write)
        if target.name == name:
            raise Killed

    with monkeypatch.context() as patch:
        for module in (train_run, checkpoints):
            patch.setattr(module, "replace_file", replace)
        if name:
            with pytest.raises(Killed):
                fit(own, folder, progress=False)
            return None
        return fit(own, folder, progress=False)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "data").mkdir()
    for split in ("train", "dev", "test"):
        toy.table(tmp_path / "data" / f"{split}.tsv")
    return tmp_path / "out"


def test_tokenizers_of_a_start_that_was_cut_short_are_not_of_the_next_training(corpus, monkeypatch):
    """The recipe is noted behind its tokenizers: another one may be started in between."""
    killed_at(monkeypatch, "recipe.yaml", corpus, 20)
    assert [*corpus.glob("tokenizer*.json")]
    assert not (corpus / "recipe.yaml").exists()
    killed_at(monkeypatch, "last.ckpt", corpus, 40)
    killed_at(monkeypatch, "last.ckpt", corpus, 40)
    assert killed_at(monkeypatch, "", corpus, 40)["metrics"]


def test_a_checkpoint_of_another_model_says_so(corpus, monkeypatch, tmp_path):
    killed_at(monkeypatch, "last.ckpt", corpus, 40)
    killed_at(monkeypatch, "last.ckpt", tmp_path / "other", 20)
    for one in corpus.glob("tokenizer*.json"):
        one.write_bytes((tmp_path / "other" / one.name).read_bytes())
    with pytest.raises(
        RegardError, match=r"another model than this command makes .size mismatch"
    ) as e:
        killed_at(monkeypatch, "", corpus, 40)
    assert "\n" not in str(e.value)
    assert "--fresh starts over" in str(e.value)
