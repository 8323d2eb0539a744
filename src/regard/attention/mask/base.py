"""Masks. `True` means *may be looked at*, as in PyTorch's SDPA.

A mask is a structured object that kernels can use without materializing it. Masks combine with `&`
(both), `|` (either) and `~` (not). A row without allowed keys reads zeros, with every kernel.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import RequestError
from regard.native.transforms import followed

__all__ = ["Dense", "Lengths", "Mask", "as_mask"]

FAR = 2**62
"""Farther than any two positions; a side of a window that is longer would not fit into int64."""

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Mask(ABC):
    """Which keys each query may look at.

    `dense` defines the mask; kernels may use more efficient forms. `at` is the position of the
    first query among the keys (an int, or one per row of the batch).
    """

    @abstractmethod
    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        """The mask as a bool tensor that broadcasts to (*batch, Q, K)."""

    def check_shape(self, queries: int, keys: int) -> None:  # noqa: B027, most fit all
        """Refuse a wrong number of queries or keys, where the check is free.

        Raises:
            RequestError: if the mask is for other numbers.
        """

    def over_heads(self, batch_axes: int) -> "Mask":
        """The same mask for scores with a head axis after their `batch_axes` batch axes."""
        return self

    def to(self, device: torch.device | str) -> "Mask":
        """Move the tensors of the mask."""
        return self

    def rows(self, index: Int[Tensor, " n"]) -> "Mask":
        """Select rows of the first batch axis."""
        return self

    def select(self, index: Int[Tensor, "..."]) -> "Mask":
        """Re-order along the last batch axis."""
        return self

    def __and__(self, other: "Mask | Tensor") -> "Mask":
        return _Both(self, as_mask(other))

    def __or__(self, other: "Mask | Tensor") -> "Mask":
        return _Either(self, as_mask(other))

    def __invert__(self) -> "Mask":
        return _Not(self)


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    r"""Only the first `lengths` keys of each row: a padding mask.

    .. math:: M_{ij} = [\, j < n \,]

    Shapes:
        lengths (*batch), integers; the mask (*batch, 1, K)

    Raises:
        RequestError: for lengths that are not integers. On a CPU also for negative lengths, and in
            a call for lengths above the number of keys; on a GPU, where checking would need a
            synchronization, such lengths are clamped.

    Source: none in particular; the padding mask of every toolkit.
    """

    lengths: Int[Tensor, "*batch"]

    def __post_init__(self) -> None:
        lengths = self.lengths
        if not isinstance(lengths, Tensor):
            raise RequestError(
                f"Lengths expected a tensor of integers, got {type(lengths).__name__}; "
                "give torch.tensor(lengths)"
            )
        if lengths.dtype not in _INTEGERS:
            got = str(lengths.dtype).removeprefix("torch.")
            todo = "lengths.long() rounds down"
            if lengths.dtype == torch.bool:
                todo = "a bool mask of keys is given as mask[:, None], one of pairs as it is"
            raise RequestError(f"Lengths expected a tensor of integers, got {got}; {todo}")
        if torch.compiler.is_compiling():
            return
        most = -1
        if lengths.is_cpu and lengths.numel() and followed(lengths) is None:
            least, most = (int(end) for end in torch.aminmax(lengths))
            if least < 0:
                raise RequestError(f"Lengths expected lengths of 0 or more, got {least}")
        self.__dict__["_most"] = most

    def check_shape(self, queries: int, keys: int) -> None:
        if torch.compiler.is_dynamo_compiling():  # a graph is for any lengths
            return
        most = self.__dict__.get("_most", -1)
        if most > keys:
            raise RequestError(f"Lengths expected lengths of at most {keys} keys, got {most}")

    def _of(self, lengths: Tensor) -> "Lengths":
        """The same lengths on another device or re-ordered, without checking them again."""
        found = object.__new__(Lengths)
        found.__dict__.update(self.__dict__, lengths=lengths)
        return found

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        positions = torch.arange(keys, device=device)
        return positions < self.lengths.to(device)[..., None, None]  # (*batch, 1, K)

    def over_heads(self, batch_axes: int) -> Mask:
        return self._of(self.lengths[..., None])

    def to(self, device: torch.device | str) -> Mask:
        return self._of(self.lengths.to(device))

    def rows(self, index: Int[Tensor, " n"]) -> Mask:
        return self._of(self.lengths.index_select(0, index))

    def select(self, index: Int[Tensor, "..."]) -> Mask:
        return self._of(take(self.lengths, index))


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    r"""A mask given as a bool tensor: :math:`M_{ij} = allowed_{ij}`, whatever `at` is.

    Shapes:
        allowed (*batch, Q, K), or what broadcasts to it; the mask the same

    Raises:
        RequestError: for anything but a bool tensor.

    Source: none in particular.
    """

    allowed: Bool[Tensor, "..."]

    def __post_init__(self) -> None:
        if not isinstance(self.allowed, Tensor) or self.allowed.dtype != torch.bool:
            raise _no_mask(self.allowed, "Dense expected")

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        return self.allowed.to(device)

    def over_heads(self, batch_axes: int) -> Mask:
        if self.allowed.dim() == batch_axes + 3:  # it has a mask for each head already
            return self
        return Dense(self.allowed.unsqueeze(-3)) if self.allowed.dim() > 2 else self

    def to(self, device: torch.device | str) -> Mask:
        return Dense(self.allowed.to(device))

    def rows(self, index: Int[Tensor, " n"]) -> Mask:
        return Dense(self.allowed.index_select(0, index))

    def select(self, index: Int[Tensor, "..."]) -> Mask:
        return Dense(take(self.allowed, index))


@dataclass(frozen=True, eq=False)
class _Pair(Mask):
    first: Mask
    second: Mask

    def check_shape(self, queries: int, keys: int) -> None:
        self.first.check_shape(queries, keys)
        self.second.check_shape(queries, keys)

    def over_heads(self, batch_axes: int) -> Mask:
        return type(self)(self.first.over_heads(batch_axes), self.second.over_heads(batch_axes))

    def to(self, device: torch.device | str) -> Mask:
        return type(self)(self.first.to(device), self.second.to(device))

    def rows(self, index: Int[Tensor, " n"]) -> Mask:
        return type(self)(self.first.rows(index), self.second.rows(index))

    def select(self, index: Int[Tensor, "..."]) -> Mask:
        return type(self)(self.first.select(index), self.second.select(index))

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        first = self.first.dense(queries, keys, at=at, device=device)
        second = self.second.dense(queries, keys, at=at, device=device)
        return self.join(first, second)

    def join(self, first: Tensor, second: Tensor) -> Tensor:
        return first & second


@dataclass(frozen=True, eq=False)
class _Both(_Pair):
    pass


@dataclass(frozen=True, eq=False)
class _Either(_Pair):
    def join(self, first: Tensor, second: Tensor) -> Tensor:
        return first | second


@dataclass(frozen=True, eq=False)
class _Not(Mask):
    mask: Mask

    def check_shape(self, queries: int, keys: int) -> None:
        self.mask.check_shape(queries, keys)

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        return ~self.mask.dense(queries, keys, at=at, device=device)

    def over_heads(self, batch_axes: int) -> Mask:
        return _Not(self.mask.over_heads(batch_axes))

    def to(self, device: torch.device | str) -> Mask:
        return _Not(self.mask.to(device))

    def rows(self, index: Int[Tensor, " n"]) -> Mask:
        return _Not(self.mask.rows(index))

    def select(self, index: Int[Tensor, "..."]) -> Mask:
        return _Not(self.mask.select(index))


def as_mask(mask: "Mask | Tensor | None") -> Mask:
    """The mask of a caller's argument; a tensor must be bool (float masks are additive).

    Raises:
        RequestError: for anything that is neither a Mask nor a bool tensor.
    """
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return Dense(mask)
    raise _no_mask(mask, "a mask is", " or a Mask such as Lengths(lengths)")


def _no_mask(given: object, expected: str, more: str = "") -> RequestError:
    got = given.dtype if isinstance(given, Tensor) else type(given).__name__
    return RequestError(
        f"{expected} a bool tensor (True = may be looked at){more}, got {got}; "
        "a padding mask with True = padding is inverted with ~"
    )


def integers(expected: str, shape: str, x: object) -> None:
    """Refuse what is no tensor of integers.

    Args:
        expected: how the sentence begins: what was expected as integers.
        shape: that of the tensor, in words.

    Raises:
        RequestError: it is another thing, or its numbers are not whole.
    """
    if not isinstance(x, Tensor):
        raise RequestError(
            f"{expected} as a tensor of integers {shape}, got {type(x).__name__}; "
            "torch.as_tensor makes one of lists and of NumPy arrays"
        )
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
        raise RequestError(
            f"{expected} as integers {shape}, got {shown(x)}; .long() makes them whole"
        )


def shown(x: object) -> str:
    """A tensor's dtype and shape, or what else it is."""
    if not isinstance(x, Tensor):
        return type(x).__name__
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"


def whole(expected: str, x: object) -> None:
    """Refuse fractions and texts as a count of keys.

    Raises:
        RequestError: begins with what was expected.
    """
    if isinstance(x, float | str):
        raise RequestError(f"{expected} as a whole number, got {x!r}")


def take(x: Tensor, index: Int[Tensor, "..."]) -> Tensor:
    """Pick along the last axis of `index`: x (*batch, beam, ...), index (*batch, n)."""
    axes = index.dim()
    at = index.reshape(*index.shape, *([1] * (x.dim() - axes)))
    return torch.gather(x, axes - 1, at.expand(*index.shape, *x.shape[axes:]))


def offsets(
    queries: int, keys: int, at: int | Tensor, device: torch.device
) -> Int[Tensor, "*batch query key"]:
    """Key position minus query position, j - p_i: (Q, K), or (*batch, Q, K) with a tensor `at`."""
    key = torch.arange(keys, device=device)
    query = torch.arange(queries, device=device)[:, None]
    if isinstance(at, Tensor):
        return key - (query + at.to(device)[..., None, None])
    return key - (query + at)
