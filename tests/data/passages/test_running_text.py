"""Running text: which lines there are, and what they become."""

import gzip
import json

import numpy as np
import pytest

from regard.data.passages import running_text
from regard.data.problems import Problems
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.protocols import EOS, UNK


def read(path, **settings):
    return list(running_text.lines(path, Problems(), **settings))


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.txt", "text"), ("a.txt.gz", "text"), ("wiki.train.tokens", "text"), ("-", "text"),
        ("a.tsv", "tsv"), ("a.jsonl.gz", "jsonl"), ("a.mrg", "trees"), ("a", "text"),
    ],
)  # fmt: skip
def test_the_format_is_told_by_the_name(name, format):
    assert running_text.format_of(name) == format


def test_lines_of_every_format_with_their_numbers(tmp_path):
    plain = tmp_path / "a.txt"
    plain.write_text("one two\n\n \nthree\tfour\n")
    assert read(plain) == [(1, "one two"), (4, "three\tfour")]
    zipped = tmp_path / "a.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(zipped) == read(plain)
    rows = tmp_path / "a.jsonl"
    texts = ["one two\nthree\n", "four"]
    rows.write_text("".join(json.dumps({"text": t, "label": "x"}) + "\n" for t in texts))
    assert read(rows) == [(1, "one two"), (1, "three"), (2, "four")]
    assert read(rows, limit=1) == [(1, "one two"), (1, "three")]
    assert read(rows, column="label") == [(1, "x"), (2, "x")]
    trees = tmp_path / "a.trees"
    trees.write_text("(TOP (NP (DT the) (NN cat)))\n(TOP (NN dog))\n")
    assert read(trees) == [(1, "the cat"), (2, "dog")]
    table = tmp_path / "a.tsv"
    table.write_text("text\tother\none\ttwo\n")
    assert read(table) == [(2, "one")]
    assert read(table, column=2, header=False) == [(1, "other"), (2, "two")]
    with pytest.raises(RequestError, match="running text is in no 'squad'"):
        read(plain, format="squad")


def test_ids_end_every_line_and_are_the_same_in_chunks(tmp_path, monkeypatch):
    words = Tokenizer.train(["a b c"], kind="words", vocab_size=10)
    found = [(1, "a b"), (3, "c zzz"), (4, "b")]
    text = running_text.encode(found, words, keep=True)
    a, b, c = (words.encode(w).ids[0] for w in "abc")
    assert text.ids.tolist() == [EOS, a, b, EOS, c, UNK, EOS, b, EOS]
    assert text.starts.tolist() == [1, 4, 7, 9]
    assert text.words.tolist() == [2, 2, 1]
    assert text.lines == ["a b", "c zzz", "b"]
    monkeypatch.setattr(running_text, "AT_ONCE", 1)
    other = running_text.encode(iter(found), words, keep=False)
    assert np.array_equal(other.ids, text.ids)
    assert np.array_equal(other.starts, text.starts)
    assert other.lines is None


def test_rare_words_are_unknown():
    lines = [(1, "The cat"), (2, "the dog"), (3, "the dog Café"), (4, "cafe\u0301")]
    settings = {"kind": "words", "vocab_size": 100, "lowercase": True}
    every = running_text.vocabulary(lambda: iter(lines), settings)
    assert set(every.vocabulary[UNK + 1 :]) == {"the", "cat", "dog", "café"}
    some = running_text.vocabulary(lambda: iter(lines), settings, least=2)
    assert set(some.vocabulary[UNK + 1 :]) == {"the", "dog", "café"}


@pytest.mark.slow
def test_a_large_text_is_not_kept_in_memory(monkeypatch):
    """Only ids are, twice for a moment."""
    import tracemalloc

    words = Tokenizer.train(["antidisestablishmentarianism"], kind="words", vocab_size=10)
    count, line = 40_000, "antidisestablishmentarianism " * 30

    def lines():
        for number in range(count):
            yield number, line + str(number % 7)  # a string of its own

    monkeypatch.setattr(running_text, "AT_ONCE", 1 << 9)
    tracemalloc.start()
    text = running_text.encode(lines(), words, keep=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(text.ids) == count * 32 + 1
    assert peak < 3 * text.ids.nbytes < count * len(line) / 2
