"""Speech: from sound files to a model, its scores, its answers and its pictures."""

import numpy as np
import pytest
import torch

import regard
from regard import tasks
from regard.errors import RequestError
from regard.tasks.prediction import Prediction
from tests.cli.run import run
from tests.cli.toy import feed
from tests.tasks.sounding import RATE, fitted, spoken, write

soundfile = pytest.importorskip("soundfile")
ARSG = {
    "name": "arsg", "hidden": 24, "layers": 1, "join": 2, "state": 24, "align": 16, "maxout": 16,
    "filters": 8, "width": 11, "ctc": 0.3, "scale": None,
}  # fmt: skip
CTC = {"name": "ctc", "hidden": 24, "layers": 1, "join": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("sounds"))


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("arsg")
    return fitted(place, data, ARSG, {"name": "speech"}, epochs=60), place / "run"


@pytest.fixture(scope="module")
def labeled(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("ctc")
    return fitted(place, data, CTC, {"name": "speech-ctc", "beam": 4}, epochs=12), place / "run"


@pytest.mark.parametrize("kind", [pytest.param("trained", marks=pytest.mark.slow), "labeled"])
def test_a_recognizer_is_trained_scored_saved_and_used(
    kind, request, data, tmp_path, capsys, monkeypatch
):
    metrics, folder = request.getfixturevalue(kind)
    assert metrics["metrics"]["cer"] < 10
    loaded = regard.load(folder)
    sound = tmp_path / "own.wav"
    soundfile.write(sound, spoken("ab ca", np.random.default_rng(9)), RATE)
    (found,) = loaded.predict([str(sound)])
    assert found.output == "ab ca"
    assert found.score <= 0
    again = run(capsys, "evaluate", str(folder), "--data", str(data / "test.tsv"), "--json")
    scores = again.result["metrics"]
    assert scores["cer"] == pytest.approx(metrics["metrics"]["cer"])
    assert run(capsys, "predict", str(folder), str(sound)).out == "ab ca\n"
    feed(monkeypatch, sound.read_bytes())
    assert run(capsys, "predict", str(folder), "-").out == "ab ca\n"


@pytest.mark.slow
def test_another_rate_and_two_channels_are_understood(trained, tmp_path):
    loaded = regard.load(trained[1])
    values = spoken("cab", np.random.default_rng(4))
    fine = np.repeat(values, 2)[:, None] * np.ones((1, 2))
    soundfile.write(tmp_path / "a.wav", fine, 2 * RATE)
    assert loaded.predict([str(tmp_path / "a.wav")])[0].output == "cab"


def test_what_cannot_be_heard_is_refused_and_nothing_is_lost(labeled, tmp_path):
    loaded = regard.load(labeled[1])
    (tmp_path / "text.wav").write_text("hello", encoding="utf-8")
    good = tmp_path / "good.wav"
    soundfile.write(good, spoken("ab", np.random.default_rng(4)), RATE)
    found = loaded.predict([str(tmp_path / "text.wav"), str(good), str(tmp_path / "none.wav"), ""])
    assert found[0].refused.startswith("no sound (")
    assert found[1].output == "ab"
    assert found[2].refused.startswith("no such sound (")
    assert "there is no file of that name; looked in" in found[2].refused
    assert found[3].output == ""


def test_samples_that_are_far_too_large_are_refused_alone(labeled, tmp_path):
    loaded = regard.load(labeled[1])
    values = spoken("ab", np.random.default_rng(4))
    soundfile.write(tmp_path / "huge.wav", 1e30 * np.ones(RATE), RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "whole.wav", 32768 * values, RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "good.wav", values, RATE)
    soundfile.write(tmp_path / "gsm.wav", values, RATE, subtype="GSM610")
    names = ["huge.wav", "whole.wav", "good.wav", "gsm.wav"]
    found = loaded.predict([str(tmp_path / name) for name in names])
    assert found[0].refused.endswith("a sample of 1e+30, from -1 to 1 expected)")
    assert [one.output for one in found[1:3]] == ["ab", "ab"]
    assert not any(one.refused for one in found[1:])


def test_lines_that_are_wrong_are_reported_by_file_and_line(data, tmp_path, caplog):
    place = write(tmp_path / "own", (4, 2, 2))
    (place / "train1.flac").write_bytes(b"")
    table = place / "train.tsv"
    table.write_text(table.read_text() + "nowhere.flac\tabc\n", encoding="utf-8")
    task = tasks.load("speech")(rate=RATE, filters=16)
    table = place / "test.tsv"
    table.write_text(table.read_text() + "test0.flac\t\n", encoding="utf-8")  # silence
    made = task.data({"path": str(place)})
    assert (len(made.train), len(made.test), made.test.references[-1]) == (3, 3, [""])
    said = [Prediction("", one[0]) for one in made.test.references[:-1]]
    scores = task.score([*said, Prediction("", "a b")], made.test)
    words = sum(len(one.output.split()) for one in said)
    assert scores["wer"].value == pytest.approx(100 * 2 / words)  # two words where none is right
    assert dict(made.problems.counts) == {"empty sound": 1, "no such sound": 1}


def test_batches_do_not_change_an_answer(labeled, data):
    loaded = regard.load(labeled[1])
    names = [str(data / f"test{i}.flac") for i in range(8)]
    together = [one.output for one in loaded.predict(names)]
    assert together == [loaded.predict([name])[0].output for name in names]


@pytest.mark.parametrize("kind", [pytest.param("trained", marks=pytest.mark.slow), "labeled"])
def test_the_view_has_the_sound_and_a_path_through_it(kind, request, data):
    _, folder = request.getfixturevalue(kind)
    loaded = regard.load(folder)
    name = str(data / "test0.flac")
    made = loaded.task.view(loaded, [name])
    one = made.maps[0]
    rows, columns = (made.axes[i] for i in (one.rows, one.columns))
    assert columns.kind == "audio"
    assert columns.seconds == pytest.approx(0.02)
    assert columns.image[:4] == b"\x89PNG"
    assert made.runs[0].panels[0].kind == "sound"
    weights = torch.as_tensor(one.weights)[0]
    assert weights.shape == (len(rows), len(columns))
    path = (weights * torch.arange(len(columns))).sum(1) / weights.sum(1)
    spoken_rows = path[: len("".join(rows.pieces).replace("</s>", ""))]
    assert (spoken_rows.diff() > 0).all()  # it goes through the sound
    with pytest.raises(RequestError, match="empty"):
        loaded.task.view(loaded, [""])


def test_symbols_are_checked_and_written_as_they_are_scored():
    with pytest.raises(RequestError, match=r"task\.symbols: 'letters'"):
        tasks.load("speech")("letters")
    speech = tasks.load("speech")
    assert speech().written("It's 5 o'clock, SHE said: no_one") == "it's 5 o'clock she said no one"
    assert speech(plain=False).written("  It's 5,  no ") == "It's 5, no"
    assert speech("phonemes").written("D@ '_,k_'ae_t") == "D@ k ae t"
    assert speech("phonemes", plain=False).written("'ae_t|b") == "'ae t b"
