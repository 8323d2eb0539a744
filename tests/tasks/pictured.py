"""Pictures with labels for tests: where the bright half is, in each of the forms that are read."""

import json
import tarfile

import numpy as np

from regard import recipe, train
from regard.data.images.images import png

SIZES = {"train": 60, "dev": 20, "test": 20}


def drawn(count, seed, size=8):
    """Noise with one bright half: "up" or "down"."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=count)
    made = random.integers(0, 60, (count, size, size, 1)).astype(np.uint8)
    for one, label in zip(made, labels, strict=True):
        half = size // 2
        one[half * label : half * (label + 1)] += 150
    return made, ["up" if label == 0 else "down" for label in labels]


def arrays(folder, sizes=SIZES):
    """train.npz, dev.npz and test.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, count) in enumerate(sizes.items(), 1):
        made, labels = drawn(count, seed)
        np.savez(folder / f"{split}.npz", images=made[..., 0], labels=np.array(labels))
    return folder


def folders(folder, sizes=SIZES):
    """A folder for each split and in it one for each label."""
    for seed, (split, count) in enumerate(sizes.items(), 1):
        for i, (one, label) in enumerate(zip(*drawn(count, seed), strict=True)):
            place = folder / split / label
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{i}.png").write_bytes(png(one))
    return folder


def tables(folder, sizes=SIZES):
    """JSON lines that name pictures of a tar file beside them."""
    folders(folder / "all", sizes)
    for split in sizes:
        rows = []
        with tarfile.open(folder / f"{split}.tar", "w") as archive:
            for path in sorted((folder / "all" / split).glob("*/*.png")):
                archive.add(path, path.name)
                rows.append({"image": path.name, "label": path.parent.name})
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


FORMS = {"arrays": arrays, "folders": folders, "tables": tables}

RAM = {"name": "ram", "side": 4, "glimpses": 3, "hidden": 8, "glimpse": 16, "core": 16}
VGG = {"name": "vgg", "widths": [4, 8], "convolutions": [1, 1], "ffn_dim": 8, "dropout": 0.0}
PARTS = {"name": "ma-cnn", "parts": 2, "widths": [4, 6], "convolutions": [1, 1], "hidden": 8}


def trained(data, out, model=VGG, steps=120, **task):
    """A small model, trained for a moment, into `out`."""
    text = {
        "model": model,
        "task": {"name": "images", "size": 8, "channels": 1, **task},
        "data": {"path": str(data)},
        "train": {
            "steps": steps, "batch": {"tokens": 20}, "log": 100, "seed": 1,
            "optimizer": {"name": "adam", "lr": 0.02}, "validate": {"every": 60, "examples": 20},
        },
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / "own.yaml").write_text(json.dumps(text))
    return train.fit(recipe.load(out / "own.yaml"), out / "run", progress=False)
