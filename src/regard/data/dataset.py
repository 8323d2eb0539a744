"""Data sets as trainers and scorers see them: the protocol, named batches, columns of fields."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Batch", "Column", "Dataset", "Table"]


@runtime_checkable
class Dataset(Protocol):
    """Examples that a training goes through and a score is computed of.

    A data set need not inherit from this; it has these names.

    Attributes:
        sizes: tokens of each example on each of its sides, for the planner of batches: (n, sides).
        texts: the input of each example as it was written.
        references: every right output of each example, the trained one first.
    """

    @property
    def sizes(self) -> NDArray[np.int64]: ...
    @property
    def texts(self) -> Sequence[str]: ...
    @property
    def references(self) -> Sequence[list[str]]: ...

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    def count(self, indices: Sequence[int]) -> int:
        """What the loss of some examples is a sum over: tokens, questions, nodes."""
        ...

    def collate(self, indices: Sequence[int]) -> Any:
        """A batch of some examples: named tensors with `.to(device)` and `.count`."""
        ...

    def subset(self, indices: Sequence[int]) -> Any:
        """Some of the examples, in that order."""
        ...


@runtime_checkable
class Column(Protocol):
    """The encoded values of one field for all examples; see `regard.fields`.

    Attributes:
        sizes: tokens of each value; 1 for what is no sequence: (n,).
        counts: what each value counts in a loss that has this field as its target; 0 for a value
            that cannot be learned from (a label never seen in training): (n,).
    """

    @property
    def sizes(self) -> NDArray[np.int64]: ...
    @property
    def counts(self) -> NDArray[np.int64]: ...

    def __len__(self) -> int: ...
    def take(self, indices: NDArray[np.int64]) -> "Column":
        """Some of the values, in that order."""
        ...

    def collate(self, indices: NDArray[np.int64]) -> Any:
        """Some of the values as `Inputs`, or as a tensor of targets."""
        ...


@dataclass(frozen=True, eq=False)
class Batch(Mapping[str, Any]):
    """Named tensors of one step: field name -> `Inputs` or a tensor of targets.

    Args:
        tensors: of each field.
        index: the places of the examples in their data set.
        count: what the loss is a sum over.
    """

    tensors: Mapping[str, Any]
    index: list[int] = field(default_factory=list)
    count: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        """How many fields; the examples are `len(batch.index)`."""
        return len(self.tensors)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """The same batch on another device."""
        moved = {k: v.to(device, non_blocking=non_blocking) for k, v in self.tensors.items()}
        return Batch(moved, self.index, self.count)


class Table:
    """A data set of columns, one for each field.

    Args:
        columns: by the name of the field, all of one length.
        inputs: the fields that a model reads; their sizes are what batches are planned by.
        texts: the input of each example as it was written.
        references: every right output of each.
        target: the field whose counts the loss is a sum over; examples count 1 where not given.
        extras: what a score wants of each example beside its references, by name.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        inputs: Sequence[str],
        texts: Sequence[str],
        references: Sequence[list[str]],
        target: str | None = None,
        extras: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.columns, self.inputs, self.target = dict(columns), list(inputs), target
        self.extras = dict(extras or {})
        self.texts, self.references = texts, references
        self.sizes: NDArray[np.int64] = np.stack([columns[name].sizes for name in inputs], 1)

    def __len__(self) -> int:
        return len(self.texts)

    def count(self, indices: Sequence[int]) -> int:
        """What the loss of some examples is a sum over."""
        if self.target is None or self.target not in self.columns:
            return len(indices)
        return int(self.columns[self.target].counts[np.asarray(indices, np.int64)].sum())

    def collate(self, indices: Sequence[int]) -> Batch:
        """Some examples as named tensors."""
        at = np.asarray(indices, np.int64)
        values = {name: column.collate(at) for name, column in self.columns.items()}
        return Batch(values, [int(i) for i in indices], self.count(indices))

    def subset(self, indices: Sequence[int]) -> "Table":
        """Some of the examples, in that order."""
        at = np.asarray(indices, np.int64)
        return Table(
            {name: column.take(at) for name, column in self.columns.items()},
            self.inputs,
            [self.texts[i] for i in indices],
            [self.references[i] for i in indices],
            self.target,
            {name: [several[i] for i in indices] for name, several in self.extras.items()},
        )
