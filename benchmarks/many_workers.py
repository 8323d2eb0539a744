"""What a step of many workers would cost, from figures of one: bytes, stragglers, data.

    REGARD_DATA=… python benchmarks/many_workers.py

Measured, in CPU seconds of one thread: a step of a Transformer as translation/de-en-small trains it
(forward, backward, Adam); how far micro-batches differ in length; the plan of an epoch, which every
process makes of data in memory or in a store; the reading of a stream, of which each process has
its lanes alone. The rest is arithmetic: a ring all-reduce sends 2 (W-1)/W of the gradients' bytes
from each worker; a step waits for the longest of W micro-batches.
"""

import argparse
import gzip
import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from regard import catalog
from regard.data.batch import plan
from regard.data.sources import find
from regard.data.storage.shuffle_buffer import Lane
from regard.tasks.generation.translation import Translation

COLUMNS = {"source": "other", "target": "en"}
SIZE = {"dim": 256, "heads": 4, "layers": 3, "decoder_layers": 2, "ffn_dim": 768, "norm": "pre"}
TOKENS = 3000
WORKERS = (8, 64, 1000)


def parts(folder: Path, count: int) -> None:
    """The training data of mt/de-en in so many files."""
    with gzip.open(find("mt/de-en/train.tsv.gz"), "rt", encoding="utf-8") as file:
        head, *lines = file
    for n in range(count):
        with gzip.open(folder / f"{n:03}.tsv.gz", "wt", compresslevel=1, encoding="utf-8") as out:
            out.writelines([head, *lines[n::count]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--link", type=float, default=10.0, help="Gbit a second of each worker")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        parts(Path(folder), 8)
        task = Translation(smoothing=0.1)
        stream = {"files": f"{folder}/*.tsv.gz", "buffer": 8 * 5000}
        section = {"stream": stream, "columns": COLUMNS, "sample": 20_000, "max_length": 128,
                   "tokenizer": {"kind": "bpe", "vocab_size": 8000, "shared": True}}  # fmt: skip
        data = task.data(section)
        began, rows, tokens, sizes = time.process_time(), 0, 0, []
        for lane in range(8):
            for examples, _, _ in islice(Lane(data.train, lane, tokens=1, seed=1).buffers(), 1):
                rows, tokens = rows + len(examples), tokens + int(examples.sizes.sum())
                sizes.append(examples.sizes)
                last = examples
        reading = tokens / (time.process_time() - began)
        model = catalog.build("transformer", task.model_arguments(data.fields), SIZE)
        optimizer = torch.optim.Adam(model.parameters())
        batches = plan(last.sizes, tokens=TOKENS)
        began = time.process_time()
        for at, indices in enumerate(batches[: asked.steps]):
            loss, count = task.loss(model, last.collate(indices), at)
            optimizer.zero_grad()
            (loss / count).backward()
            optimizer.step()
        step = (time.process_time() - began) / asked.steps
    every = np.concatenate(sizes)
    padded = np.array([len(b) * int(every[b].max(0).sum()) for b in plan(every, tokens=TOKENS)])
    many = np.tile(every, (-(-1_600_000 // len(every)), 1))[:1_600_000]
    began = time.process_time()
    plan(many, tokens=TOKENS)
    planned = time.process_time() - began
    weights = sum(p.numel() for p in model.parameters())
    print(f"{weights:,} weights; {step:.2f} CPU s a step of {TOKENS} tokens a side, fp32")
    print(f"stream: {rows:,} rows, {tokens:,} tokens, {reading:,.0f} tokens a CPU second")
    print(f"plan of {len(many):,} rows: {planned:.1f} CPU s a pass, in every process")
    print("workers  MB sent each  s at the link  longest / mean  part computing  tokens/s read")
    random = np.random.default_rng(1)
    for workers in WORKERS:
        sent = 2 * (workers - 1) / workers * 4 * weights / 1e6
        link = sent * 8 / 1000 / asked.link
        longest = random.choice(padded, (2000, workers)).max(1).mean() / padded.mean()
        part = step / (step * longest + link)
        print(f"{workers:7,}  {sent:12.1f}  {link:13.3f}  {longest:14.2f}  {part:14.0%}  "
              f"{padded.mean() / (step * longest + link):13,.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
