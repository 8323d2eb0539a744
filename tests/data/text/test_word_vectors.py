"""Files of word vectors: what is written is read, in each format, and what is wrong is said."""

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text.word_vectors import read_word_vectors
from regard.errors import RequestError


def lines(words, vectors):
    # repr gives as many digits as float32 needs, and float() of them gives the number back.
    return [
        w.encode() + b" " + " ".join(repr(float(x)) for x in v).encode() + b"\n"
        for w, v in zip(words, vectors, strict=True)
    ]


def glove(words, vectors):
    return b"".join(lines(words, vectors))


def word2vec(words, vectors):
    return b"%d %d\n" % vectors.shape + glove(words, vectors)


def trailing_spaces(words, vectors):
    """As fastText writes `.vec` files."""
    return word2vec(words, vectors).replace(b"\n", b" \n")


def binary(words, vectors, end=b"\n"):
    """As word2vec.c writes it; gensim leaves out the line breaks."""
    rows = [
        w.encode() + b" " + struct.pack(f"<{len(v)}f", *v) + end
        for w, v in zip(words, vectors, strict=True)
    ]
    return b"%d %d\n" % vectors.shape + b"".join(rows)


FORMATS = {
    "glove": glove,
    "word2vec": word2vec,
    "fasttext": trailing_spaces,
    "binary": binary,
    "gensim": lambda words, vectors: binary(words, vectors, b""),
}


def write(folder: Path, kind: str, words, vectors) -> Path:
    path = folder / "vectors"
    if kind == "npz":
        np.savez(path, words=np.array(words), vectors=vectors)
        return path.with_suffix(".npz")
    made = FORMATS[kind.removesuffix(".gz")](words, vectors)
    path.write_bytes(gzip.compress(made, mtime=0) if kind.endswith(".gz") else made)
    return path


KINDS = ["npz", *FORMATS, *(f"{kind}.gz" for kind in FORMATS)]

CHARACTERS = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])
LETTER = st.characters(categories=["L"])
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw):
    # Each word has a letter first: "1 2" on the first line of a GloVe file is a header.
    word = st.builds(str.__add__, LETTER, st.text(CHARACTERS, max_size=5))
    words = draw(st.lists(word, min_size=1, max_size=6, unique=True))
    dim = draw(st.integers(1, 5))
    row = st.lists(FLOATS, min_size=dim, max_size=dim)
    vectors = draw(st.lists(row, min_size=len(words), max_size=len(words)))
    return words, np.array(vectors, np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")

    @settings(max_examples=15, deadline=None)
    @given(tables(), st.data())
    def check(table, data):
        words, vectors = table
        path = write(folder, kind, words, vectors)
        found = read_word_vectors(path)
        assert found.words == words
        assert found.vectors.dtype == np.float32
        np.testing.assert_array_equal(found.vectors, vectors)
        wanted = data.draw(st.lists(st.sampled_from([*words, "not there"])))
        most = data.draw(st.none() | st.integers(0, 7))
        some = read_word_vectors(path, wanted, most)
        kept = [i for i, w in enumerate(words) if w in wanted or i < (most or 0)]
        assert some.words == [words[i] for i in kept]
        np.testing.assert_array_equal(some.vectors, vectors[kept])
        assert some.vectors.shape == (len(kept), vectors.shape[1])

    check()


def put(folder: Path, content: bytes) -> Path:
    path = folder / "v.txt"
    path.write_bytes(content)
    return path


def test_words_with_spaces(tmp_path):
    path = put(tmp_path, b"the 1 2\n. . . 3 4\nat name@domain.com 5 6\nat 7 8\n")
    found = read_word_vectors(path)
    assert found.words == ["the", ". . .", "at name@domain.com", "at"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert read_word_vectors(path, ["at"]).vectors.tolist() == [[7, 8]]
    assert read_word_vectors(path, [". . ."]).vectors.tolist() == [[3, 4]]


def test_the_first_of_equal_words(tmp_path):
    found = read_word_vectors(put(tmp_path, b"a 1 2\nb 3 4\na 5 6\n"))
    assert (found.words, found.vectors.tolist()) == (["a", "b"], [[1, 2], [3, 4]])


def test_line_ends_and_odd_characters(tmp_path):
    found = read_word_vectors(put(tmp_path, "a\u00a0b 1 2\r\n\u0085 3\t4\r\n".encode()))
    assert (found.words, found.vectors.tolist()) == (["a\u00a0b", "\u0085"], [[1, 2], [3, 4]])
    assert read_word_vectors(put(tmp_path, b"\xff 1 2\n")).words == ["\ufffd"]


def test_reading_ends_where_nothing_more_is_wanted(tmp_path):
    path = put(tmp_path, b"a 1 2\nb 3 4\nc 5\n")
    assert read_word_vectors(path, ["b"]).words == ["b"]
    assert read_word_vectors(path, most=2).words == ["a", "b"]
    assert read_word_vectors(path, ["b"], most=1).words == ["a", "b"]
    with pytest.raises(RequestError, match="line 3"):
        read_word_vectors(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: expected word vectors, got an empty line or file"),
        (b"alone\n", "line 1: expected a word and its numbers, or `count dimension`, got 'alone'"),
        (b"a 1 2\nb 3\n", "line 2: expected a word and 2 numbers, got 1 numbers"),
        (b"a 1 2\nb 3 4 5\n", "line 2: expected a word and 2 numbers, got 3 numbers"),
        (b"a 1 2\nb 3 x\n", "line 2: expected 2 numbers after the word, got 'x'"),
        (b"a 1 2\nb 3 nan\n", "line 2: expected finite numbers, got nan"),
        (b"a 1 2\nb 3 1e39\n", "line 2: expected finite numbers, got inf"),
        (b"a 1 2\n\nb 3 4\n", "line 2: expected a word, got an empty line"),
        (b"2 2\na 1 2\nb 3\n", "line 3: expected a word and 2 numbers, got 1 numbers"),
        (b"2 2\na 1\nb 3 4\n", "line 2: expected a word and 2 numbers, got 1 numbers"),
        (b"3 2\na 1 2\nb 3 4\n", "expected 3 vectors, as line 1 says, got 2"),
        (b"1 2\na 1 2\nb 3 4\n", "expected 1 vectors, as line 1 says, got 2"),
        (b"1 0\na\n", "line 1: expected a dimension of at least 1, got 0"),
        (b"2 1\na \0\0\0\0\nb \0\0", "cut off: expected 2 vectors, as line 1 says, got 1 whole"),
        (b"2 1\na \0\0\0\0\nb", "cut off: expected 2 vectors, as line 1 says, got 1 whole"),
        (b"1 1\na \0\0\xc0\x7f", "vector 1: expected finite numbers, got nan"),
        (b"1 1\n" + b"\0" * 70000, "vector 1: expected a word and a space, got none"),
        (
            gzip.compress(b"a 1 2\nb 3 4\n" * 99, mtime=0)[:-12],
            "the compressed file is damaged or cut off",
        ),
        (b"PK\x03\x04 nothing", "not a readable .npz file"),
    ],
)
def test_what_is_no_file_of_vectors(content, message, tmp_path):
    with pytest.raises(RequestError) as error:
        read_word_vectors(put(tmp_path, content))
    assert message in str(error.value)
    assert "v.txt" in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"words": np.array(["a"])}, "expected the arrays words and vectors, got words"),
        ({"words": np.array(["a"]), "vectors": np.zeros((2, 3))}, r"got words \(1,\) of <U1"),
        ({"words": np.array([1]), "vectors": np.zeros((1, 3))}, "of strings"),
        ({"words": np.array(["a"]), "vectors": np.array([["b"]])}, "vectors of numbers, got <U1"),
        ({"words": np.array(["a"], object), "vectors": np.zeros((1, 2))}, "plain arrays"),
        ({"words": np.array(["a"]), "vectors": np.array([[1e39]])}, "vector 1: expected finite"),
    ],
)
def test_what_is_no_npz_of_vectors(arrays, message, tmp_path):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(RequestError, match=message):
        read_word_vectors(tmp_path / "v.npz")


def test_half_precision_and_damaged_archives(tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array([b"a", b"b"]), vectors=np.array([[0.5], [2]], np.float16))
    assert read_word_vectors(path).vectors.tolist() == [[0.5], [2]]
    assert zipfile.is_zipfile(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(RequestError, match=r"not a readable \.npz"):
        read_word_vectors(path)


def test_no_such_file(tmp_path):
    put(tmp_path, b"a 1 2\n")
    with pytest.raises(RequestError, match=r"no file of word vectors at .*; did you mean 'v\.txt'"):
        read_word_vectors(tmp_path / "v.tx")
    with pytest.raises(RequestError, match="got the folder"):
        read_word_vectors(tmp_path)
    with pytest.raises(RequestError, match="most=-1"):
        read_word_vectors(tmp_path / "v.txt", most=-1)
