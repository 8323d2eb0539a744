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
from regard.layers.sparse import Rows, SparseLinear
from regard.protocols import Output

__all__ = ["GCN"]

_norms: WeakKeyDictionary[Edges, Rows] = WeakKeyDictionary()


class GCN(nn.Module):
    """Layers of graph convolution, the last one giving a score for each class.

    Args:
        source: features of a node.
        target: classes.
        hidden: size of the hidden layers.
        layers: how many, with the output layer.
        dropout: on the inputs of each layer.
    """

    def __init__(
        self, source: int, target: int, *, hidden: int = 16, layers: int = 2, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        sizes = [source, *[hidden] * (layers - 1), target]
        self.projections = nn.ModuleList(
            SparseLinear(a, b, dropout=dropout) for a, b in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(size)) for size in sizes[1:])

    def forward(self, features: Rows | Float[Tensor, "nodes features"], edges: Edges) -> Output:
        """Class scores of all nodes: logits (N, classes)."""
        norm = _normalized(edges)
        first, *others = self.projections
        h = first(features)
        for project, bias in zip(others, self.biases, strict=False):
            h = project(torch.relu(norm.times(norm.value.to(h.dtype), h) + bias))
        return Output(norm.times(norm.value.to(h.dtype), h) + self.biases[-1], {})


def _normalized(edges: Edges) -> Rows:
    """D^-1/2 (A + I) D^-1/2 as sparse rows, made once for a graph that has its loops."""
    if edges not in _norms:
        degree = edges.offsets.diff()
        row = torch.repeat_interleave(torch.arange(len(degree), device=degree.device), degree)
        root = degree.clamp(min=1).to(torch.float32).rsqrt()
        column = edges.sources
        _norms[edges] = Rows(row, column, root[row] * root[column], (len(degree), len(degree)))
    return _norms[edges]
