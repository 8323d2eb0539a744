"""Small data sets with labels, for the tests of tasks that label; and how they are trained."""

import json

import numpy as np

from regard import recipe, train

GOOD, BAD = ("fine", "lovely", "great"), ("dull", "awful", "poor")


def rows(count, seed=1):
    """Short reviews: the one word of opinion says the label."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        good = bool(random.integers(2))
        word = str(random.choice(GOOD if good else BAD))
        film = str(random.choice(["film", "plot", "cast", "score"]))
        text = f"The {film} is {word}. We saw it."
        found.append({"text": text, "label": "pos" if good else "neg", "of": film})
    return found


def pairs(count, seed=1):
    """Two lists of words; how many they share is the score, and more than half is the label."""
    random = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(30)])
    found = []
    for i in range(count):
        a = random.choice(words, 6, replace=False)
        b = a.copy()
        changed = int(random.integers(7))
        b[:changed] = random.choice(words, changed, replace=False)
        shared = len({*a} & {*b})
        found.append({
            "a": " ".join(a), "b": " ".join(b), "score": 1 + 4 * shared / 6,
            "label": int(shared > 3), "query": f"q{i // 4}",
        })  # fmt: skip
    return found


def write(folder, sizes=(120, 40, 40), make=rows):
    """A folder with three splits in JSON lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, size) in enumerate(zip(("train", "dev", "test"), sizes, strict=True), 1):
        lines = [json.dumps(row) for row in make(size, seed)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def fitted(folder, data, model, task, epochs=20, **more):
    """The metrics of a small training."""
    text = {
        "model": model, "task": task, "data": {"path": str(data), **more},
        "train": {
            "epochs": epochs, "batch": {"tokens": 300}, "log": 100, "seed": 1,
            "optimizer": {"name": "adam", "lr": 0.02}, "validate": {"every": 20, "examples": 50},
        },
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.yaml").write_text(json.dumps(text))
    return train.fit(recipe.load(folder / "own.yaml"), folder / "run", progress=False)
