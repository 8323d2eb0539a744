"""Graph attention on large graphs: an epoch against PyTorch Geometric, and 10^7 edges from files.

    python benchmarks/graphs.py epoch --edges 1000000    # beside PyG's GATConv, taking turns
    python benchmarks/graphs.py large --edges 10000000   # mapped files, neighbors drawn, and RSS

An epoch is forward, backward and a step of Adam of the two-layer GAT (8 heads of 8, 64 features)
over the whole graph. Memory is what a process of its own adds to its peak while it does one.
`large` writes a random graph whose neighbors tend to be of one class, trains on it by
`regard train`'s own way, and gives the accuracy, the time and the peak resident memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from paired import machine, paired, row
from torch import nn
from torch.nn import functional as F

CLASSES, FEATURES = 7, 64


def peak() -> float:
    """The most resident memory this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def random_graph(nodes: int, edges: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Features, different pairs without loops, labels."""
    torch.manual_seed(seed)
    pairs = torch.randint(nodes, (2, edges))
    pairs = torch.unique(pairs[:, pairs[0] != pairs[1]], dim=1)
    return torch.randn(nodes, FEATURES), pairs, torch.randint(CLASSES, (nodes,))


class Geometric(nn.Module):
    """The same two layers from PyTorch Geometric, dropouts at the same places."""

    def __init__(self) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        self.first = GATConv(FEATURES, 8, heads=8, dropout=0.6)
        self.second = GATConv(64, CLASSES, dropout=0.6)

    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        h = F.elu(self.first(F.dropout(x, 0.6, self.training), pairs))
        return self.second(F.dropout(h, 0.6, self.training), pairs)


def epochs(nodes: int, edges: int) -> dict[str, object]:
    """A function for each implementation that trains one epoch."""
    from regard.attention import Edges
    from regard.models.gat import GAT

    x, pairs, labels = random_graph(nodes, edges)
    graph, ours, theirs = Edges.of(pairs, nodes, loops=True), GAT(FEATURES, CLASSES), Geometric()

    def epoch(model: nn.Module, run: object) -> object:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

        def once() -> None:
            optimizer.zero_grad()
            F.cross_entropy(run(), labels).backward()
            optimizer.step()

        return once

    return {
        "ours": epoch(ours, lambda: ours(x, graph).logits),
        "PyG": epoch(theirs, lambda: theirs(x, pairs)),
    }


def added_memory(way: str, given: argparse.Namespace) -> float:
    """MiB that an epoch adds to the peak of a process of its own."""
    command = [sys.executable, __file__, "memory", "--way", way]
    command += ["--edges", str(given.edges), "--nodes", str(given.nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["mib"])


def memory(given: argparse.Namespace) -> None:
    """One epoch after a tiny one, so that what is loaded does not count."""
    for warm in epochs(50, 200).values():
        warm()
    chosen = epochs(given.nodes, given.edges)[given.way]
    # The peak of making the graph must not hide the epoch's: it is forgotten (Linux).
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    chosen()
    row(mib=_status("VmHWM") - before)


def _status(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def epoch(given: argparse.Namespace) -> None:
    """Paired times, then memory."""
    ways = epochs(given.nodes, given.edges)
    started = time.process_time()
    ways["ours"]()
    first = time.process_time() - started
    ratio = paired(ways["ours"], ways["PyG"], given.repeats)
    mib = {way: round(added_memory(way, given), 1) for way in ways}
    row(
        id="gat-epoch", baseline="PyTorch Geometric, GATConv", nodes=given.nodes, edges=given.edges,
        ratio=ratio, first_epoch_cpu=round(first, 2), mib=mib,
        memory_ratio=round(mib["ours"] / mib["PyG"], 3), **machine(),
    )  # fmt: skip


def write_large(folder: Path, nodes: int, edges: int) -> None:
    """A graph in mapped files: 3 of 4 neighbors are of a node's own class, features barely tell."""
    from regard.data.graphs.files import write_folder
    from regard.data.graphs.graph import Graph

    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, nodes)
    by_class = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_class], np.arange(CLASSES + 1))
    target = random.integers(0, nodes, edges)
    own = labels[target]
    alike = by_class[starts[own] + (random.random(edges) * np.diff(starts)[own]).astype(np.int64)]
    source = np.where(random.random(edges) < 0.75, alike, random.integers(0, nodes, edges))
    x = random.standard_normal((nodes, FEATURES), dtype=np.float32)
    x[np.arange(nodes), labels] += 1.0
    order = random.permutation(nodes)
    splits = {
        "train": order[:100_000],
        "dev": order[100_000:105_000],
        "test": order[105_000:115_000],
    }
    write_folder(Graph(np.stack([source, target]), x, labels, splits), folder)


RECIPE = """
model: {{name: gat, hidden: 8, heads: 8, dropout: 0.0, attention_dropout: 0.0}}
task: {{name: graphs, graph: {graph}, normalize: false, neighbors: [10, 10]}}
train:
  steps: {steps}
  batch: {{tokens: 1024}}
  optimizer: {{name: adam, lr: 0.005}}
  validate: {{every: {steps}, examples: 5000, tokens: 1024}}
  checkpoint: {{every: 0}}
  log: 20
  threads: 1
  seed: 1
"""


def large(given: argparse.Namespace) -> None:
    """Write the graph in one process, train in another."""
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        started = time.process_time()
        command = [sys.executable, __file__, "write", "--folder", str(folder / "graph")]
        command += ["--edges", str(given.edges), "--nodes", str(given.nodes)]
        subprocess.run(command, check=True)
        size = sum(file.stat().st_size for file in (folder / "graph").iterdir()) / 2**20
        recipe = folder / "recipe.yaml"
        recipe.write_text(RECIPE.format(graph=folder / "graph", steps=given.steps))
        from regard.recipe import load
        from regard.train import fit

        before = peak()
        found = fit(load(str(recipe)), folder / "run", progress=False)
        row(
            id="gat-large", nodes=given.nodes, edges=given.edges, files_mib=round(size),
            steps=given.steps, batch=1024, neighbors=[10, 10], metrics=found["metrics"],
            cpu_seconds=found["training"]["cpu"], wall_seconds=found["training"]["wall"],
            rss_mib=round(peak()), rss_before_mib=round(before),
            cpu_seconds_all=round(time.process_time() - started, 1), **machine(),
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ways = {"epoch": epoch, "large": large, "memory": memory, "write": None}
    parser.add_argument("what", choices=ways)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, help="default: edges / 20; large: / 10")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--way", default="ours", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="where the files of `large` are made; default: $TMPDIR")
    given = parser.parse_args()
    given.nodes = given.nodes or given.edges // (10 if given.what in ("large", "write") else 20)
    torch.set_num_threads(1)
    if given.what == "write":
        write_large(Path(given.folder), given.nodes, given.edges)
    else:
        ways[given.what](given)


if __name__ == "__main__":
    main()
