"""Letters that an output cannot write are escaped, and one line says so; UTF-8 is the default."""

import io
import json
import os
import sys

import pytest

from regard.cli._common import emit, print_result, say
from regard.cli._streams import prepare_streams, written_words
from regard.cli.app import main
from tests.cli.run import run_alone


def streams(monkeypatch, encoding, asked=""):
    """Standard output and error that are files in an encoding."""
    made = [io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", made[0])
    monkeypatch.setattr(sys, "stderr", made[1])
    monkeypatch.setenv("PYTHONIOENCODING", asked)
    prepare_streams()
    return lambda: [one.buffer.getvalue() for one in made]


def test_utf8_where_the_locale_says_nothing(monkeypatch):
    written = streams(monkeypatch, "ascii")
    print_result("Größe 你好")
    emit({"output": "Größe"})
    out, err = written()
    assert out.decode() == 'Größe 你好\n{"output": "Größe"}\n'
    assert err == b""


@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", b"Gr\\xf6\\xdfe"), ("latin-1", b"Gr\xf6\xdfe")]
)
def test_letters_are_escaped_where_another_encoding_was_asked_for(encoding, shown, monkeypatch):
    written = streams(monkeypatch, encoding, encoding)
    for _ in range(3):
        print_result("Größe 你")
    emit({"output": "Größe 😀"})
    say("ü")
    out, err = written()
    lines = out.splitlines()
    assert lines[:3] == [shown + rb" \u4f60"] * 3
    assert json.loads(lines[3]) == {"output": "Größe 😀"}  # escapes of JSON, not of Python
    assert err.count(b"are escaped") == 1


def test_half_a_surrogate_pair_is_written(monkeypatch):
    written = streams(monkeypatch, "utf-8")
    print_result("a\ud83d")
    emit({"input": "a\ud83d"})
    out, _ = written()
    assert out.splitlines()[0] == b"a\\ud83d"
    assert json.loads(out.splitlines()[1]) == {"input": "a\ud83d"}


def test_words_of_the_command_line_are_utf8(monkeypatch, tmp_path):
    typed = "Größe".encode().decode("ascii", "surrogateescape")
    monkeypatch.setattr(os, "fsencode", lambda word: word.encode("ascii", "surrogateescape"))
    assert written_words([typed, "plain", "ä"]) == ["Größe", "plain", "ä"]
    broken = b"\xff".decode("ascii", "surrogateescape")
    assert written_words([broken]) == [broken]


def test_an_input_that_is_no_utf8_gets_a_sentence(capsys):
    assert main(["look", "de-en-small", "a\udcff"]) == 2
    assert "not UTF-8" in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_in_a_bare_locale_and_one_told_ascii():
    bare = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (["predict", "de-en-small"], ["look", "de-en-small"]):
        ran = run_alone(*words, "Das Fenster schließt.", **bare)
        assert (ran.code, ran.err) == (0, "")
        assert "The window closes." in ran.out
    told = run_alone("predict", "en-de-small", "Please check the size.", PYTHONIOENCODING="ascii")
    assert (told.code, told.out.isascii(), "\\xdf" in told.out) == (0, True, True)
    assert told.err.count("are escaped") == 1
