"""Two versions of regard, paired: what a change costs a small call and the decoding of a sentence.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/trees.py --before /tmp/before

Each version runs in a process of its own, in turns; the figure is the ratio of their CPU times.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

WORK = """
import json, sys, time, torch
torch.set_num_threads(1)
from regard.attention import MultiHead, Window, attend
x = torch.randn(1, 2, 4, 8)
layer, rows = MultiHead(64, 4), torch.randn(8, 20, 64)
import regard
translator = regard.load("de-en-small")
text = ["Guten Morgen, wie geht es Ihnen heute?"]

def small():
    with torch.inference_mode():
        for _ in range(2000):
            attend(x, x, x)

def windowed():
    with torch.inference_mode():
        for _ in range(1000):
            attend(x, x, x, mask=Window(1, 1))

def trained():
    for _ in range(100):
        layer(rows, rows).context.sum().backward()

def sentence():
    for _ in range(5):
        translator.predict(text)

works = {"attend": (small, 2000), "attend, window": (windowed, 1000),
         "heads, with backward": (trained, 100), "a sentence": (sentence, 5)}
for work, _ in works.values():
    work()
print("ready", flush=True)
for line in sys.stdin:
    work, count = works[line.strip()]
    start = time.process_time()
    work()
    print((time.process_time() - start) / count * 1e6, flush=True)
"""
WORKS = ("attend", "attend, window", "heads, with backward", "a sentence")


def started(tree: Path) -> subprocess.Popen[str]:
    """A process with this version."""
    return subprocess.Popen(
        [sys.executable, "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def asked(process: subprocess.Popen[str], work: str) -> float:
    """Microseconds of CPU time of one call."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{work}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    """Print a line for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--pairs", type=int, default=21)
    options = parser.parse_args()
    both = [started(tree.resolve()) for tree in (options.before, options.after)]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for work in WORKS:
        taken: list[list[float]] = [[], []]
        for turn in range(options.pairs):
            for which in ((0, 1), (1, 0))[turn % 2]:
                taken[which].append(asked(both[which], work))
        ratios = sorted(new / old for old, new in zip(*taken, strict=True))
        print(json.dumps({
            "work": work,
            "before, us": round(statistics.median(taken[0]), 2),
            "after, us": round(statistics.median(taken[1]), 2),
            "least": [round(min(one), 2) for one in taken],
            "after / before": [round(x, 3) for x in
                               (ratios[0], statistics.median(ratios), ratios[-1])],
        }), flush=True)  # fmt: skip
    for process in both:
        process.terminate()


if __name__ == "__main__":
    main()
