"""Packed products in float32, bfloat16 and int8, in turns: multiplications with additions a second.

    python benchmarks/packed_products.py --level AVX2 --out 8000

One thread, CPU time, the median of some turns. Below AVX-512 the level is forced, whatever the
machine has.
"""

import argparse
import json
import statistics
import time

import torch
from paired import machine

from regard import native
from regard.native.loading import at_level
from regard.native.packed_products import PRECISIONS, PackedProduct

ROWS = (1, 5, 8, 16, 32, 160)


def measured(size: int, out: int, rows: int, turns: int) -> dict[str, float]:
    """GMAC/s of each precision."""
    torch.manual_seed(0)
    weight, x = torch.randn(out, size), torch.randn(rows, size)
    products = {precision: PackedProduct(weight, precision) for precision in PRECISIONS}
    times = max(1, int(60e6 / (rows * size * out)))
    taken: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    for _ in range(turns):
        for precision, product in products.items():
            start = time.process_time()
            for _ in range(times):
                product(x)
            taken[precision].append(time.process_time() - start)
    work = 1e-9 * times * rows * size * out
    return {name: round(work / statistics.median(own), 1) for name, own in taken.items()}


def main() -> None:
    """Print a line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--level", default=native.level())
    parser.add_argument("--size", type=int, default=256, help="inputs (default: 256)")
    parser.add_argument("--out", type=int, default=8000, help="outputs (default: 8000)")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    print(json.dumps({**machine(), "level": options.level}))
    with at_level(options.level):
        for rows in ROWS:
            found = measured(options.size, options.out, rows, options.turns)
            print(json.dumps({"rows": rows, **found}), flush=True)


if __name__ == "__main__":
    main()
