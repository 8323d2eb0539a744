"""`regard predict`: a filter that keeps lines in step, whatever is in them."""

import gzip
import itertools
import json

import pytest

from regard.cli import predict
from regard.data.files import lines as _lines
from tests.cli.run import run
from tests.cli.toy import _loads, feed, folder, load_once, loaded
from tests.folder import toy

__all__ = ["_loads", "folder", "load_once", "loaded"]
pytestmark = pytest.mark.usefixtures("load_once")

KEYS = ["input", "output", "score", "log_prob", "tokens", "alternatives"]
TEXTS = ["die Datei wird", "ein Hund läuft"]


def test_texts_on_the_command_line(capsys, folder, loaded):
    ran = run(capsys, "predict", folder, *TEXTS)
    assert (ran.code, ran.out.splitlines()) == (0, loaded.translate(TEXTS))


@pytest.mark.parametrize("words", [(), ("-",), ("-i", "-")])
def test_lines_of_stdin(words, capsys, folder, loaded, monkeypatch):
    feed(monkeypatch, "\n".join([TEXTS[0], "", TEXTS[1]]).encode() + b"\r\n")
    ran = run(capsys, "predict", folder, *words)
    one, two = loaded.translate(TEXTS)
    assert (ran.code, ran.out) == (0, f"{one}\n\n{two}\n")


def test_lines_of_a_file(capsys, folder, loaded, tmp_path):
    (tmp_path / "in.txt").write_text("\ufeff" + "\n".join(TEXTS), encoding="utf-8")
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "in.txt"))
    assert ran.out.splitlines() == loaded.translate(TEXTS)


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_lines_of_json_are_read_by_their_keys(name, capsys, folder, loaded, tmp_path):
    lines = [json.dumps({"de": TEXTS[0]}), json.dumps(TEXTS[1]), "{", json.dumps({"x": "y"}), ""]
    raw = "\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / name), "--columns", "source=de")
    one, two = loaded.translate(TEXTS)
    assert (ran.code, ran.out) == (0, f"{one}\n{two}\n\n\n")
    assert "line 3 is refused: no JSON" in ran.err
    assert "line 4 is refused: there is no 'de' among 'x'" in ran.err


def test_rows_of_any_format_are_read_as_in_training(capsys, folder, loaded, tmp_path):
    one, two = loaded.translate(TEXTS)
    cells = [("1", TEXTS[0]), ("2", TEXTS[1])]
    for name, text in {
        "a.tsv": "id\tde\n" + "".join(f"{a}\t{b}\n" for a, b in cells),
        "a.csv": "id;de\n" + "".join(f'{a};"{b}"\n' for a, b in cells),
        "a.json": json.dumps([{"id": a, "de": b} for a, b in cells]),
    }.items():
        for encoding in ("utf-8", "utf-16"):
            (tmp_path / name).write_text(text, encoding)
            ran = run(capsys, "predict", folder, "-i", str(tmp_path / name))
            assert (ran.code, ran.out) == (0, f"{one}\n{two}\n"), (name, ran.err)
    (tmp_path / "a.conll").write_text("die O\nDatei O\nwird O\n\nein O\nHund O\nläuft O\n")
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "a.conll"), "--columns", "source=1")
    assert ran.out == f"{one}\n{two}\n"
    (tmp_path / "b.csv").write_text(f'de\n"never closed\n{TEXTS[1]}\n')
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "b.csv"))
    assert ran.out == f"\n{two}\n"
    assert 'line 1 is refused: broken quotes (" is opened and not closed)' in ran.err
    (tmp_path / "b.csv").write_text("id,en\n1,x\n")
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "b.csv"))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "b.csv: there is no 'source' among 'id', 'en'" in ran.err


def test_packed_lines_of_text(capsys, folder, loaded, tmp_path):
    packed = gzip.compress("\n".join(TEXTS).encode())
    (tmp_path / "in.txt.gz").write_bytes(packed)
    (tmp_path / "cut.txt.gz").write_bytes(packed[:-9])
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "in.txt.gz"))
    assert ran.out.splitlines() == loaded.translate(TEXTS)
    ran = run(capsys, "predict", folder, "-i", str(tmp_path / "cut.txt.gz"))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "cut.txt.gz: could not be read: damaged or cut off" in ran.err


def test_a_text_that_is_the_name_of_a_file_is_told_of(capsys, folder, loaded, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("abc\n")
    ran = run(capsys, "predict", folder, str(path), "x" * 5000)
    assert ran.code == 0
    assert ran.err.count("is taken as a text") == 1
    assert f"the file of that name is read by -i {path}" in ran.err


def test_json_is_an_object_a_line_in_input_order(capsys, folder, loaded):
    ran = run(capsys, "predict", folder, TEXTS[0], "", TEXTS[1], "--json", "--n-best", "3")
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [list(one) for one in found] == [KEYS] * 3
    assert [one["input"] for one in found] == [TEXTS[0], "", TEXTS[1]]
    expected = loaded.predict([TEXTS[0], TEXTS[1]], n_best=3)
    for one, prediction in zip([found[0], found[2]], expected, strict=True):
        assert one["output"] == prediction.output
        assert one["score"] == pytest.approx(prediction.score)
        assert [t["token"] for t in one["tokens"]] == prediction.tokens
        assert [a["output"] for a in one["alternatives"]] == [
            a.output for a in prediction.alternatives
        ]
        assert len(one["alternatives"]) == 2
    empty = {"score": None, "log_prob": None, "tokens": [], "alternatives": []}
    assert found[1] == {"input": "", "output": "", **empty}


def test_alternatives_that_are_not_shown_are_told_of(capsys, folder):
    ran = run(capsys, "predict", folder, TEXTS[0], "--n-best", "2")
    assert ran.err.count("--n-best 2: alternatives are only shown with --json") == 1
    assert "--n-best" not in run(capsys, "predict", folder, TEXTS[0]).err


def test_refused_lines_give_empty_ones_and_are_counted(capsys, folder, loaded, monkeypatch):
    monkeypatch.setattr(_lines, "LONGEST", 64)
    long = "die " * 40
    feed(monkeypatch, "\n".join([TEXTS[0], long, "x", TEXTS[1]]).replace("x", "\udcff").encode(
        "utf-8", "surrogateescape"
    ))  # fmt: skip
    ran = run(capsys, "predict", folder)
    one, two = loaded.translate(TEXTS)
    assert (ran.code, ran.out) == (0, f"{one}\n\n\n{two}\n")
    assert "line 2 is refused: more than 64 bytes" in ran.err
    assert "line 3 is refused: not UTF-8 (byte 1)" in ran.err
    assert "2 of 4 lines were refused" in ran.err


def test_a_line_of_too_many_tokens_is_refused(capsys, folder):
    ran = run(capsys, "predict", folder, TEXTS[0], "--json", "--set", "task.max_source=3")
    assert ran.code == 1  # it was the only one
    assert ran.result["output"] == ""
    assert "at most 3" in ran.result["refused"]
    assert "1 of 1 lines were refused" in ran.err


def test_memory_is_bounded_by_chunks(capsys, folder, loaded, monkeypatch):
    seen = []
    own = type(loaded).predict
    monkeypatch.setattr(predict, "CHUNK", 4)
    monkeypatch.setattr(
        type(loaded),
        "predict",
        lambda self, texts, **k: seen.append(len(texts)) or own(self, texts, **k),
    )
    feed(monkeypatch, b"ein\n" * 10)
    ran = run(capsys, "predict", folder)
    assert seen == [4, 4, 2]
    assert len(ran.out.splitlines()) == 10


def test_lines_end_at_newlines_only(capsys, folder, monkeypatch):
    feed(monkeypatch, "ein\u2028Hund\x0cdie\x85Datei\rwird\n".encode())
    ran = run(capsys, "predict", folder, "--json")
    assert ran.out.count("\n") == 1
    assert json.loads(ran.out)["input"] == "ein\u2028Hund\x0cdie\x85Datei\rwird"


def test_no_input_is_no_output(capsys, folder, monkeypatch):
    feed(monkeypatch, b"")
    ran = run(capsys, "predict", folder, "--json")
    assert (ran.code, ran.out) == (0, "")


def test_settings_of_the_decoder_and_a_prefix(capsys, folder, loaded):
    words = ("--set", "beam_size=1", "--set", "decode.max_length=4", "--prefix", "the")
    ran = run(capsys, "predict", folder, TEXTS[0], *words)
    [expected] = loaded.predict([TEXTS[0]], prefix="the", beam_size=1, max_length=4)
    assert ran.out == expected.output + "\n"
    assert ran.out.startswith("the")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "x"], "no model folder 'nowhere'"),
        (["FOLDER", "x", "-i", "file"], "give texts or --input, not both"),
        (["FOLDER", "-i", "no-such-file"], "no-such-file: no such file"),
        (["FOLDER", "x", "--set", "beam_siez=2"], "did you mean 'beam_size'"),
        (["FOLDER", "x", "--set", "model.hidden=2"], "'model' is fixed in a trained folder"),
        (["FOLDER", "x", "--set", "task.smoth=2"], "smoth"),
        (["FOLDER", "x", "--set", "beam_size"], "expected key=value"),
        (["FOLDER", "x", "--n-best", "9"], "size, which is 3"),
        (["FOLDER", "x", "--n-best", "0"], "expected 1 or more"),
    ],
)
def test_wrong_requests_exit_with_2(words, said, capsys, folder):
    words = [folder if word == "FOLDER" else word for word in words]
    ran = run(capsys, "predict", *words, "--json")
    assert ran.code == 2
    assert said in ran.result["error"]
    assert said in ran.err


def test_threads_are_taken_and_said_wrong_in_one_line(capsys, folder, loaded):
    import torch

    before = torch.get_num_threads()
    try:
        ran = run(capsys, "predict", folder, TEXTS[0], "--threads", "1")
        assert (ran.code, ran.out.strip(), torch.get_num_threads()) == (
            0,
            loaded.translate(TEXTS[0]),
            1,
        )
    finally:
        torch.set_num_threads(before)
    assert run(capsys, "predict", folder, TEXTS[0], "--threads", "0").code == 2


def test_what_every_output_must_and_must_not_have(capsys, folder, loaded):
    plain = loaded.translate(TEXTS)
    unwanted = plain[0].split()[0]
    ran = run(capsys, "predict", folder, *TEXTS, "--bad-words", unwanted)
    assert ran.code == 0
    assert ran.out.splitlines() == loaded.translate(TEXTS, bad_words=[[unwanted]] * 2)
    assert not any(unwanted in line.split() for line in ran.out.splitlines())
    ran = run(
        capsys, "predict", folder, *TEXTS, "--force-words", "dog runs", "--force-words", "the"
    )
    assert all("dog runs" in line and "the" in line for line in ran.out.splitlines())


def test_a_model_with_itself_is_itself(capsys, folder, loaded):
    ran = run(capsys, "predict", folder, *TEXTS, "--with", folder)
    assert ran.out.splitlines() == loaded.translate(TEXTS)


def test_only_models_with_the_same_tokenizers_go_together(capsys, folder, tmp_path):
    other = toy.make(tmp_path / "other", "transformer")  # whose sides share one tokenizer
    ran = run(capsys, "predict", folder, *TEXTS, "--with", str(other))
    assert ran.code == 2
    assert "tokenizer" in ran.err


def test_options_under_their_old_names_are_taken_and_named_anew(capsys, folder, loaded):
    unwanted = loaded.translate(TEXTS)[0].split()[0]
    old = run(
        capsys, "predict", folder, *TEXTS, "--never", unwanted, "--must", "the", "--set", "size=2"
    )
    today = run(
        capsys, "predict", folder, *TEXTS, "--bad-words", unwanted, "--force-words", "the",
        "--set", "beam_size=2",
    )  # fmt: skip
    assert old.out == today.out
    assert today.err == ""
    assert old.err.splitlines() == [
        "--set size: it is now called beam_size",
        "--must is now called --force-words",
        "--never is now called --bad-words",
    ]
    with pytest.warns(DeprecationWarning, match="never is now called bad_words"):
        loaded.translate(TEXTS, never=[[unwanted]] * 2)


def test_a_stream_ends_with_the_prediction(loaded):
    for way in ({}, {"name": "greedy", "max_length": 8}, {"prefix": "the", "beam_size": 2}):
        items = list(loaded.stream(TEXTS[0], **way))
        assert items[-1].as_json() == loaded.predict(TEXTS[:1], **way)[0].as_json()
        assert len(items) > 1
    told = {"force_words": ["dog"], "bad_words": ["the"]}
    *_, last = loaded.stream(TEXTS[0], **told)
    several = {key: [words] for key, words in told.items()}
    assert last.as_json() == loaded.predict(TEXTS[:1], **several)[0].as_json()
    greedy = [p.output for p in loaded.stream(TEXTS[0], name="greedy", max_length=8)]
    assert all(b.startswith(a) for a, b in itertools.pairwise(greedy))
    assert [p.output for p in loaded.stream(" ")] == [""]
    (refused,) = loaded.stream("das " * 2000)
    assert refused.refused.startswith("too long")
