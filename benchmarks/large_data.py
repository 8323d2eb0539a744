"""Data larger than memory: how fast a store is made, and what training with it takes.

    REGARD_DATA=… python benchmarks/large_data.py FOLDER                  # 10^8 tokens
    REGARD_DATA=… python benchmarks/large_data.py FOLDER --tokens 1e7 --steps 50

Pairs of sentences of mt/de-en are repeated, each time with their words in another random order,
until there are so many tokens on both sides together. Printed: tokens a second while the store is
made (with the pass that the tokenizers are learned in, and behind it), and CPU seconds of all
processes, which other work on the machine changes less; the time from a second start to the first
batch, in a process that has loaded regard and torch; the memory of a process (resident set, the
most at any time) that trains, with all of the data and with 10^5 tokens, and their difference.
"""

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from regard.data.formats import read
from regard.data.sources import find

COLUMNS = {"source": "other", "target": "en"}

TRAIN = """
import json, logging, resource, sys, time
import torch
from regard.data.batch import plan
from regard.tasks.generation.translation import Translation
from regard import catalog
folder, store, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])

def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

class Told(logging.Handler):
    at = 0.0, 0.0
    def emit(self, record):
        if "are learned from" in record.msg:
            Told.at = time.perf_counter(), cpu()

talk = logging.getLogger("regard")
talk.addHandler(Told())
talk.setLevel(logging.INFO)
task, began, idle = Translation(), time.perf_counter(), cpu()
data = task.data({"path": folder, "store": store, "tokenizer": {"vocab_size": 8000}})
sizes = task.model_arguments(data.fields)
opened, busy = time.perf_counter() - began, cpu() - idle
learned = Told.at[0] - began, Told.at[1] - idle
batches = plan(data.train.sizes, tokens=2048, seed=1)
batch = data.train.collate(batches[0])
first, first_cpu = time.perf_counter() - began, cpu() - idle
model = catalog.build("rnnsearch", sizes, {"embed": 64, "hidden": 64, "align": 64})
optimizer = torch.optim.Adam(model.parameters())
for at in range(steps):  # evenly over the epoch, so that every kind of length is met
    batch = data.train.collate(batches[at * len(batches) // steps])
    loss, count = task.loss(model, batch, at)
    optimizer.zero_grad()
    (loss / count).backward()
    optimizer.step()
for indices in batches[:: max(1, len(batches) // 5000)]:  # rows from everywhere
    data.train.collate(indices)
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"opened": opened, "first": first, "mib": most, "rows": len(data.train),
    "cpu": busy, "first_cpu": first_cpu, "learned": learned[0], "learned_cpu": learned[1]}))
"""


def made(folder: Path, tokens: float) -> None:
    """Write train.tsv.gz with about so many words, and a small dev set."""
    file = find("mt/de-en/train.tsv.gz")
    rows = [(row.fields["source"], row.fields["target"]) for row in read(file, COLUMNS)]
    words = sum(len(a.split()) + len(b.split()) for a, b in rows)
    random = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / "train.tsv.gz", "wt", compresslevel=1, encoding="utf-8") as out:
        out.write("source\ttarget\n")
        left, again = tokens, False
        while left > 0:
            some = rows if left >= words else rows[: int(len(rows) * left / words) + 1]
            for pair in some:
                both = [one.split() for one in pair]
                if again:
                    both = [[own[i] for i in random.permutation(len(own))] for own in both]
                out.write("\t".join(" ".join(own) for own in both) + "\n")
            left, again = left - words, True


def trained(data: Path, store: Path, steps: int) -> dict[str, float]:
    """What one process says that opens the data and trains."""
    command = [sys.executable, "-c", TRAIN, str(data), str(store), str(steps)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(what: str, tokens: int, wall: float, cpu: float) -> None:
    rates = f"{tokens / wall:,.0f} tokens/s, {2 * tokens / cpu:,.0f} in 2 CPU s"
    print(f"{what}: {wall:.0f} s, {cpu:.0f} CPU s: {rates}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="for the data and the stores; emptied by nobody")
    parser.add_argument("--tokens", type=float, default=1e8)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    for name, words in (("large", asked.tokens / 1.3), ("small", 1e5 / 1.3)):  # 1.3 tokens a word
        if not (folder / name / "train.tsv.gz").is_file():
            made(folder / name, words)
    store, found = folder / "store", {}
    for name in ("small", "large"):
        began = trained(folder / name, store, 1)
        facts = sorted(store.glob("ids-*/store.json"), key=lambda path: path.stat().st_mtime)[-1]
        tokens = sum(json.loads(facts.read_text())["tokens"].values())
        if name == "large":
            print(f"{tokens:,} tokens, {began['rows']:,.0f} rows")
            told("made with the pass over all rows", tokens, began["opened"], began["cpu"])
            wall = began["opened"] - began["learned"]
            told("made behind it", tokens, wall, began["cpu"] - began["learned_cpu"])
        found[name] = trained(folder / name, store, asked.steps)
    large, small = found["large"], found["small"]
    print(f"second start: opened in {large['opened']:.2f} s, first batch {large['first']:.2f} s "
          f"({large['first_cpu']:.2f} CPU s)")  # fmt: skip
    print(f"memory: {large['mib']:.0f} MiB, with 10^5 tokens {small['mib']:.0f} MiB: "
          f"{large['mib'] - small['mib']:+.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
