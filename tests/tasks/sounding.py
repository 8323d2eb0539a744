"""Small data sets of sounds: each letter is a tone, a blank is silence."""

import json

import numpy as np

from regard import recipe, train

RATE = 8_000
TONES = {"a": 400.0, "b": 900.0, "c": 1_800.0}


def spoken(text, random, slow=1.0):
    """Samples of a text: 60 to 100 ms of its tone for each letter, with noise."""
    parts = []
    for letter in text:
        t = np.arange(round(RATE * slow * random.uniform(0.06, 0.1))) / RATE
        tone = np.sin(2 * np.pi * TONES[letter] * t) if letter in TONES else 0 * t
        fade = np.minimum(1, np.minimum(t, t[-1] - t) / 0.01)
        parts.append(0.3 * tone * fade)
    made = np.concatenate(parts)
    return (made + random.normal(0, 0.005, len(made))).astype(np.float32)


def write(folder, sizes=(80, 12, 16)):
    """A folder with sounds and three tables."""
    import soundfile

    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, size) in enumerate(zip(("train", "dev", "test"), sizes, strict=True), 1):
        random = np.random.default_rng(seed)
        lines = ["file\ttext"]
        for i in range(size):
            letters = [str(x) for x in random.choice(list("abc"), int(random.integers(2, 6)))]
            if len(letters) > 3:
                letters[2] = " "
            text = "".join(letters)
            soundfile.write(folder / f"{split}{i}.flac", spoken(text, random), RATE)
            lines.append(f"{split}{i}.flac\t{text}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def fitted(folder, data, model, task, epochs=20, **more):
    """The metrics of a small training."""
    text = {
        "model": model, "task": {"rate": RATE, "filters": 16, **task},
        "data": {"path": str(data), **more}, "decode": {"name": "greedy", "max_ratio": 0.3},
        "train": {
            "epochs": epochs, "batch": {"tokens": 600}, "log": 100, "seed": 1, "clip": 1.0,
            "optimizer": {"name": "adam", "lr": 0.01}, "validate": {"every": 40, "examples": 16},
        },
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.yaml").write_text(json.dumps(text))
    return train.fit(recipe.load(folder / "own.yaml"), folder / "run", progress=False)
