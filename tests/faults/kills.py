"""`make faults`: work that is killed (SIGKILL) at random moments, and what is on the disk then.

    python -m tests.faults.kills                 210 kills over all kinds of work
    python -m tests.faults.kills --kills 1000 --seed 2 training saving

A kind of work is begun in a process of its own, by fork, so that a start costs milliseconds. After
each kill every file under a final name must be whole; then the next process goes on with the same
folder. Where a result is promised (a training's weights), it must be that of a run which nobody
disturbed. The moments follow from the seed, but not what the process does at them.
"""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import forked

__all__ = ["KINDS", "Kind", "killed", "main"]

RECIPE = """
model: {name: rnnsearch, embed: 6, hidden: 6, align: 6, maxout: 6, dropout: 0.1}
task: {name: translation}
data:
  path: %s
  columns: {source: source, target: target}
  tokenizer: {kind: words, vocab_size: 40}
train:
  steps: 24
  batch: {tokens: 60}
  optimizer: {name: adam, lr: 0.003}
  average: 2
  validate: {every: 7, examples: 0}
  checkpoint: {every: 1}
  device: cpu
  threads: 1
  log: 1
  final: last
"""


@dataclass(frozen=True)
class Kind:
    """Work that is killed.

    Args:
        work: does it once, in the process that is killed; begun again until that is killed, or
            once where it is `resumed`.
        check: looks at what is there, in this process; raises where something is half.
        resumed: the next process goes on until the work is done; then it begins with nothing.
        end: looks at what finished work gave.
    """

    work: Callable[[], Any]
    check: Callable[[], Any]
    resumed: bool = False
    end: Callable[[], Any] = lambda: None


def _training(folder: Path) -> Kind:
    """A training that writes a checkpoint at each step, and at last the model folder."""
    from regard import loading, recipe
    from regard.train.checkpoints import load_checkpoint, load_weights
    from regard.train.run import fit
    from tests.folder import toy

    data, whole, broken = folder / "data", folder / "whole", folder / "broken"
    data.mkdir()
    for split in ("train", "dev", "test"):
        toy.table(data / f"{split}.tsv")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE % data)

    def run(where: Path) -> None:
        fit(recipe.load(path), where, progress=False)

    run(whole)
    expected = (whole / "model.safetensors").read_bytes()
    metrics = json.loads((whole / "metrics.json").read_text())
    log = _losses(whole)

    def check() -> None:
        checkpoints = broken / "checkpoints"
        for one in checkpoints.glob("*.ckpt") if checkpoints.is_dir() else ():
            load_checkpoint(one)
        for one in checkpoints.glob("*.safetensors") if checkpoints.is_dir() else ():
            load_weights(one)
        if (broken / "recipe.yaml").is_file():
            recipe.load(broken / "recipe.yaml").check()
        for one in broken.glob("*.json"):
            json.loads(one.read_text())
        if (broken / "config.json").is_file():
            loading.load(broken)

    def end() -> None:
        assert (broken / "model.safetensors").read_bytes() == expected
        found = json.loads((broken / "metrics.json").read_text())
        assert found["metrics"] == metrics["metrics"]
        assert _losses(broken) == log
        left = {p.name for p in broken.iterdir()} - {p.name for p in whole.iterdir()}
        assert not left, f"left behind: {left}"
        shutil.rmtree(broken)

    return Kind(lambda: run(broken), check, resumed=True, end=end)


def _losses(folder: Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def _toys(folder: Path) -> list[Any]:
    from regard import loading
    from tests.folder import toy

    return [loading.load(toy.make(folder / f"toy{n}", "rnnsearch", seed=n)) for n in (0, 1)]


def _saving(folder: Path) -> Kind:
    """One model folder written over another: it is the one or the other, whole."""
    from regard import loading
    from regard.folder import writing
    from tests.folder import toy

    toys = _toys(folder)
    out = folder / "out"
    toy.make(out, "rnnsearch", seed=0)
    known = {_digest(one) for one in toys}
    text = ["das Fenster"]
    outputs = {_digest(one): one.predict(text)[0].output for one in toys}

    def work() -> None:
        for one in toys:
            writing.save_pretrained(
                out, one.model, task={"name": "translation", "smoothing": 0.1}, fields=one.fields,
                recipe=toy.recipe("rnnsearch"),
            )  # fmt: skip

    def check() -> None:
        found = loading.load(out)
        assert _digest(found) in known
        assert found.predict(text)[0].output == outputs[_digest(found)]

    return Kind(work, check)


def _digest(loaded: Any) -> str:
    return str(loaded.config["weights"]["sha256"])


def _exporting(folder: Path) -> Kind:
    """An export over the one before: whole, or not there, and then made by the next."""
    from regard.convert import export
    from tests.folder import toy

    made = toy.make(folder / "toy", "transformer")
    out = folder / "out"
    names = set(export(made, "huggingface", out))
    whole = {name: (out / name).read_bytes() for name in names}

    def check() -> None:
        if not out.exists():  # killed between the two moves: the next run makes it
            export(made, "huggingface", out)
        assert {n: (out / n).read_bytes() for n in names} == whole
        assert {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} == names

    return Kind(lambda: export(made, "huggingface", out, force=True), check)


def _predicting(folder: Path) -> Kind:
    """`regard predict --into`: a data file written again with what is predicted."""
    from regard.data import formats

    source, out = folder / "in.conll", folder / "out.conll.gz"
    source.write_text("".join(f"w{i} X\nv{i} O\n\n" for i in range(2000)))
    asked = [{3 * i + 1: f"{tag} {tag}" for i in range(2000)} for tag in ("A", "B")]

    def work() -> None:
        for one in asked:
            formats.write_back(source, out, one, 2)

    def check() -> None:
        if out.exists():
            rows = list(formats.read(out, {"text": 1, "tags": 2}))
            assert len(rows) == 2000
            assert len({row.fields["tags"] for row in rows}) == 1

    return Kind(work, check)


def _evaluating(folder: Path) -> Kind:
    """`regard evaluate`, which writes to its standard output alone: nothing else is there then."""
    from regard.cli.app import main
    from tests.folder import toy

    made = toy.make(folder / "toy", "rnnsearch")
    data = toy.table(folder / "test.tsv")

    def work() -> None:
        with open(os.devnull, "w") as nothing:
            sys.stdout = nothing
            asked = ["--data", str(data), "--columns", "source=source,target=target"]
            assert main(["evaluate", str(made), *asked, "--json"]) == 0

    def check() -> None:
        from regard import loading

        loading.load(made)
        assert {p.name for p in folder.iterdir()} == {"toy", "test.tsv"}

    return Kind(work, check)


def _seen(folder: Path) -> Kind:
    """A `.seen` file, a page and a figure written over those before."""
    import numpy as np

    from regard import view, viewer

    weights = np.random.default_rng(0).random((3, 4, 60, 60)).astype(np.float32)
    views = [view(weights[:n], title=f"{n}") for n in (2, 3)]
    file, page = folder / "a.seen", folder / "a.html"

    def work() -> None:
        for one in views:
            one.save(file)
            one.page(page)

    def check() -> None:
        if file.exists():
            found = viewer.read(file)
            assert found.title in ("2", "3")
            assert all(np.isfinite(m.weights).all() for m in found.maps)
        if page.exists():
            assert page.read_text().rstrip().endswith("</html>")

    return Kind(work, check)


def _storing(folder: Path) -> Kind:
    """A token store: made in parts, joined, and opened by the next who asks."""
    from regard.data.storage import building
    from regard.data.storage.store import DONE, opened
    from tests.folder import toy

    words = toy.tokenizers(False)
    pairs = list(zip(toy.GERMAN, toy.ENGLISH, strict=True)) * 30
    rows = [(i, {"source": one, "target": other}) for i, (one, other) in enumerate(pairs)]
    out, whole = folder / "out", folder / "whole"
    building.PART = 64  # so that there are several

    def build(where: Path) -> None:
        building.build(where, rows, words, 50, lambda *_: None)

    build(whole)

    def check() -> None:
        store = opened(out)
        if store is None:
            return
        assert len(store) == len(rows)
        assert [store.texts["source"][i] for i in range(9)] == [s for s, _ in pairs[:9]]

    def end() -> None:
        assert (out / DONE).read_bytes() == (whole / DONE).read_bytes()
        for one in whole.glob("*.npy"):
            assert (out / one.name).read_bytes() == one.read_bytes(), one.name
        shutil.rmtree(out)

    return Kind(lambda: build(out), check, resumed=True, end=end)


def _serving(folder: Path) -> Kind:
    """A folder written again while a server in this process watches it; the writer is killed."""
    import httpx

    from tests.folder import toy
    from tests.serve.running import application, live

    kind, out = _saving(folder), folder / "out"
    text = "das Fenster"
    outputs = {one.predict([text])[0].output for one in _toys(folder)}
    server = live(application(str(out), reload=0.02))
    address = server.__enter__()

    def check() -> None:
        for _ in range(3):
            answer = httpx.post(f"{address}/predict", json={"inputs": text}, timeout=30)
            assert answer.status_code == 200, answer.text
            assert answer.json()["predictions"][0]["output"] in outputs
        kind.check()

    def end() -> None:
        toy.make(out, "rnnsearch", seed=0)
        until = time.monotonic() + 30
        while (state := httpx.get(f"{address}/models").json()["models"][0])["error"]:
            assert time.monotonic() < until, state
            time.sleep(0.05)
        server.__exit__(None, None, None)

    return Kind(kind.work, check, end=end)


KINDS: dict[str, Callable[[Path], Kind]] = {
    "training": _training, "evaluating": _evaluating, "saving": _saving, "exporting": _exporting,
    "predicting": _predicting, "seen": _seen, "storing": _storing, "serving": _serving,
}  # fmt: skip
"""What is killed, and what makes it in a folder."""


def killed(kind: Kind, kills: int, rng: random.Random) -> dict[str, float]:
    """Kill the work so many times, and look at what it left each time.

    Returns:
        how many processes were killed, how many were done before, and how many works came to an
        end.
    """
    took = _once(kind)
    count = {"kills": 0, "done": 0, "ends": 1, "seconds": took}
    while count["kills"] < kills:
        child = _begun(kind)
        time.sleep(rng.random() * took * (0.7 if kind.resumed else 1.5))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            count["kills"] += 1
            kind.check()
            continue
        assert os.waitstatus_to_exitcode(status) == 0, "the work failed"
        count["done"] += 1
        count["ends"] += 1
        kind.check()
        kind.end()
    if kind.resumed:
        _once(kind)
        count["ends"] += 1
    else:
        kind.end()
    return count


def _once(kind: Kind) -> float:
    """The work from here to its end; how long it takes."""
    begun = time.monotonic()
    child = _begun(kind, whole=True)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the work failed"
    took = time.monotonic() - begun
    kind.check()
    if kind.resumed:
        kind.end()
    return took


def _begun(kind: Kind, whole: bool = False) -> int:
    def work() -> None:
        while True:
            kind.work()
            if whole or kind.resumed:
                break

    return forked(work)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Work that is killed at random moments.")
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--kills", type=int, default=216, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    names = options.kinds or list(KINDS)
    failed = total = 0
    for name in names:
        rng = random.Random(f"{name}:{options.seed}")
        with tempfile.TemporaryDirectory() as made:
            try:
                count = killed(KINDS[name](Path(made)), -(-options.kills // len(names)), rng)
            except Exception:
                traceback.print_exc()
                print(f"{name}: FAILED", flush=True)
                failed += 1
                continue
        total += int(count["kills"])
        print(f"{name:11} {count['kills']:4.0f} kills, {count['ends']:3.0f} works came to an end; "
              f"undisturbed it takes {count['seconds']:.2f} s", flush=True)  # fmt: skip
    print(f"{total} kills, {failed} kinds of work with something half or lost")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
