r"""Graph convolution, what graph attention is measured against. Kipf and Welling, ICLR 2017.

"Semi-Supervised Classification with Graph Convolutional Networks", arXiv 1609.02907.

    H' = ReLU(D^-1/2 (A + I) D^-1/2 H W + b)              2 layers of it; the last without ReLU

The weight of a neighbor is fixed by the degrees: nothing looks at what a node says.

Shapes: features (N, F), sparse or dense; logits (N, classes).

**Departs from the paper**: weight decay is on all weights and biases, not on the first layer's
alone. There are biases, as in the authors' code.
"""

from itertools import pairwise
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Edges
from regard.layers.sparse import CSRMatrix, SparseLinear
from regard.layers.subgraph import SampledSubgraph, edges_of
from regard.protocols import Output

__all__ = ["GCN"]

_norms: WeakKeyDictionary[Edges, CSRMatrix] = WeakKeyDictionary()


class GCN(nn.Module):
    """Layers of graph convolution, the last one giving a score for each class.

    Args:
        in_features: features of a node.
        num_classes: classes.
        hidden: size of the hidden layers.
        layers: how many, with the output layer.
        dropout: on the inputs of each layer.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        hidden: int = 16,
        layers: int = 2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.in_features, self.num_classes = in_features, num_classes
        sizes = [in_features, *[hidden] * (layers - 1), num_classes]
        self.projections = nn.ModuleList(
            SparseLinear(a, b, dropout=dropout) for a, b in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(size)) for size in sizes[1:])

    @property
    def depth(self) -> int:
        """How many steps along the edges an answer depends on."""
        return len(self.projections)

    def forward(
        self, features: CSRMatrix | Float[Tensor, "nodes features"], edges: Edges | SampledSubgraph
    ) -> Output:
        """Class scores of all nodes, or of a `SampledSubgraph`'s seeds: logits (N, classes)."""
        degrees = edges.degrees if isinstance(edges, SampledSubgraph) else edges.offsets.diff()
        h: CSRMatrix | Tensor = features
        last = self.depth - 1
        for i, (project, bias) in enumerate(zip(self.projections, self.biases, strict=True)):
            norm = _normalized(edges_of(edges, i), degrees)
            degrees = degrees[: norm.shape[0]]
            projected = project(h)
            out = norm.matmul(norm.value.to(projected.dtype), projected) + bias
            h = out if i == last else torch.relu(out)
        assert isinstance(h, Tensor)
        return Output(h, {})


def _normalized(edges: Edges, degrees: Tensor) -> CSRMatrix:
    """D^-1/2 (A + I) D^-1/2 as sparse rows, made once for edges that have their loops.

    Where only some neighbors of a node were drawn, they stand for all of them.
    """
    if edges not in _norms:
        row, column, queries = edges.targets, edges.sources, edges.queries
        root = degrees.clamp(min=1).to(torch.float32).rsqrt()
        stands = degrees[:queries] / edges.offsets.diff().clamp(min=1)
        value = root[row] * root[column] * stands.to(torch.float32)[row]
        _norms[edges] = CSRMatrix(row, column, value, (queries, len(degrees)))
    return _norms[edges]
