"""RNNsearch trained end to end: streaming kernels against the same model by the parts as written.

    python benchmarks/rnnsearch_training.py                 # 64 pairs of about 25 words, one thread
    python benchmarks/rnnsearch_training.py --batch 16 --words 50

One model, one optimizer step at a time, in turns: as it comes, and inside `kernels("reference")`.
Tokens are real target tokens; their rates are by CPU time, wall time stands beside them.
"""

import argparse
import statistics
import time
from contextlib import nullcontext

import torch
from measure import load, machine
from paired import row
from torch.nn import functional as F

from regard.attention import explain, kernels
from regard.models.rnnsearch import RNNsearch
from regard.protocols import EOS


def batch(rows: int, words: int, vocabulary: int) -> tuple[torch.Tensor, ...]:
    """Source, lengths, target: rows of half to all of `words` words, padded with zeros."""
    lengths = torch.randint(words // 2, words + 1, (rows,))
    source, target = (torch.randint(4, vocabulary, (rows, words)) for _ in range(2))
    for text in (source, target):
        text[torch.arange(words) >= lengths[:, None]] = 0
        text[torch.arange(rows), lengths - 1] = EOS
    return source, lengths, target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--words", type=int, default=25)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=8000)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    model = RNNsearch(given.vocabulary, given.vocabulary, **sizes(given.dim))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    source, lengths, target = batch(given.batch, given.words, given.vocabulary)
    read = F.pad(target[:, :-1], (1, 0), value=2)
    tokens = int(lengths.sum())

    def step(forced: bool) -> float:
        with kernels("reference") if forced else nullcontext():
            logits = model(source, read).logits
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    for forced in (True, False):
        step(forced)
    rates: dict[bool, list[float]] = {False: [], True: []}
    walls: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(given.repeats):
        for forced in (True, False) if turn % 2 else (False, True):
            start, began = time.process_time(), time.perf_counter()
            step(forced)
            rates[forced].append(tokens / (time.process_time() - start))
            walls[forced].append(tokens / (time.perf_counter() - began))
    ratios = [ours / theirs for ours, theirs in zip(rates[False], rates[True], strict=True)]
    row(
        id="rnnsearch-training",
        baseline='the same model inside kernels("reference")',
        kernels=sorted({one.kernel for one in explain(model).values()}),
        tokens_per_second={
            "streaming": round(statistics.median(rates[False])),
            "reference": round(statistics.median(rates[True])),
        },
        wall_tokens_per_second={
            "streaming": round(statistics.median(walls[False])),
            "reference": round(statistics.median(walls[True])),
        },
        ratio={
            "min": round(min(ratios), 3),
            "median": round(statistics.median(ratios), 3),
            "max": round(max(ratios), 3),
        },
        shape={"batch": given.batch, "words": given.words, "dim": given.dim},
        parameters=sum(p.numel() for p in model.parameters()),
        dtype="float32",
        load=load(),
        **{k: v for k, v in machine(given.threads).items() if k != "load"},
    )


def sizes(dim: int) -> dict[str, int]:
    """The paper's 620, 1000, 1000 and 500 in small."""
    return {"embed": dim, "hidden": dim, "align": dim, "maxout": dim // 2}


if __name__ == "__main__":
    main()
