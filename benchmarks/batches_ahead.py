"""What it gains to make batches on a thread of their own while the step before is computed.

    python benchmarks/batches_ahead.py [--rounds 7] [--threads 1]

Wall-clock time of 20 training steps in turns, with batches made when asked for and with two
made ahead, for a model that is fast and one that is not, on the included pronunciations. The
share of collating in a step says what there is to gain at most.
"""

import argparse
import itertools
import json
import statistics
import time

import torch

from regard import tasks
from regard.data.batch import plan
from regard.models.rnnsearch import RNNsearch
from regard.models.transformer import Transformer
from regard.train.micro_batches import Stream
from regard.train.prefetch import ahead

STEPS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    told = parser.parse_args()
    torch.set_num_threads(told.threads)
    torch.manual_seed(0)
    task = tasks.load("pronunciation")()
    data = task.data({"path": "pronunciation"})
    sizes = task.model_arguments(data.fields)
    models = {
        "transformer 64": Transformer(
            **sizes, dim=64, heads=2, layers=1, ffn_dim=128, tied="output"
        ),
        "rnnsearch 256": RNNsearch(**sizes, embed=128, hidden=256, maxout=128, align=128),
    }
    for name, model in models.items():
        print(json.dumps(measured(name, model, task, data.train, told.rounds)))


def measured(name, model, task, train, rounds):
    def micros():
        return Stream(train, plan, tokens=2048, seed=1)

    def steps(count):
        began = time.perf_counter()
        items = ahead(micros(), count)
        for micro in itertools.islice(items, STEPS):
            total, size = task.loss(model, micro.batch, 0)
            (total / size).backward()
            model.zero_grad()
        items.close()
        return time.perf_counter() - began

    began = time.perf_counter()
    for _ in itertools.islice(micros(), STEPS):
        pass
    collating = time.perf_counter() - began
    took = {0: [], 2: []}
    for turn in range(rounds + 1):
        for count in (0, 2) if turn % 2 else (2, 0):
            seconds = steps(count)
            if turn:
                took[count].append(seconds)
    ratios = [a / b for a, b in zip(took[0], took[2], strict=True)]
    return {
        "model": name, "threads": torch.get_num_threads(), "batch tokens": 2048,
        "step ms": round(statistics.median(took[0]) / STEPS * 1e3, 2),
        "collating, share of a step": round(collating / statistics.median(took[0]), 4),
        "ratio": {"min": round(min(ratios), 3), "median": round(statistics.median(ratios), 3),
                  "max": round(max(ratios), 3)},
    }  # fmt: skip


if __name__ == "__main__":
    main()
