"""Files through a model by 1 and by more processes: lines a second, in turns.

    python benchmarks/bulk.py [--model de-en-small --lines 800 --shards 8 --workers 1,2 --turns 3]
    python benchmarks/bulk.py --engine ray --nodes 2  # processes here, one CPU each

The same shards are predicted by so many processes and by so many others, the order flipped each
time; a ratio is of two neighbours. Wall time from the command to its end, so that imports and
loading count, and again without them, as the notes of the shards have it. What else the machine
does is said as its load average before each run: other work makes every figure smaller, so that
lines a second of CPU time (of all processes, with imports and loading) stand beside them; not with
`--nodes`, whose processes belong to a cluster that runs before and after.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paired import machine, row

from serve import texts_of


def shards_of(folder: Path, texts: list[str], count: int) -> None:
    folder.mkdir()
    for number in range(count):
        own = texts[number::count]
        (folder / f"{number:02}.txt").write_text("\n".join(own) + "\n", "utf-8")


def once(model: str, corpus: Path, out: Path, workers: int, engine: str) -> dict[str, float]:
    words = [sys.executable, "-m", "regard", "predict", model, "-i", f"{corpus}/*.txt"]
    words += ["-o", str(out), "--workers", str(workers), "--engine", engine]
    load, began, before = os.getloadavg()[0], time.monotonic(), spent()
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, cpu = time.monotonic() - began, spent() - before
    notes = [json.loads(path.read_text()) for path in (out / ".bulk").glob("*.json")]
    lines = sum(note["lines"] for note in notes)
    assert re.search(f"{len(notes)} of {len(notes)} shards made", done.stderr), done.stderr
    # Each process works through its shards one after another.
    own: dict[str, float] = {}
    for note in notes:
        own[note["process"]] = own.get(note["process"], 0.0) + note["seconds"]
    found = {"all": lines / seconds, "predicting": lines / max(own.values()), "cpu": lines / cpu}
    return {**found, "load": load, "processes": len(own)}


def spent() -> float:
    """CPU seconds of all processes that were waited for, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


KEYS = ("all", "predicting", "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--data", default="mt/de-en/test.tsv.gz")
    parser.add_argument("--column", default="other")
    parser.add_argument("--lines", type=int, default=800)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--nodes", type=int, default=0, help="of a Ray cluster to start; 0: none")
    options = parser.parse_args()
    with cluster_of(options.nodes):
        measure(options)


@contextmanager
def cluster_of(nodes: int) -> Iterator[None]:
    """A Ray cluster of so many nodes, each with one CPU, which the commands find."""
    if not nodes:
        yield
        return
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        os.environ["RAY_ADDRESS"] = cluster.address
        yield
    finally:
        cluster.shutdown()


def measure(options: argparse.Namespace) -> None:
    counts = [int(count) for count in options.workers.split(",")]
    texts = texts_of(options.data, options.column, options.lines)
    found: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
    outputs = []
    with tempfile.TemporaryDirectory(prefix="regard-bulk-") as name:
        corpus = Path(name) / "corpus"
        shards_of(corpus, texts, options.shards)
        for turn in range(options.turns):
            for count in counts if turn % 2 == 0 else counts[::-1]:
                out = Path(name) / f"out-{turn}-{count}"
                one = once(options.model, corpus, out, count, options.engine)
                found[count].append(one)
                outputs.append({path.name: path.read_bytes() for path in out.glob("*.txt")})
                row(turn=turn, workers=count, **{key: round(v, 2) for key, v in one.items()})
    first, keys = found[counts[0]], KEYS[:2] if options.nodes else KEYS
    for count in counts:
        ratios = [
            {key: one[key] / other[key] for key in keys}
            for one, other in zip(found[count], first, strict=True)
        ]
        row(
            workers=count, engine=options.engine, nodes=options.nodes, lines=len(texts),
            same_bytes=same(outputs),
            **{f"{k}_per_s": round(statistics.median(x[k] for x in found[count]), 1)
               for k in keys},
            **{f"{k}_ratio": [round(f(x[k] for x in ratios), 2)
                              for f in (min, statistics.median, max)]
               for k in keys},
            **machine(),
        )  # fmt: skip


def same(outputs: list[dict[str, bytes]]) -> bool:
    return all(one == outputs[0] for one in outputs)


if __name__ == "__main__":
    main()
