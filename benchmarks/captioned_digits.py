"""Captions of scenes whose regions are known: attention soft, hard, and none.

    OMP_NUM_THREADS=1 python benchmarks/captioned_digits.py              # REGARD_DATA has digits/
    OMP_NUM_THREADS=1 python benchmarks/captioned_digits.py --kinds soft none --updates 500

A scene has 16 regions, 4 x 4. Four have a handwritten digit of 7 x 7 pixels, the others are empty.
A region is its pixels, its row and its column; there are no convolutions. The caption names the
digits in reading order. "none" reads the mean of all regions for every word.

Printed of test scenes, whose digits training never had: how many words and captions are right
(greedy search), and how often the region with the most weight has the digit that is named.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from regard import watch
from regard.data.images.scenes import shrunk
from regard.models.show_attend_tell import ShowAttendTell
from regard.protocols import BOS, EOS, Inputs

GRID, SIDE, WORDS, FIRST = 4, 7, 4, 4
"""Regions each way, pixels of a digit, words of a caption, and the id of the word "zero"."""
SIZE = SIDE * SIDE + 2 * GRID


class Scenes:
    """Scenes of the digits of one split."""

    def __init__(self, split: str) -> None:
        path = Path(os.environ["REGARD_DATA"]) / "digits" / f"mnist-{split}.npz"
        with np.load(path) as found:
            self.labels = found["labels"].astype(np.int64)
            small = [shrunk(one[..., None], SIDE).ravel() for one in found["images"]]
        self.digits = np.stack(small).astype(np.float32) / 255

    def drawn(
        self, count: int, random: np.random.Generator
    ) -> tuple[Inputs, torch.Tensor, torch.Tensor]:
        """Regions (n, 16, 57), captions (n, 4), and the regions of their digits (n, 4)."""
        chosen = random.integers(len(self.labels), size=(count, WORDS))
        places = np.argsort(random.random((count, GRID * GRID)))[:, :WORDS]
        places.sort(axis=1)
        regions = np.zeros((count, GRID * GRID, SIZE), np.float32)
        regions[np.arange(count)[:, None], places, : SIDE * SIDE] = self.digits[chosen]
        each = np.arange(GRID * GRID)
        regions[:, each, SIDE * SIDE + each // GRID] = 1
        regions[:, each, SIDE * SIDE + GRID + each % GRID] = 1
        words = torch.from_numpy(self.labels[chosen] + FIRST)
        return Inputs(torch.from_numpy(regions)), words, torch.from_numpy(places)


def trained(kind: str, given: argparse.Namespace, seed: int) -> ShowAttendTell:
    """A captioner after some updates, each on new scenes."""
    torch.manual_seed(seed)
    random, scenes = np.random.default_rng(seed), Scenes("train")
    model = ShowAttendTell(
        SIZE, 10 + FIRST, encoder="none", embed=32, hidden=96, align=48, attention=kind, doubly=0.0,
        dropout=0.0, scale=None,
    )  # fmt: skip
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], given.rate)
    for step in range(given.updates):
        for group in optimizer.param_groups:  # half a cosine
            group["lr"] = given.rate * (1 + np.cos(np.pi * step / given.updates)) / 2
        regions, words, _ = scenes.drawn(given.batch, random)
        output = model(regions, F.pad(words, (1, 0), value=BOS))
        out = F.pad(words, (0, 1), value=EOS)
        loss = F.cross_entropy(output.logits.flatten(0, 1), out.flatten())
        optimizer.zero_grad()
        (loss + output.extra.get("penalty", 0.0)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def judged(model: ShowAttendTell, count: int) -> dict[str, float]:
    """Shares of test scenes, in percent."""
    regions, words, places = Scenes("test").drawn(count, np.random.default_rng(99))
    said = torch.full((count, 1), BOS)
    for _ in range(WORDS):
        said = torch.cat([said, model(regions, said).logits[:, -1:].argmax(-1)], 1)
    right = said[:, 1:] == words
    with watch(model) as seen:
        model(regions, said[:, :-1])
    looked = torch.stack([step[:, 0].argmax(-1) for step in seen["attention"].steps], 1)
    return {
        "words": 100 * float(right.float().mean()),
        "captions": 100 * float(right.all(1).float().mean()),
        "looked": 100 * float((looked == places).float().mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", default=["soft", "hard", "none"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--scenes", type=int, default=1000, help="test scenes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for kind in given.kinds:
        for seed in given.seeds:
            start = time.process_time()
            model = trained(kind, given, seed)
            spent = time.process_time() - start
            found = {name: round(value, 1) for name, value in judged(model, given.scenes).items()}
            print(json.dumps({"attention": kind, "seed": seed, **found, "cpu_s": round(spent)}))


if __name__ == "__main__":
    main()
