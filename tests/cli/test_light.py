"""`regard predict` by a folder's program: the same lines, and PyTorch where it is needed."""

import json

import pytest

from regard import loading
from regard.cli import _light, predict
from regard.convert import add_program
from tests.cli.run import run
from tests.cli.toy import feed
from tests.folder import toy

TEXTS = ["die Datei wird", "ein Hund läuft"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = toy.make(tmp_path_factory.mktemp("light") / "toy", "rnnsearch")
    add_program(made)
    return str(made)


@pytest.fixture(scope="module")
def loaded(folder):
    return loading.load(folder)


@pytest.fixture
def opened(monkeypatch):
    """The folders that PyTorch opened."""
    found = []
    own = predict.open_folder

    def opening(folder, *rest):
        found.append(folder)
        return own(folder, *rest)

    monkeypatch.setattr(predict, "open_folder", opening)
    return found


def test_texts_are_answered_without_pytorch(capsys, folder, loaded, opened):
    ran = run(capsys, "predict", folder, *TEXTS)
    assert (ran.code, ran.out.splitlines()) == (0, loaded.translate(TEXTS))
    assert opened == []


def test_json_has_the_same_values(capsys, folder, loaded, opened):
    ran = run(capsys, "predict", folder, TEXTS[0], "--json", "--n-best", "3")
    found = json.loads(ran.out)
    expected = loaded.predict(TEXTS[:1], n_best=3)[0].as_json()
    assert opened == []
    assert found.keys() == expected.keys()
    assert found["output"] == expected["output"]
    assert found["log_prob"] == pytest.approx(expected["log_prob"], abs=1e-4)
    for ours, theirs in zip(found["alternatives"], expected["alternatives"], strict=True):
        assert ours["output"] == theirs["output"]
        assert [t["token"] for t in ours["tokens"]] == [t["token"] for t in theirs["tokens"]]


def test_settings_of_the_decoder_are_laid_over(capsys, folder, loaded, opened):
    words = ["--set", "beam_size=1", "--set", "decode.length_penalty=0.5"]
    ran = run(capsys, "predict", folder, *TEXTS, *words)
    expected = loaded.translate(TEXTS, beam_size=1, length_penalty=0.5)
    assert ran.out.splitlines() == expected
    assert opened == []


def test_lines_of_stdin_keep_their_places(capsys, folder, loaded, opened, monkeypatch):
    feed(monkeypatch, f"{TEXTS[0]}\n\n".encode() + b"\xff\n" + TEXTS[1].encode())
    ran = run(capsys, "predict", folder)
    one, two = loaded.translate(TEXTS)
    assert (ran.code, ran.out) == (0, f"{one}\n\n\n{two}\n")
    assert "line 3 is refused: not UTF-8" in ran.err
    assert opened == []


def test_many_lines_are_answered_by_the_model(capsys, folder, loaded, opened, monkeypatch):
    monkeypatch.setattr(_light, "FEW", 3)
    feed(monkeypatch, "\n".join(TEXTS * 2).encode())
    ran = run(capsys, "predict", folder)
    assert ran.out.splitlines() == loaded.translate(TEXTS) * 2
    assert opened == [folder]


def test_a_text_beyond_the_program_is_answered_by_the_model(capsys, tmp_path, opened):
    made = toy.make(tmp_path / "toy", "transformer")
    toy.edit(made, task__max_source=24)  # its program has 256 positions
    add_program(made)
    words = ["--set", "max_length=300", "--set", "max_extra=300", "--set", "length_penalty=0"]
    ran = run(capsys, "predict", str(made), TEXTS[0], *words)
    assert ran.code == 0
    assert opened == [str(made)]


ELSEWHERE = {
    "prefix": ["--prefix", "x"],
    "force words": ["--force-words", "x"],
    "bad words": ["--bad-words", "x"],
    "keep": ["--keep", "urls"],
    "align": ["--align"],
    "replaced": ["--replace-unknown"],
    "task": ["--set", "task.max_source=9"],
    "decoder": ["--set", "coverage_penalty=0.1"],
    "an old name": ["--set", "size=2"],
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_a_program_cannot_do_is_done_by_the_model(case, capsys, folder, opened):
    run(capsys, "predict", folder, TEXTS[0], *ELSEWHERE[case])  # some words cannot be written
    assert opened == [folder]


def test_a_file_is_read_by_the_model(capsys, folder, loaded, opened, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "in.txt"))
    assert ran.out.splitlines() == loaded.translate(TEXTS)
    assert opened == [folder]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-folder", "x"], "no model folder 'no-such-folder'"),
        (["{folder}", "x", "--set", "beam_size"], "expected key=value"),
        (["{folder}", "x", "--set", "beam_size=0"], "decode.beam_size: expected a number from 1"),
        (["{folder}", "x", "--n-best", "0"], "n_best: expected 1 or more, got 0"),
    ],
)
def test_wrong_words_are_told_of_as_before(words, said, capsys, folder):
    ran = run(capsys, "predict", *(word.format(folder=folder) for word in words))
    assert ran.code == 2
    assert said in ran.err


@pytest.fixture
def without_torch(monkeypatch):
    """PyTorch is not to be found; who opens a model fails as where it is not installed."""

    def missing(*given):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(predict, "has_torch", lambda: False)
    monkeypatch.setattr(predict, "open_folder", missing)


def test_without_pytorch_any_number_of_lines_is_answered(
    capsys, folder, loaded, without_torch, monkeypatch, tmp_path
):
    monkeypatch.setattr(_light, "FEW", 3)
    expected = loaded.translate(TEXTS) * 3
    feed(monkeypatch, "\n".join(TEXTS * 3).encode())
    assert run(capsys, "predict", folder).out.splitlines() == expected
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(TEXTS * 3) + "\n")
    assert run(capsys, "predict", folder, "-i", str(path)).out.splitlines() == expected
    feed(monkeypatch, "\n".join(TEXTS).encode())
    assert run(capsys, "predict", folder, "-i", "-").out.splitlines() == expected[:2]


def test_without_pytorch_files_of_rows_and_other_settings_ask_for_it(
    capsys, folder, without_torch, tmp_path
):
    path = tmp_path / "rows.tsv"
    path.write_text("source\n" + "\n".join(TEXTS) + "\n")
    for words in (["-i", str(path)], [TEXTS[0], "--prefix", "x"]):
        ran = run(capsys, "predict", folder, *words)
        assert (ran.code, "this needs PyTorch: pip install torch" in ran.err) == (2, True)
    assert "no_such.txt" in run(capsys, "predict", folder, "-i", "no_such.txt").err
