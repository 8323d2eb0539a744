"""Whole decodings of a Transformer: packed by hand, and by programs of its encoder and its step.

    python benchmarks/packed_beside_programs.py --rounds 7

A subclass is decoded by programs, the class itself by its packed form. CPU time of one thread, in
turns; 8,000 words, sources of 10 to 30, 25 words written.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from regard import native
from regard.decode import Beam, Greedy
from regard.models.transformer import Transformer

WORDS, WRITTEN = 8000, 25


class Programmed(Transformer):
    """A Transformer that no packed form knows."""


def seconds(call: Callable[[], object], times: int) -> float:
    """CPU time of a call."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def sources(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids with padding, and lengths."""
    g = torch.Generator().manual_seed(batch)
    lengths = torch.randint(10, 31, (batch,), generator=g)
    lengths[0] = 20 if batch == 1 else 30
    size = int(lengths.max())
    ids = torch.randint(4, WORDS, (batch, size), generator=g)
    return ids.masked_fill(torch.arange(size) >= lengths[:, None], 0), lengths


def main() -> None:
    """Print a line for each precision, batch and decoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = {"dim": 256, "heads": 4, "layers": 3, "ffn_dim": 1024}
    hand = Transformer(WORDS, WORDS, **sizes).eval()
    other = Programmed(WORDS, WORDS, **sizes).eval()
    other.load_state_dict(hand.state_dict())
    print(f"level {native.level()}, torch {torch.__version__}")
    for precision in ("float32", "bfloat16", "int8"):
        for batch in (1, 32):
            limits = {"max_length": WRITTEN, "min_length": WRITTEN, "precision": precision}
            for decoder in (Greedy(**limits), Beam(beam_size=5, **limits)):
                given = sources(batch)
                pair = [lambda m=m, d=decoder, g=given: d(m, *g) for m in (hand, other)]
                first, second = (call() for call in pair)
                same = sum(a[0].tokens == b[0].tokens for a, b in zip(first, second, strict=True))
                times = 8 if batch == 1 else 1
                each = [[seconds(call, times) for call in pair] for _ in range(rounds)]
                ratios = sorted(a / b for a, b in each)
                name = type(decoder).__name__.lower()
                print(
                    f"{precision} {name} batch {batch}: packed, program "
                    f"{1e3 * statistics.median(a for a, _ in each):.1f}, "
                    f"{1e3 * statistics.median(b for _, b in each):.1f} ms; program "
                    f"{statistics.median(ratios):.2f} times as fast "
                    f"({ratios[0]:.2f}-{ratios[-1]:.2f}); {same} of {batch} outputs are the same",
                    flush=True,
                )


if __name__ == "__main__":
    main()
