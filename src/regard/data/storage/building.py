"""Making a store of a corpus on disk: parts, which several processes encode, then one whole.

Each part is written whole, so that a store that was begun is continued.
"""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.data.storage.store import DONE, Store
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.system.files import replace_file, said_of
from regard.system.processes import python_path

__all__ = ["Example", "More", "build"]

PART = 1 << 15
"""Rows of a part."""

Example = tuple[int, Mapping[str, Any]]
"""The number of a line, and the value of each field."""
More = Callable[[list[Example]], tuple[Mapping[str, RaggedIds], Mapping[str, NDArray[Any]]]]
"""Of the examples of a part rows of ids, and arrays with a row for each, by name."""
LeftOut = Callable[[int, str, str], None]
"""Takes a line that is left out: its number, the kind in fixed words, the particulars."""


def build(
    folder: Path,
    examples: Iterable[Example],
    tokenizers: Mapping[str, Tokenizer],
    longest: int,
    left_out: LeftOut,
    workers: int = 1,
    told: Callable[[int], None] = lambda rows: None,
    texts: Mapping[str, Callable[[Any], str]] | None = None,
    more: More = lambda examples: ({}, {}),
    endless: Collection[str] = (),
) -> Store:
    """Make a store, or go on with one that was begun.

    Parts that are there already are not encoded again, so that it must be called with the same
    examples and tokenizers as before.

    Args:
        folder: of the store.
        examples: in their order.
        tokenizers: of each field whose text becomes ids.
        longest: examples with a longer text, in tokens with EOS, are left out.
        endless: fields whose texts have no EOS, which then does not count.
        left_out: told of each.
        workers: processes that encode.
        told: called with the number of rows that are done.
        texts: of each field how its value is written; those of the tokenizers by default, as is.
        more: what other fields are in arrays, made by this process. Rows of ids with the name of a
            field are a text, and an example where one is empty is left out.

    Raises:
        RegardError: the disk is full, or a process that encodes died.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, one in tokenizers.items():
            replace_file(folder / f"{name}.json", one.save)
        written = dict.fromkeys(tokenizers, str) if texts is None else dict(texts)
        raw = partial(_raw, texts=written, more=more, endless=endless)
        parts = _parts(folder, examples, list(tokenizers), longest, workers, told, raw)
        return _joined(folder, parts, list(written), left_out)
    except OSError as error:
        raise RegardError(f"{folder}: could not be written: {said_of(error)}") from error


def _parts(
    folder: Path,
    examples: Iterable[Example],
    names: list[str],
    longest: int,
    workers: int,
    told: Callable[[int], None],
    raw: Callable[..., None],
) -> list[Path]:
    """Cut the examples into parts and have them encoded."""
    found: list[Path] = []
    rest, rows = iter(examples), 0
    following = list(islice(rest, PART))
    with ExitStack() as stack:
        idle: deque[subprocess.Popen[str]] = deque()
        busy: deque[subprocess.Popen[str]] = deque()
        while some := following:
            following = list(islice(rest, PART))
            path = folder / f"part-{len(found):06}.npz"
            found.append(path)
            rows += len(some)
            if not path.is_file():
                replace_file(path.with_suffix(".raw"), partial(raw, examples=some))
                if not following and not busy:  # the only one: not worth a process
                    encoded(folder, path.name, names, longest)
                    break
                if len(idle) + len(busy) < workers:
                    idle.append(stack.enter_context(_worker(folder, names, longest)))
                if not idle:
                    idle.append(_waited(busy.popleft()))
                busy.append(_asked(idle.popleft(), path.name))
            told(rows)
        while busy:
            _waited(busy.popleft())
    return found


def _raw(
    path: Path,
    examples: list[Example],
    texts: Mapping[str, Callable[[Any], str]],
    more: More,
    endless: Collection[str],
) -> None:
    """The texts of a part for the process that encodes it, and what needs no encoding."""
    arrays: dict[str, NDArray[Any]] = {"lines": np.array([line for line, _ in examples], np.int64)}
    arrays["endless"] = np.array(sorted(endless), np.str_)
    for name, written in texts.items():
        own = [written(values[name]).encode("utf-8", "replace") for _, values in examples]
        arrays |= {f"{name}.text": _bytes(own), f"{name}.sizes": _sizes(own)}
    ragged, dense = more(examples)
    for name, ids in ragged.items():
        arrays |= {f"{name}.ids": ids.flat, f"{name}.starts": ids.sizes}
    arrays |= {f"{name}.dense": array for name, array in dense.items()}
    _save(path, arrays)


def _bytes(texts: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(texts), np.uint8)


def _sizes(texts: list[bytes]) -> NDArray[np.int64]:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def _save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with open(path, "wb") as file:  # np.savez would append .npz to the name
        np.savez(file, **dict(arrays))  # type: ignore[arg-type,unused-ignore]


def _worker(folder: Path, names: list[str], longest: int) -> "subprocess.Popen[str]":
    """A process that encodes; it ends when its input does."""
    command = [
        sys.executable,
        "-m",
        "regard.data.storage.building",
        str(folder),
        str(longest),
        *names,
    ]
    own = {**os.environ, "PYTHONPATH": python_path()}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own
    )


def _asked(one: "subprocess.Popen[str]", part: str) -> "subprocess.Popen[str]":
    """Tell a process to encode a part."""
    assert one.stdin is not None
    try:
        one.stdin.write(f"{part}\n")
        one.stdin.flush()
    except BrokenPipeError:
        raise RegardError("a process that encodes ended: run it again to go on") from None
    return one


def _waited(one: "subprocess.Popen[str]") -> "subprocess.Popen[str]":
    """Wait until a process has written its part."""
    assert one.stdout is not None
    if not (said := one.stdout.readline()):
        raise RegardError("a process that encodes ended: run it again to go on with what is there")
    if said.startswith("!"):
        raise RegardError(said[1:].strip())
    return one


def encoded(folder: Path, name: str, names: list[str], longest: int) -> None:
    """Encode a part: `<name>.raw` becomes `<name>`, without what is empty or too long."""
    path = folder / name
    raw = path.with_suffix(".raw")
    try:
        with np.load(raw) as file:
            arrays = {key: file[key] for key in file.files}
    except FileNotFoundError:
        if path.is_file():  # a process whose asker was killed did it in between
            return
        raise
    endless = set(arrays.pop("endless", np.array([], np.str_)).tolist())
    every = [key.removesuffix(".text") for key in arrays if key.endswith(".text")]
    texts = {one: _cut(arrays[f"{one}.text"], arrays[f"{one}.sizes"]) for one in every}
    ids = {
        key.removesuffix(".ids"): RaggedIds.of(own, arrays[f"{key.removesuffix('.ids')}.starts"])
        for key, own in arrays.items()
        if key.endswith(".ids")
    }
    for one in names:
        tokenizer = _tokenizer(folder / f"{one}.json")
        ids[one] = tokenizer.encode_all([text.decode() for text in texts[one]])
    kept = np.ones(len(arrays["lines"]), bool)
    most = np.zeros(len(kept), np.int64)
    for one in set(ids) & set(every):
        kept &= ids[one].sizes > 0
        most = np.maximum(most, ids[one].sizes + int(one not in endless))
    most[~kept] = 0
    kept &= most <= longest
    at = np.flatnonzero(kept)
    out: dict[str, NDArray[Any]] = {
        "lines": arrays["lines"][at],
        "left": np.stack([arrays["lines"][~kept], most[~kept]], 1),
    }
    for one, rows in ids.items():
        own = rows.take(at)
        out |= {f"{one}.ids": own.flat, f"{one}.starts": own.sizes}
    for one, several in texts.items():
        some = [several[i] for i in at.tolist()]
        out |= {f"{one}.text": _bytes(some), f"{one}.places": _sizes(some)}
    out |= {key: own[at] for key, own in arrays.items() if key.endswith(".dense")}
    replace_file(path, lambda beside: _save(beside, out))
    raw.unlink(missing_ok=True)


def _cut(flat: NDArray[np.uint8], sizes: NDArray[np.int64]) -> list[bytes]:
    """Texts that stand end to end."""
    whole, ends = flat.tobytes(), np.cumsum(sizes).tolist()
    return [whole[a:b] for a, b in pairwise([0, *ends])]


_known: dict[Path, Tokenizer] = {}


def _tokenizer(path: Path) -> Tokenizer:
    if path not in _known:
        _known[path] = Tokenizer.load(path)
    return _known[path]


def _joined(folder: Path, parts: list[Path], names: list[str], left_out: LeftOut) -> Store:
    """One file for each array, then the facts, then the parts are done with."""
    counts: dict[str, int] = {}
    rows, sizes = 0, dict[str, int]()
    shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    for path in parts:
        with np.load(path) as file:
            rows += len(file["lines"])
            for key in file.files:
                if key.endswith((".starts", ".places")):
                    sizes[key] = sizes.get(key, 0) + int(file[key].sum())
                elif key.endswith(".dense"):
                    shapes[key] = file[key].dtype, file[key].shape[1:]
            for line, size in file["left"].tolist():
                what = "too long" if size else "empty"
                counts[what] = counts.get(what, 0) + 1
                left_out(line, what, f"{size} tokens" if size else "no tokens")
    ragged = [key.removesuffix(".starts") for key in sizes if key.endswith(".starts")]
    for name in ragged:
        _join(folder, parts, f"{name}.ids", np.dtype(np.int32), (sizes[f"{name}.starts"],))
    for name in names:
        _join(folder, parts, f"{name}.text", np.dtype(np.uint8), (sizes[f"{name}.places"],))
    for key in sizes:
        _join(folder, parts, key, np.dtype(np.int64), (rows + 1,), running=True)
    for key, (kind, shape) in shapes.items():
        _join(folder, parts, key, kind, (rows, *shape))
    _join(folder, parts, "lines", np.dtype(np.int64), (rows,))
    facts = {
        "fields": names,
        "rows": rows,
        "left_out": counts,
        "tokens": {name: sizes[f"{name}.starts"] for name in ragged if name in names},
        "ragged": ragged,
        "dense": [key.removesuffix(".dense") for key in shapes],
    }
    text = json.dumps(facts, indent=1) + "\n"
    replace_file(folder / DONE, lambda path: path.write_text(text, "utf-8"))
    for path in parts:
        path.unlink(missing_ok=True)
    return Store(folder)


def _join(
    folder: Path,
    parts: list[Path],
    key: str,
    kind: "np.dtype[Any]",
    shape: tuple[int, ...],
    *,
    running: bool = False,
) -> None:
    """Write one array of all parts; `running`: sizes become places, 0 before them."""
    heading = {"descr": kind.str, "fortran_order": False, "shape": shape}

    def write(path: Path) -> None:
        with open(path, "wb") as file:
            np.lib.format.write_array_header_1_0(file, heading)  # type: ignore[arg-type,unused-ignore]
            _write_parts(file, parts, key, running)

    replace_file(folder / f"{key}.npy", write)


def _write_parts(file: IO[bytes], parts: list[Path], key: str, running: bool) -> None:
    last = 0
    if running:
        file.write(np.zeros(1, np.int64).tobytes())
    for path in parts:
        with np.load(path) as held:
            own = held[key]
        if running:
            own = np.cumsum(own) + last
            last = int(own[-1]) if len(own) else last
        file.write(np.ascontiguousarray(own).tobytes())


def _serve(lines: Iterator[str], folder: Path, longest: int, names: list[str]) -> None:
    """Encode the parts whose names come in, a line each, and answer each with a line."""
    for line in lines:
        try:
            encoded(folder, line.strip(), names, longest)
            said = "done"
        except (OSError, RegardError) as error:
            said = f"! {error}"
        try:
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
        except BrokenPipeError:  # who asked was killed
            os._exit(1)


if __name__ == "__main__":
    _serve(iter(sys.stdin.readline, ""), Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
