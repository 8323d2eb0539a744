"""Files of word vectors: GloVe, word2vec as text and binary, and NumPy's `.npz`.

The format is told by the content, not by the name:

- NumPy's `.npz` with the arrays `words` (n,) and `vectors` (n, d);
- word2vec: a first line `count dimension`, then as text `word number … number`, or in binary
  `word`, a space, and the numbers as float32 of the machine that wrote it (little-endian);
- GloVe: as word2vec's text, without the first line.

All but the first may be compressed with gzip. A word may contain spaces, as some of GloVe 840B do:
the last d columns are the numbers.
"""

import gzip
import io
import zlib
from array import array
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from regard.data.files.npz import plain_arrays
from regard.errors import RequestError, nearest

__all__ = ["WordVectors", "read_word_vectors"]

_SAMPLE = 1 << 16
"""So many bytes are looked at to tell text from binary: more than the longest line has."""

_LONGEST = 1 << 16
_LINE = 1 << 24
_WIDEST = 1 << 20
"""No word of a binary file has more bytes; a file without spaces is no file of vectors."""


class WordVectors(NamedTuple):
    """Words in the order of the file, and their vectors: float32 (n, d)."""

    words: list[str]
    vectors: NDArray[np.float32]


def read_word_vectors(
    path: Path, wanted: Collection[str] | None = None, most: int | None = None
) -> WordVectors:
    """Read some or all words of a file of vectors.

    The file is read once from beginning to end, and only what is kept is held in memory (an `.npz`
    is loaded first). In text, the lines of other words are passed over, whatever they hold. Of a
    word that occurs twice, the first vector counts.

    Args:
        path: of any of the formats above.
        wanted: words to keep, wherever they stand.
        most: this many words from the beginning are kept, too. All words if both are None.

    Raises:
        RequestError: there is no such file, or it is no file of word vectors: a line of another
            dimension, a cell that is not a number, an end that comes too early.
    """
    if path.is_dir():
        raise RequestError(f"expected a file of word vectors, got the folder {path}")
    if not path.is_file():
        beside = [f.name for f in path.parent.iterdir()] if path.parent.is_dir() else []
        raise RequestError(
            f"there is no file of word vectors at {path}; {nearest(path.name, beside)}"
        )
    keep = _Keep(path, wanted, most)
    opened: io.BufferedReader = io.BufferedReader(io.FileIO(path), _SAMPLE)
    with opened as file:
        magic = file.peek(4)[:4]
        if magic[:2] == b"PK":
            return _numpy(path, file, keep)
        if magic[:2] != b"\x1f\x8b":
            return _read(path, file, keep)
        try:
            with gzip.open(file) as plain:
                return _read(path, io.BufferedReader(cast(io.RawIOBase, plain), _SAMPLE), keep)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            told = f"{path}: the compressed file is damaged or cut off: {error}"
            raise RequestError(told) from None


class _Keep:
    """Which words are kept, and those kept so far."""

    def __init__(self, path: Path, wanted: Collection[str] | None, most: int | None) -> None:
        if most is not None and most < 0:
            raise RequestError(f"expected a number of words of at least 0, got most={most}")
        self.path, self.most = path, most or 0
        self.all = wanted is None and most is None
        self.missing = {word.encode() for word in wanted or ()}
        self.begins = {word.split(None, 1)[0] for word in self.missing if word.split()}
        self.words: dict[bytes, int] = {}  # and the line of each
        self.numbers = array("f")

    def enough(self, row: int) -> bool:
        """Whether nothing that is wanted can come after `row` rows."""
        return not self.all and row >= self.most and not self.missing

    def perhaps(self, row: int, begin: bytes) -> bool:
        """Whether a row is kept, as far as its first column tells."""
        return self.all or row < self.most or begin in self.begins

    def surely(self, row: int, word: bytes) -> bool:
        return (self.all or row < self.most or word in self.missing) and word not in self.words

    def add(self, word: bytes, numbers: "array[float]", line: int) -> None:
        self.missing.discard(word)
        self.words[word] = line
        self.numbers.extend(numbers)

    def done(self, dim: int, unit: str) -> WordVectors:
        # No copy is made of the numbers: the array stays alive as the base of what is returned.
        flat = np.frombuffer(self.numbers, np.float32) if self.numbers else np.zeros(0, np.float32)
        return self.checked(flat.reshape(len(self.words), dim), unit)

    def checked(self, vectors: NDArray[np.float32], unit: str) -> WordVectors:
        finite = np.isfinite(vectors)
        if not finite.all():
            row = int(np.flatnonzero(~finite.all(1))[0])
            raise RequestError(
                f"{self.path}, {unit} {list(self.words.values())[row]}: expected finite numbers, "
                f"got {vectors[row][~finite[row]][0]}"
            )
        return WordVectors([word.decode(errors="replace") for word in self.words], vectors)


def _read(path: Path, file: io.BufferedReader, keep: _Keep) -> WordVectors:
    """Text or binary, from its beginning."""
    first = file.readline(_SAMPLE).removeprefix(b"\xef\xbb\xbf")
    if not first.strip():
        raise RequestError(f"{path}, line 1: expected word vectors, got an empty line or file")
    header = _header(first)
    if header is None:
        dim = len(first.split()) - 1
        if dim < 1:
            raise RequestError(
                f"{path}, line 1: expected a word and its numbers, or `count dimension`, "
                f"got {_shown(first)}"
            )
        return _text(path, chain([first], _lines(file)), dim, None, keep)
    count, dim = header
    if dim < 1:
        raise RequestError(f"{path}, line 1: expected a dimension of at least 1, got {dim}")
    if dim > _WIDEST:
        raise RequestError(
            f"{path}, line 1: expected a dimension of at most {_WIDEST:,}, got {dim:,}"
        )
    sample = file.peek(_SAMPLE)[:_SAMPLE]
    if _is_text(sample, dim):
        return _text(path, _lines(file), dim, count, keep)
    return _binary(path, file, dim, count, keep)


def _lines(file: io.BufferedReader) -> Iterator[bytes]:
    """Lines, cut where they are longer than any of vectors is."""
    return iter(lambda: file.readline(_LINE), b"")


def _header(line: bytes) -> tuple[int, int] | None:
    """Count and dimension, if the line is `count dimension`."""
    columns = line.split()
    if len(columns) == 2 and columns[0].isdigit() and columns[1].isdigit():
        return int(columns[0][:18]), int(columns[1][:18])  # more digits are too many in any case
    return None


def _is_text(sample: bytes, dim: int) -> bool:
    """Whether what follows the header is text: a row of numbers, or at least characters."""
    try:
        _row(sample.split(b"\n", 1)[0], dim)
        return True
    except ValueError:
        pass
    if any(byte < 32 and byte not in b"\t\n\r" for byte in sample):
        return False
    try:
        # A character may be cut off at the end of the sample.
        sample.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(sample) - 3 and "unexpected end" in error.reason
    return True


def _row(line: bytes, dim: int) -> tuple[bytes, "array[float]"]:
    """The word and the numbers of a line; ValueError says what is wrong.

    The word may have spaces, but its further parts are no numbers, or the line is too long.
    """
    columns = line.rsplit(None, dim)
    if len(columns) != dim + 1:
        got = max(0, len(columns) - 1)
        raise ValueError(f"expected a word and {dim} numbers, got {got} numbers")
    try:
        numbers = array("f", map(float, columns[1:]))
    except ValueError as error:
        told = str(error).removeprefix("could not convert string to float: ").removeprefix("b")
        raise ValueError(f"expected {dim} numbers after the word, got {told}") from None
    further = columns[0].split()[1:]
    if further and all(_is_number(one) for one in further):
        raise ValueError(f"expected a word and {dim} numbers, got {dim + len(further)} numbers")
    return columns[0], numbers


def _shown(line: bytes) -> str:
    """The beginning of a line, for an error."""
    text = line[:40].decode(errors="replace").strip()
    return repr(text + ("…" if len(line) > 40 else ""))


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(
    path: Path, lines: Iterator[bytes], dim: int, count: int | None, keep: _Keep
) -> WordVectors:
    row, before = 0, 1 if count is None else 2
    for line in lines:
        if keep.enough(row):
            return keep.done(dim, "line")
        if len(line) >= _LINE:
            raise RequestError(f"{path}, line {row + before}: more than {_LINE:,} bytes")
        begin = line.split(None, 1)[:1]
        if not begin:
            raise RequestError(f"{path}, line {row + before}: expected a word, got an empty line")
        if keep.perhaps(row, begin[0]):
            try:
                word, numbers = _row(line, dim)
            except ValueError as error:
                raise RequestError(f"{path}, line {row + before}: {error}") from None
            if keep.surely(row, word):
                keep.add(word, numbers, row + before)
        row += 1
    if count is not None and row != count:
        raise RequestError(f"{path}: expected {count} vectors, as line 1 says, got {row}")
    return keep.done(dim, "line")


def _binary(path: Path, file: io.BufferedReader, dim: int, count: int, keep: _Keep) -> WordVectors:
    for row in range(count):
        if keep.enough(row):
            break
        word = _word(path, file, row, count)
        held = file.read(4 * dim)
        if len(held) < 4 * dim:
            raise _cut_off(path, row, count)
        if keep.surely(row, word):
            numbers = array("f", np.frombuffer(held, "<f4").astype(np.float32).tobytes())
            keep.add(word, numbers, row + 1)
    return keep.done(dim, "vector")


def _word(path: Path, file: io.BufferedReader, row: int, count: int) -> bytes:
    """The bytes up to the next space; a line break before them ends the vector before."""
    found = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte:
            raise _cut_off(path, row, count)
        if byte != b"\n" or found:
            found += byte
        if len(found) > _LONGEST:
            raise RequestError(f"{path}, vector {row + 1}: expected a word and a space, got none")
    return bytes(found)


def _cut_off(path: Path, row: int, count: int) -> RequestError:
    return RequestError(
        f"{path} is cut off: expected {count} vectors, as line 1 says, got {row} whole ones"
    )


def _numpy(path: Path, opened: io.BufferedReader, keep: _Keep) -> WordVectors:
    try:
        found = plain_arrays(opened)
    except ValueError as error:
        raise RequestError(f"{path}: not a readable .npz file of plain arrays: {error}") from None
    if "words" not in found or "vectors" not in found:
        got = ", ".join(found) or "none"
        raise RequestError(f"{path}: expected the arrays words and vectors, got {got}")
    words, vectors = found["words"], found["vectors"]
    if vectors.ndim != 2 or words.shape != vectors.shape[:1] or words.dtype.kind not in "US":
        raise RequestError(
            f"{path}: expected words (n,) of strings and vectors (n, d), got words {words.shape} "
            f"of {words.dtype} and vectors {vectors.shape}"
        )
    if vectors.dtype.kind not in "fiu":
        raise RequestError(f"{path}: expected vectors of numbers, got {vectors.dtype}")
    at: dict[bytes, int] = {}
    for row, word in enumerate(words.tolist()):
        name = word if isinstance(word, bytes) else word.encode()
        if keep.surely(row, name):
            keep.words[name] = row + 1
            at[name] = row
    rows = np.fromiter(at.values(), np.intp, len(at))
    with np.errstate(over="ignore"):  # found below, as infinite
        return keep.checked(vectors[rows].astype(np.float32), "vector")
