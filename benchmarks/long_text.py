"""What a text of 5,000 words costs: memory and time to train on it and to summarize it.

    python benchmarks/long_text.py
    python benchmarks/long_text.py --words 10000 --model pointer-generator
    python benchmarks/long_text.py --model pointer-generator --kernel streaming  # of the attention

One text of words drawn at random, a summary of 100 words, at the paper's sizes unless said
otherwise: three updates with Adam, then a beam of four that writes 100 words. `resident_MiB` is the
most that the process had in memory until then; `imported` is what it had before there was a model.
"""

import argparse
import resource
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from paired import machine, row
from self_critical import cross_entropy
from torch import nn

from regard.attention import kernels
from regard.data.batch import PairBatch
from regard.decode import Beam
from regard.models.paulus import Paulus
from regard.models.pointer_generator import PointerGenerator
from regard.protocols import BOS, EOS, UNK, Inputs

MODELS: dict[str, Callable[[int], nn.Module]] = {
    "paulus": lambda size: Paulus(size, size),
    "pointer-generator": lambda size: PointerGenerator(size, size, embed=128, hidden=256),
}


def example(words: int, summary: int, vocabulary: int) -> PairBatch:
    """A text and a summary of its words, some of which the vocabulary lacks."""
    copies = torch.randint(UNK + 1, vocabulary + 50, (1, words))
    copies[:, -1] = EOS
    out = copies[:, torch.randint(words - 1, (summary,))]
    out[:, -1] = EOS
    into = torch.cat([torch.full((1, 1), BOS), out[:, :-1]], 1)
    lengths = torch.tensor([words])
    ids = torch.where(copies < vocabulary, copies, UNK)
    source = Inputs(ids, lengths, {"copies": copies})
    return PairBatch(source, lengths, into, out, [0], summary)


def update(model: nn.Module, batch: PairBatch, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    cross_entropy(model, batch).backward()
    optimizer.step()


def spent(what: Callable[[], object]) -> dict[str, float]:
    """Seconds of CPU time, and the most memory so far."""
    start = time.process_time()
    what()
    return {"cpu_seconds": round(time.process_time() - start, 2), "resident_MiB": resident()}


def resident() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", choices=sorted(MODELS), default="paulus")
    parser.add_argument("--words", type=int, default=5000)
    parser.add_argument("--summary", type=int, default=100)
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kernel", help="of the attention; the fastest unless said")
    given = parser.parse_args()
    with kernels(given.kernel) if given.kernel else nullcontext():
        measure(given)


def measure(given: argparse.Namespace) -> None:
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    imported = resident()
    model = MODELS[given.model](given.vocabulary)
    batch = example(given.words, given.summary, given.vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    trained = [spent(partial(update, model, batch, optimizer)) for _ in range(3)][-1]
    decoder = Beam(
        beam_size=4, min_length=given.summary, max_length=given.summary, max_extra=given.summary
    )
    with torch.inference_mode():
        decoded = spent(partial(decoder, model.eval(), batch.source))
    row(
        id="long-text", model=given.model, words=given.words, summary=given.summary,
        vocabulary=given.vocabulary, kernel=given.kernel, imported_MiB=imported, update=trained,
        decoding=decoded, dtype="float32", **machine(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
