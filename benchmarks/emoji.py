"""What a captioner of emoji knows: its own ones in other forms, and ones that it never saw.

    REGARD_DATA=… python benchmarks/emoji.py FOLDER [--limit 1128]

Printed, in percent of pictures: names right to the word; at least one word of the caption among
those of the right name (or of the keywords, where the data have them); the same of the name of the
nearest training picture, by the sum of squared differences of pixels. Known emoji are changed by a
draw that training did not have (`data.images.augment`), and are read at other sizes; those of the
test were never seen, and are counted again where training had all words of their names.
"""

import argparse
import csv
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import regard
from regard.data import sources
from regard.data.images.augment import Varied
from regard.data.images.images import located, pixels, png, resized
from regard.data.text.words import spoken

Pixels = NDArray[np.uint8]
Row = Mapping[str, str]
SIZES = (24, 32, 128)
LESS = {"the", "a", "of", "with", "and", "in", "on"}


def rows(split: str) -> tuple[list[Row], list[Pixels]]:
    """The emoji of a split and their pictures."""
    file = sources.find(f"captions/{split}.tsv")
    with open(file, encoding="utf-8") as opened:
        found = [row for row in csv.DictReader(opened, delimiter="\t") if row["source"] == "emoji"]
    return found, [pixels(located(row["file"], str(file)), 3) for row in found]


def words(row: Row) -> set[str]:
    """Of the name and the keywords."""
    return {*spoken(f"{row['caption']} {row['tags'].replace(';', ' ')}").split()} - LESS


def measured(name: str, said: Sequence[str], near: Sequence[str], right: Sequence[Row]) -> None:
    """One line of the table."""
    parts = []
    for own in (said, near):
        pairs = list(zip(own, right, strict=True))
        same = np.mean([one == spoken(row["caption"]) for one, row in pairs])
        some = np.mean([bool({*one.split()} & words(row)) for one, row in pairs])
        parts += [100 * same, 100 * some]
    print(f"{name:32} {len(right):5}" + "".join(f"{part:9.1f}" for part in parts), flush=True)


def main() -> None:
    """Measure one folder."""
    told = argparse.ArgumentParser()
    told.add_argument("folder")
    told.add_argument("--limit", type=int, default=10_000, help="of the known emoji, evenly")
    args = told.parse_args()
    model = regard.load(args.folder)
    known, drawn = rows("train")
    side = 24
    table = np.stack([resized(one, (side, side)).ravel() for one in drawn]).astype(np.float32)
    half = (table**2).sum(1) / 2

    def nearest(one: Pixels) -> str:
        vector = resized(one, (side, side)).ravel().astype(np.float32)
        return spoken(known[int((half - table @ vector).argmin())]["caption"])

    def both(pictures: Sequence[Pixels]) -> tuple[list[str], list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for i, one in enumerate(pictures):
                files.append(str(Path(folder) / f"{i}.png"))
                Path(files[-1]).write_bytes(png(one))
            said = [one.output for one in model.predict(files)]
        return said, [nearest(one) for one in pictures]

    print(f"{'':32} {'n':>5}{'name':>9}{'a word':>9}{'nearest':>9}{'a word':>9}")
    at = np.unique(np.linspace(0, len(known) - 1, args.limit).round().astype(int)).tolist()
    some, chosen = [known[i] for i in at], [drawn[i] for i in at]
    measured("known, as they are", *both(chosen), some)
    change = replace(Varied(), seed=999)
    random = np.random.default_rng(999)
    measured("known, changed", *both([change.changed(one, random) for one in chosen]), some)
    for size in SIZES:
        measured(f"known, {size} pixels", *both([resized(o, (size, size)) for o in chosen]), some)
    new, fresh = rows("test")
    said, near = both(fresh)
    measured("never seen", said, near, new)
    vocabulary = {word for row in known for word in spoken(row["caption"]).split()}
    own = [i for i, r in enumerate(new) if {*spoken(r["caption"]).split()} <= vocabulary]
    measured("never seen, of known words", *([s[i] for i in own] for s in (said, near)),
             [new[i] for i in own])  # fmt: skip
    for i in own[:12]:
        print(f"  {new[i]['caption']}: {said[i]}")


if __name__ == "__main__":
    main()
