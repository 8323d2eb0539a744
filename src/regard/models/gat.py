r"""Graph attention. Veličković et al., "Graph Attention Networks", ICLR 2018, arXiv 1710.10903.

    e_ij  = LeakyReLU(a_l^T W h_i + a_r^T W h_j)          j in N_i, which has i itself    (1, 3)
    α_ij  = softmax_j(e_ij)                                                               (2, 3)
    h'_i  = ‖_k ELU(Σ_j α^k_ij W^k h_j)                   hidden layers: K heads side by side   (5)
    y_i   = softmax(mean_k Σ_j α^k_ij W^k h_j)            output layer: heads averaged    (6)
    h'_i  = ‖_k ELU(Σ_j α^k_ij W^k h_j + V^k h_i + b^k)   with a skip connection          3.3
    e_ij  = a^T LeakyReLU(W_l h_i + W_r h_j)    `score: dynamic`, GATv2 (Brody et al. 2022, eq. 7)

A node is a query, its neighbors are the memory: the one operation under the mask `Edges`.

Shapes: features (N, F), sparse or dense; edges E pairs; logits (N, classes).

**Departs from the paper** towards the authors' code: a bias behind each aggregation, and dropout
once more on W h where it is read (not where it is scored). The score has no biases of its own (the
code has one for each half, which add up to one number). Dropout on the inputs of a layer is drawn
once for all heads (the code draws it for each). The skip connection is the code's, a learned
projection before the activation; where a layer has one head and keeps the size, the code adds
nothing, by an oversight.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Edges, LeakyAdditive, SplitLinear, Uniform, WeightedSum
from regard.attention.score import Score
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.sparse import CSRMatrix, SparseLinear
from regard.layers.subgraph import SampledSubgraph, edges_of
from regard.protocols import Output

__all__ = ["GAT", "GraphAttention"]


def _split_linear(size: int, heads: int, slope: float) -> Score:
    return SplitLinear(size, size, heads=heads, slope=slope)


def _uniform(size: int, heads: int, slope: float) -> Score:
    return Uniform()


def _leaky(size: int, heads: int, slope: float) -> Score:
    return LeakyAdditive(size, heads=heads, slope=slope)


SCORES: dict[str, Callable[[int, int, float], Score]] = {
    "split-linear": _split_linear,
    "uniform": _uniform,
    "dynamic": _leaky,
}
"""By name: the paper's, its baseline of constant attention (Const-GAT), and GATv2's."""

_NO_EDGES = Edges(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))


class GraphAttention(nn.Module):
    """One layer: K heads that each look at a node's neighborhood.

    Args:
        inputs: F, size of a node's features.
        hidden: F', size of a head.
        heads: K.
        average: heads are averaged (an output layer), not put side by side.
        dropout: on the layer's inputs, and on W h where it is read.
        attention_dropout: on the weights.
        slope: of the leaky ReLU below 0.
        score: how well a neighbor matches: one of `SCORES`, or a part of one's own. "dynamic" is
            GATv2 (Brody, Alon and Yahav 2022): the query has a projection of its own.
        skip: add a learned projection V h_i + b of a node's own features (which are dense then).

    Shapes:
        x (N, F) to (Q, K F'), or (Q, F') averaged; Q nodes look, all N where edges are a graph's
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        heads: int,
        *,
        average: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        slope: float = 0.2,
        score: str | Score = "split-linear",
        skip: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(score, str) and score not in SCORES:
            raise RequestError(f"graph attention has no score {score!r}; {nearest(score, SCORES)}")
        self.heads, self.average, self.dropout = heads, average, dropout
        self.project = SparseLinear(inputs, heads * hidden, dropout=dropout)
        part = SCORES[score](hidden, heads, slope) if isinstance(score, str) else score
        self.look = None
        if isinstance(part, LeakyAdditive):  # W_l; the other projection is W_r
            self.look = SparseLinear(inputs, heads * hidden, dropout=dropout)
        self.attention = Attention(
            score=part,
            read=WeightedSum(dropout=attention_dropout),
            role="edge",
            batch_axes=("head",),
        )
        self.attention.expected_mask = _NO_EDGES
        self.bias = nn.Parameter(torch.zeros(hidden if average else heads * hidden))
        self.skip = nn.Linear(inputs, len(self.bias)) if skip else None  # V, b
        if self.skip is not None:
            nn.init.xavier_uniform_(self.skip.weight)
            nn.init.zeros_(self.skip.bias)

    def forward(
        self, x: CSRMatrix | Float[Tensor, "nodes inputs"], edges: Edges
    ) -> Float[Tensor, "lookers outputs"]:
        """Look at the neighbors; those who look are the first `edges.queries` nodes."""
        own: Tensor | float = 0.0
        looking = None
        if isinstance(x, CSRMatrix) or (self.skip is None and self.look is None):
            h = self.project(x)
            looking = None if self.look is None else self.look(x)  # with a dropout of its own
        else:
            x = dropout(x, self.dropout, self.training)  # the same for all projections
            h, near = x @ self.project.weight, x[: edges.queries]
            looking = None if self.look is None else near @ self.look.weight
            own = 0.0 if self.skip is None else self.skip(near)
        value = dropout(h, self.dropout, self.training)
        nodes = self._split(h)
        query = (nodes if looking is None else self._split(looking))[:, : edges.queries]
        context: Tensor = self.attention(query, nodes, self._split(value), mask=edges).context
        context = context.mean(0) if self.average else context.transpose(0, 1).flatten(1)
        return context + self.bias + own

    def _split(self, x: Tensor) -> Tensor:
        """(N, K F') to (K, N, F')."""
        return x.view(len(x), self.heads, -1).transpose(0, 1)


class GAT(nn.Module):
    """Layers of graph attention, the last one giving a score for each class.

    Args:
        in_features: features of a node.
        num_classes: classes.
        hidden: F' of each hidden layer: one number for all, or one for each.
        heads: K of each hidden layer.
        layers: how many, with the output layer.
        output_heads: K of the output layer, averaged: 1 for Cora and Citeseer, 8 for Pubmed.
        dropout, attention_dropout, slope, score: as in `GraphAttention`.
        skip: every hidden layer but the first has a skip connection (PPI's middle layer).
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        hidden: int | Sequence[int] = 8,
        heads: int = 8,
        layers: int = 2,
        output_heads: int = 1,
        dropout: float = 0.6,
        attention_dropout: float = 0.6,
        slope: float = 0.2,
        skip: bool = False,
        score: str = "split-linear",
    ) -> None:
        super().__init__()
        sizes = [hidden] * (layers - 1) if isinstance(hidden, int) else list(hidden)
        if layers < 1 or len(sizes) != layers - 1:
            raise RequestError(
                f"GAT expected a hidden size for each of its {layers - 1} hidden layers, "
                f"got {hidden!r}"
            )
        self.in_features, self.num_classes = in_features, num_classes
        inputs = [in_features, *(heads * size for size in sizes)]
        layer = partial(
            GraphAttention,
            dropout=dropout,
            attention_dropout=attention_dropout,
            slope=slope,
            score=score,
        )
        self.hidden = nn.ModuleList(
            layer(before, size, heads, skip=skip and i > 0)
            for i, (before, size) in enumerate(zip(inputs, sizes, strict=False))
        )
        self.out = layer(inputs[-1], num_classes, output_heads, average=True)

    @property
    def depth(self) -> int:
        """How many steps along the edges an answer depends on."""
        return len(self.hidden) + 1

    def forward(
        self, features: CSRMatrix | Float[Tensor, "nodes features"], edges: Edges | SampledSubgraph
    ) -> Output:
        """Class scores of all nodes, or of a `SampledSubgraph`'s seeds: logits (N, classes)."""
        x: CSRMatrix | Tensor = features
        for i, layer in enumerate(self.hidden):
            x = F.elu(layer(x, edges_of(edges, i)))
        return Output(self.out(x, edges_of(edges, len(self.hidden))), {})
