"""The edges of a graph: each node looks at its neighbors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.mask.base import Mask, integers, shown
from regard.errors import RequestError

__all__ = ["Edges"]


_T = TypeVar("_T")


class _known(Generic[_T]):
    """A property that is computed once, as `functools.cached_property`.

    Unlike that of Python 3.11, which has a lock, it can be compiled; and fake tensors made by a
    tracer are not cached.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self.make, self.name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, edges: None, owner: type) -> "_known[_T]": ...
    @overload
    def __get__(self, edges: "Edges", owner: type) -> _T: ...
    def __get__(self, edges: "Edges | None", owner: type) -> "_T | _known[_T]":
        if edges is None:
            return self
        if torch.compiler.is_compiling():
            return self.make(edges)
        with torch.inference_mode(False):  # a training may go on with it
            value = self.make(edges)
            first = value[0] if isinstance(value, tuple) else value
            if type(first) in (Tensor, int):
                edges.__dict__[self.name] = value
        return value


@dataclass(frozen=True, eq=False)
class Edges(Mask):
    r"""Query i may look at the keys `sources[offsets[i]:offsets[i + 1]]` and at no others.

    .. math:: M_{ij} = [\, j \in \mathcal N_i \,]

    A graph in CSR format: sorted by query, then by key, without duplicates. Weights are returned
    per edge in this order, (*batch, [head,] edge), and kernels score only edges. All rows of a
    batch share the graph (join several graphs into one with disconnected parts). Queries are its
    nodes; `at` is ignored.

    Results that depend only on the graph are cached on the object, so reuse the object.

    Args:
        offsets: where the edges of each query begin; the last entry is the number of edges.
        sources: the key of each edge.

    Shapes:
        offsets (Q + 1), sources (E), integers; the mask (Q, K)

    Raises:
        RequestError: if these are not sorted rows of a graph.

    Example:
        >>> pairs = torch.tensor([[1, 2, 0], [0, 0, 2]])  # node 0 looks at 1 and 2, node 2 at 0
        >>> Edges.of(pairs, 3).dense(3, 3, at=0, device=torch.device("cpu")).int()
        tensor([[0, 1, 1],
                [0, 0, 0],
                [1, 0, 0]], dtype=torch.int32)
    """

    offsets: Int[Tensor, " rows"]
    sources: Int[Tensor, " edge"]

    def __post_init__(self) -> None:
        for name, shape in (("offsets", "(Q + 1)"), ("sources", "(E)")):
            given = getattr(self, name)
            integers(f"Edges expected {name}", shape, given)
            if given.dtype != torch.int64 or not given.is_contiguous():
                object.__setattr__(self, name, given.long().contiguous())  # C reads them in a row
        if torch.compiler.is_compiling():
            return
        offsets, sources = self.offsets, self.sources
        if offsets.dim() != 1 or sources.dim() != 1 or not len(offsets):
            raise RequestError(
                "Edges expected offsets (Q + 1) and sources (E), got "
                f"{tuple(offsets.shape)} and {tuple(sources.shape)}"
            )
        counts = offsets.diff()
        if offsets[0] != 0 or offsets[-1] != len(sources) or bool((counts < 0).any()):
            raise RequestError(
                f"Edges expected offsets that rise from 0 to {len(sources)} edges; "
                "or use Edges.of(pairs, nodes)"
            )
        if len(sources):
            within = self.targets.diff() == 0
            if bool((sources < 0).any()) or bool((sources.diff()[within] <= 0).any()):
                raise RequestError(
                    "Edges expected the sources of each query in rising order, each once and none "
                    "negative; Edges.of(pairs, nodes) sorts"
                )
        self.__dict__["keys"] = int(sources.max()) + 1 if len(sources) else 0

    @classmethod
    def of(
        cls,
        pairs: Int[Tensor, "2 edge"],
        nodes: int,
        *,
        keys: int | None = None,
        loops: bool = False,
    ) -> "Edges":
        """From a list of edges in any order; duplicates count once.

        Args:
            pairs: the source (key) and the target (query) of each edge, as PyTorch Geometric's
                `edge_index`.
            nodes: the number of queries.
            keys: the number of keys, if they are other nodes than the queries; views then have two
                sets of nodes.
            loops: add self-loops, as graph attention does.
        """
        integers("Edges.of expected pairs", "(2, edge)", pairs)
        if pairs.dim() != 2 or len(pairs) != 2:
            turned = pairs.dim() == 2 and pairs.shape[1] == 2
            raise RequestError(
                f"Edges.of expected pairs (2, edge), got {tuple(pairs.shape)}; "
                + ("pairs.T turns it round" if turned else "sources first, then targets")
            )
        for name, count in (("nodes", nodes), ("keys", keys)):
            if count is not None and count < 0:
                raise RequestError(f"Edges.of expected {name} of 0 or more, got {count}")
        two, keys = keys is not None, nodes if keys is None else keys
        source, target = pairs.long()
        if loops:
            each = torch.arange(min(nodes, keys), device=pairs.device)
            source, target = torch.cat([source, each]), torch.cat([target, each])
        if len(source) and not (
            0 <= int(source.min()) <= int(source.max()) < keys
            and 0 <= int(target.min()) <= int(target.max()) < nodes
        ):
            raise RequestError(
                f"Edges.of expected sources below {keys} and targets below {nodes}, got "
                f"sources up to {int(source.max())} and targets up to {int(target.max())}"
            )
        flat = torch.unique(target * keys + source)
        made = cls(_offsets(flat // keys, nodes), flat % keys)
        made.__dict__["two_sets"] = two
        return made

    two_sets = False
    """Whether keys were said to be other nodes than the queries."""

    @classmethod
    def from_dense(cls, allowed: Bool[Tensor, "query key"]) -> "Edges":
        """From a bool matrix, True where query i may look at key j.

        Raises:
            RequestError: it is no bool matrix (query, key).
        """
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool or allowed.dim() != 2:
            raise RequestError(
                f"Edges.from_dense expected a bool matrix (query, key), got {shown(allowed)}; "
                "for an adjacency of numbers give adjacency != 0"
            )
        target, source = allowed.nonzero(as_tuple=True)
        return cls(_offsets(target, len(allowed)), source)

    def __len__(self) -> int:
        """The number of edges."""
        return len(self.sources)

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @_known
    def keys(self) -> int:
        """The smallest possible number of keys."""
        return int(self.sources.max()) + 1 if len(self.sources) else 0

    @_known
    def targets(self) -> Int[Tensor, " edge"]:
        """The query of each edge."""
        each = torch.arange(self.queries, device=self.offsets.device)
        return torch.repeat_interleave(each, self.offsets.diff(), output_size=len(self.sources))

    @_known
    def narrow(self) -> Int[Tensor, " edge"]:
        """The sources in 32 bits: half the memory to read."""
        return self.sources.int()

    @_known
    def order(self) -> Int[Tensor, " edge"]:
        """The permutation that sorts the edges by key: the reversed graph, for gradients."""
        return torch.argsort(self.sources, stable=True)

    @_known
    def reversed(self) -> tuple[Tensor, Tensor]:
        """The query and the index of each edge of the reversed graph, in 32 bits."""
        return self.targets[self.order].int(), self.order.int()

    def back(self, keys: int) -> Int[Tensor, " keys_and_end"]:
        """The offsets of the reversed graph, for this number of keys."""
        known = self._back
        if len(known) == keys + 1:
            return known
        return torch.cat([known, known[-1:].expand(keys + 1 - len(known))])

    @_known
    def _back(self) -> Tensor:
        return _offsets(self.sources, self.keys)

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        self.check_shape(queries, keys)
        allowed = torch.zeros(queries, keys, dtype=torch.bool, device=device)
        allowed[self.targets.to(device), self.sources.to(device)] = True
        return allowed

    def check_shape(self, queries: int, keys: int) -> None:
        """Refuse a call whose queries and keys are not the graph's nodes."""
        if queries != self.queries or keys < self.keys:
            raise RequestError(
                f"these Edges are of {self.queries} queries and at least {self.keys} keys, "
                f"got {queries} queries and {keys} keys"
            )

    def of_edges(self, pairs: Tensor, *, features: bool = False) -> Tensor:
        """The entries of (..., Q, K[, feature]) at the edges: (..., edge[, feature])."""
        if features:
            return pairs[..., self.targets, self.sources, :]
        return pairs[..., self.targets, self.sources]

    def to(self, device: torch.device | str) -> "Edges":
        if self.sources.device == torch.device(device):
            return self
        moved = object.__new__(Edges)  # these were checked before
        moved.__dict__.update(
            offsets=self.offsets.to(device),
            sources=self.sources.to(device),
            keys=self.keys,
            two_sets=self.two_sets,
        )
        return moved

    def __and__(self, other: Mask | Tensor) -> Mask:
        if isinstance(other, Edges) and other.queries == self.queries:
            keys = max(self.keys, other.keys, 1)
            return self._where(torch.isin(self._flat(keys), other._flat(keys)))
        return super().__and__(other)

    def __or__(self, other: Mask | Tensor) -> Mask:
        if isinstance(other, Edges) and other.queries == self.queries:
            keys = max(self.keys, other.keys, 1)
            flat = torch.unique(torch.cat([self._flat(keys), other._flat(keys)]))
            return Edges(_offsets(flat // keys, self.queries), flat % keys)
        return super().__or__(other)

    def _flat(self, keys: int) -> Tensor:
        return self.targets * keys + self.sources

    def _where(self, kept: Tensor) -> "Edges":
        return Edges(_offsets(self.targets[kept], self.queries), self.sources[kept])


def _offsets(rows: Tensor, count: int) -> Tensor:
    """CSR offsets of `count` rows from row numbers in any order."""
    # not bincount, whose output size is unknown to a compiler
    counts = rows.new_zeros(count + 1).scatter_add_(0, rows + 1, torch.ones_like(rows))
    return counts.cumsum(0)
