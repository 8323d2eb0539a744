"""Nodes classified by a linear model, without attention: what a graph has to be worth.

    REGARD_DATA=… python benchmarks/graph_baselines.py cora film texas cornell wisconsin

A logistic regression reads a node's own features ("node"), or these beside the mean of its
neighbors' ("node and neighbors"). Beside it stands how many edges join two nodes of one class,
where both classes are known. The cost is the one of the best accuracy on dev. Needs
`pip install 'regard[baselines]'`.
"""

import argparse
import sys
import time

import numpy as np
from numpy.typing import NDArray

from regard.data.files.npz import arrays
from regard.data.sources import find
from regard.system.extras import install

try:
    from scipy.sparse import coo_matrix, csr_matrix, diags, hstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import normalize
except ModuleNotFoundError as error:
    sys.exit(f"the baselines need scikit-learn: {install('baselines')} ({error})")

COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def features(graph: dict[str, NDArray]) -> dict[str, csr_matrix]:
    """Of each kind the features of all nodes, rows of length 1."""
    own = csr_matrix(
        (graph["x_val"], (graph["x_row"].astype(int), graph["x_col"].astype(int))),
        shape=tuple(graph["x_shape"]),
    )
    source, target = graph["edge_index"]
    edges = coo_matrix((np.ones(len(source)), (target, source)), shape=(own.shape[0],) * 2).tocsr()
    count = np.asarray(edges.sum(1)).ravel()
    mean = diags(1 / np.maximum(count, 1)) @ edges @ own
    own = normalize(own, "l1")
    return {"node": own, "node and neighbors": hstack([own, normalize(mean, "l1")], format="csr")}


def within(graph: dict[str, NDArray]) -> float:
    """The share of edges, loops left out, whose ends are of one class."""
    source, target = graph["edge_index"]
    ends = np.stack([graph["y"][source], graph["y"][target]])[:, source != target]
    known = ends[:, (ends >= 0).all(0)]
    return float((known[0] == known[1]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="+", help="names of files under $REGARD_DATA/graphs")
    print("| graph | edges within a class | features | cost | test accuracy | dev | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name in parser.parse_args().graphs:
        graph = arrays(str(find(f"graphs/{name}.npz")))
        train, dev, test = (graph[f"{split}_idx"] for split in ("train", "val", "test"))
        share = f"{100 * within(graph):.0f} %"
        for kind, x in features(graph).items():
            start = time.process_time()
            best = (-1.0, 0.0, None)
            for cost in COSTS:
                model = LogisticRegression(C=cost, max_iter=2000).fit(x[train], graph["y"][train])
                accuracy = 100 * model.score(x[dev], graph["y"][dev])
                if accuracy > best[0]:
                    best = (accuracy, cost, model)
            seconds = time.process_time() - start
            accuracy, cost, model = best
            found = 100 * model.score(x[test], graph["y"][test])
            row = f"{cost:g} | {found:.1f} | {accuracy:.1f} | {seconds:.1f}"
            print(f"| {name} | {share} | {kind} | {row} |")


if __name__ == "__main__":
    main()
