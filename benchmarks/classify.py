"""Short texts a second through `predict`: the smallest classifiers, with one and two threads.

    python benchmarks/classify.py                        # cnn and bilstm, 10,000 texts, 5 repeats
    python benchmarks/classify.py cnn --threads 1 --profile

Each model is trained for one epoch on the included phrases, in seconds. The texts are those
phrases, each with a word of another one put into it, so that no two are the same and all words are
known. A row says texts a second, by the clock and by CPU time: min, median and max over the
repeats; `outside` is the share of CPU time that is not in the model. scikit-learn's tf-idf with a
linear support vector machine is measured beside them where it is installed.
"""

import argparse
import cProfile
import json
import pstats
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from paired import machine, row

import regard
from regard import recipe, train
from regard.folder.loaded import Loaded

MODELS = {
    "cnn": {"name": "cnn", "embed": 48, "widths": [2, 3], "filters": 48},
    "bilstm": {"name": "bilstm", "embed": 48, "hidden": 48, "ffn_dim": 48},
}
TRAINING = {
    "epochs": 1, "batch": {"tokens": 300}, "optimizer": {"name": "adam", "lr": 0.003}, "seed": 1,
}  # fmt: skip


def trained(name: str, place: Path) -> Loaded:
    """A model after one epoch."""
    told = {
        "model": MODELS[name], "task": {"name": "classification"}, "data": {"path": "pros-cons"},
        "train": TRAINING,
    }  # fmt: skip
    (place / f"{name}.yaml").write_text(json.dumps(told))
    train.fit(recipe.load(place / f"{name}.yaml"), place / name, progress=False)
    return regard.load(place / name)


def changed(phrases: Sequence[str], count: int) -> list[str]:
    """So many different texts."""
    draw = random.Random(1)
    words = sorted({word for phrase in phrases for word in phrase.split()})
    found: dict[str, None] = {}
    while len(found) < count:
        own = phrases[len(found) % len(phrases)].split()
        own.insert(draw.randrange(len(own) + 1), draw.choice(words))
        found[" ".join(own)] = None
    return list(found)


def speed(work: Callable[[], object], count: int, repeats: int) -> dict[str, list[int]]:
    """Texts a second: [min, median, max] by the clock and by CPU time."""
    work()
    clock, cpu = [], []
    for _ in range(repeats):
        starts = time.perf_counter(), time.process_time()
        work()
        clock.append(count / (time.perf_counter() - starts[0]))
        cpu.append(count / (time.process_time() - starts[1]))
    return {
        name: [round(of(every)) for of in (min, statistics.median, max)]
        for name, every in (("per_second", clock), ("per_cpu_second", cpu))
    }


def outside(loaded: Loaded, texts: Sequence[str]) -> float:
    """The share of CPU time that is not spent in the model."""
    inside = 0.0

    def enter(*_: object) -> None:
        nonlocal inside
        inside -= time.process_time()

    def leave(*_: object) -> None:
        nonlocal inside
        inside += time.process_time()

    hooks = (
        loaded.model.register_forward_pre_hook(enter),
        loaded.model.register_forward_hook(leave),
    )
    start = time.process_time()
    loaded.predict(texts)
    share = 1 - inside / (time.process_time() - start)
    for hook in hooks:
        hook.remove()
    return round(share, 2)


def baseline(phrases: Sequence[str], labels: Sequence[str], texts: Sequence[str]) -> Callable:
    """What predicts the texts with tf-idf of words and pairs of words.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    made = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LinearSVC()).fit(phrases, labels)
    return lambda: made.predict(texts)


def main() -> None:
    """Measure what was asked for."""
    read = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    read.add_argument("models", nargs="*", choices=[*MODELS, []], default=[])
    read.add_argument("--texts", type=int, default=10_000)
    read.add_argument("--repeats", type=int, default=5)
    read.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    read.add_argument("--profile", action="store_true", help="say where the time goes")
    asked = read.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        every = {name: trained(name, Path(folder)) for name in asked.models or MODELS}
    first = next(iter(every.values()))
    data = first.task.data({"path": "pros-cons"}, first.fields, ("train",)).train
    texts = changed(data.texts, asked.texts)
    for threads in asked.threads:
        torch.set_num_threads(threads)
        for name, loaded in every.items():
            found = speed(lambda own=loaded: own.predict(texts), len(texts), asked.repeats)
            share = outside(loaded, texts)
            row(model=name, texts=len(texts), **found, outside=share, **machine())
    if asked.profile:
        with cProfile.Profile() as profile:
            first.predict(texts)
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(20)
    try:
        work = baseline(data.texts, [one[0] for one in data.references], texts)
    except ImportError:
        print("scikit-learn is not installed, and is left out", file=sys.stderr)
        return
    found = speed(work, len(texts), asked.repeats)
    row(model="tf-idf, linear SVM (scikit-learn)", texts=len(texts), **found)


if __name__ == "__main__":
    main()
