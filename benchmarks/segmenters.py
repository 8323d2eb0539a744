"""Segmenters of Chinese, Japanese and Thai against a treebank: F1 of words, speed, memory, size.

    python benchmarks/segmenters.py zh_gsdsimp-ud-test.conllu --peers letters rjieba jieba pkuseg
    python benchmarks/segmenters.py ja_gsd-ud-test.conllu --peers letters sudachipy janome
    python benchmarks/segmenters.py th_pud-ud-test.conllu --peers letters pythainlp budoux

The file is one of Universal Dependencies (CoNLL-U); it does not come with this package. A word
counts where both its ends are those of the treebank. `letters`, `rjieba`, `sudachipy` and
`pythainlp` cut as `data.tokenizer.segmenter` does, the others cut whole sentences. Each runs in a
process of its own: `start` is the seconds until the first sentence is cut, `letters_a_second` of
CPU time after that, `memory_MB` what it adds to the process, `size_MB` what its files take (with
the dictionary, without other packages that it needs). What is not installed is left out.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

from paired import row

Cut = Callable[[str], Iterable[str]]


def _own(name: str) -> Cut:
    from regard.data.text.segmenters import Segmenter

    return Segmenter.of(name).words


def _jieba() -> Cut:
    library = import_module("jieba")
    library.setLogLevel(60)
    return library.lcut


def _pkuseg() -> Cut:
    return import_module("pkuseg").pkuseg().cut


def _thulac() -> Cut:
    cutter = import_module("thulac").thulac(seg_only=True)
    return lambda text: [word for word, _ in cutter.cut(text)]


def _janome() -> Cut:
    cutter = import_module("janome.tokenizer").Tokenizer()
    return lambda text: list(cutter.tokenize(text, wakati=True))


def _budoux(language: str) -> Cut:
    return getattr(import_module("budoux"), f"load_default_{language}_parser")().parse


PEERS: dict[str, tuple[tuple[str, ...], Callable[[], Cut]]] = {
    "letters": ((), lambda: _own("letters")),
    "rjieba": (("rjieba",), lambda: _own("rjieba")),
    "sudachipy": (("sudachipy", "sudachidict-small"), lambda: _own("sudachipy")),
    "pythainlp": (("pythainlp",), lambda: _own("pythainlp")),
    "jieba": (("jieba",), _jieba),
    "pkuseg": (("pkuseg",), _pkuseg),
    "thulac": (("thulac",), _thulac),
    "janome": (("janome",), _janome),
    "budoux-zh": (("budoux",), lambda: _budoux("simplified_chinese")),
    "budoux-th": (("budoux",), lambda: _budoux("thai")),
}


def sentences(path: Path) -> list[list[tuple[str, bool]]]:
    """Of each sentence its words, and whether a blank is behind each."""
    found: list[list[tuple[str, bool]]] = [[]]
    for line in path.read_text("utf-8").splitlines():
        cells = line.split("\t")
        if not line:
            found.append([])
        elif cells[0].isdigit():
            found[-1].append((cells[1], "SpaceAfter=No" not in cells[-1]))
    return [one for one in found if one]


def spans(words: Iterable[str]) -> set[tuple[int, int]]:
    """Where words stand among the letters of their text, blanks left out."""
    found, at = set(), 0
    for word in words:
        size = len("".join(word.split()))
        if size:
            found.add((at, at + size))
        at += size
    return found


def size(packages: Sequence[str]) -> int:
    """What the files of some packages take, in bytes."""
    every = (file.locate() for name in packages for file in files(name) or ())
    return sum(path.stat().st_size for path in map(Path, every) if path.exists())


def _memory() -> int:
    """The most that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measured(name: str, path: Path) -> dict[str, object]:
    """A row of the table."""
    packages, load = PEERS[name]
    told = [f"{one} {version(one)}" for one in packages]
    gold = sentences(path)
    texts = ["".join(w + " " * blank for w, blank in one).strip() for one in gold]
    before, start = _memory(), time.perf_counter()
    cut = load()
    list(cut(texts[0]))
    begun, start = time.perf_counter() - start, time.process_time()
    made = [list(cut(text)) for text in texts]
    spent = time.process_time() - start
    hit = of = own = 0
    for right, words in zip(gold, made, strict=True):
        one, other = spans(word for word, _ in right), spans(words)
        hit, of, own = hit + len(one & other), of + len(one), own + len(other)
    return {
        "segmenter": name, "packages": told, "file": path.name, "sentences": len(texts),
        "f1": round(200 * hit / (of + own), 1), "start": round(begun, 2),
        "letters_a_second": int(sum(map(len, texts)) / max(spent, 1e-9)),
        "memory_MB": _memory() - before,
        "size_MB": round(size(packages) / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    """Measure each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--one", action="store_true", help="in this process")
    asked = parser.parse_args()
    for name in asked.peers:
        if asked.one:
            try:
                row(**measured(name, asked.file))
            except (ImportError, PackageNotFoundError, RuntimeError) as error:
                row(segmenter=name, left_out=str(error))
            continue
        command = [sys.executable, __file__, str(asked.file), "--peers", name, "--one"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            row(segmenter=name, left_out=done.stderr.strip()[-200:])
        else:
            print(json.dumps(json.loads(lines[-1])), flush=True)


if __name__ == "__main__":
    main()
