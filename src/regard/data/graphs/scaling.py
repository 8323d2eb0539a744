r"""How the features of nodes are brought to one scale.

- `l1`: each row divided by the sum of its absolute values, as papers on citation graphs do with
  counts of words; rows of zeros stay.
- `standard`: each feature has mean 0 and variance 1 over the nodes that training reads, as in
  :math:`x' = (x - \mu) / \sigma`; one that never changes becomes 0.
- `none`: as they are.
- `auto`: `l1` where all features are counts (whole numbers, none below 0), else `none`: the sum of
  signed numbers may be close to 0, and says nothing of their size.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.data.graphs.graph import Graph, SparseRows
from regard.errors import RequestError, nearest

__all__ = ["KINDS", "Scaling"]

KINDS = ("auto", "l1", "standard", "none")
_BLOCK = 1 << 16
_NOTHING = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Scaling:
    """A scale for rows of features.

    Args:
        kind: one of `KINDS`, but for `auto`.
        mean, deviation: (F,) of `standard`.
    """

    kind: str = "none"
    mean: NDArray[np.float64] = field(default_factory=lambda: _NOTHING)
    deviation: NDArray[np.float64] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def of(cls, asked: bool | str, graph: Graph) -> "Scaling":
        """The scale that is asked for, with the numbers of the graph that is trained on.

        Of several graphs those with nodes of the split train count for `standard`.

        Raises:
            RequestError: there is no such kind.
        """
        kind = ("none", "l1")[asked] if isinstance(asked, bool) else asked
        if kind not in KINDS:
            raise RequestError(f"task.normalize: there is no {kind!r}: {nearest(kind, KINDS)}")
        if kind == "auto":
            kind = "l1" if _are_counts(graph) else "none"
        if kind != "standard":
            return cls(kind)
        return cls("standard", *_moments(graph))

    def of_sparse(self, rows: SparseRows) -> SparseRows | NDArray[np.floating]:
        """All features of a graph on this scale; where zeros change, as a whole matrix."""
        if self.kind == "l1":
            return rows.normalized()
        return self.of_dense(rows.dense()) if self.kind == "standard" else rows

    def of_dense(self, rows: NDArray[np.floating]) -> NDArray[np.float32]:
        """Some rows on this scale."""
        if self.kind == "l1":
            total = np.abs(rows).sum(1, keepdims=True)
            return (rows / np.where(total == 0, 1, total)).astype(np.float32)
        if self.kind == "standard":
            return ((rows - self.mean) / self.deviation).astype(np.float32)
        return np.asarray(rows, np.float32)


def _are_counts(graph: Graph) -> bool:
    """Whether every feature is a whole number from 0 up."""
    features = graph.features
    values = features.value if isinstance(features, SparseRows) else features
    for start in range(0, len(values), _BLOCK):
        block = np.asarray(values[start : start + _BLOCK])
        if block.size and (block.min() < 0 or (block != np.floor(block)).any()):
            return False
    return True


def _moments(graph: Graph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each feature over the nodes that training reads."""
    nodes = np.arange(len(graph))
    if len(graph.starts) > 1 and len(graph.splits.get("train", ())):
        of = np.searchsorted(np.asarray(graph.starts), nodes, side="right")
        nodes = nodes[np.isin(of, of[graph.splits["train"]])]
    width = graph.features.shape[1]
    total, squares = np.zeros(width), np.zeros(width)
    step = max(1, _BLOCK * 64 // max(width, 1))
    blocks = [nodes[start : start + step] for start in range(0, len(nodes), step)]
    for block in blocks:
        total += _dense(graph, block).sum(0)
    mean = total / max(len(nodes), 1)
    for block in blocks:  # a second time: differences from the mean lose no digits
        squares += ((_dense(graph, block) - mean) ** 2).sum(0)
    deviation = np.sqrt(squares / max(len(nodes), 1))
    return mean, np.where(deviation == 0, np.inf, deviation)


def _dense(graph: Graph, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    features = graph.features
    rows = features.some(nodes).dense() if isinstance(features, SparseRows) else features[nodes]
    return np.asarray(rows, np.float64)
