"""What the axes of a foreign attention's weights mean: known from what the modules were given.

A size alone says nothing: four rows may be examples, windows of one picture, or heads. The batch is
that of the model's own inputs. Heads are those that a module declares, where their count fits.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

from regard.attention.axes import Axes, Positions
from regard.watching.foreign.generating import Generating
from regard.watching.foreign.running_modules import Running

__all__ = ["batches", "meaning", "placed", "sequence_first"]


def batches(args: Sequence[Any], kwargs: Mapping[str, Any], sequence_first: bool) -> frozenset[int]:
    """The sizes that may be the batch of a model that is called like this; none if not known.

    Args:
        sequence_first: the model has layers of PyTorch's whose first axis is the sequence.
    """
    for one in _values((*args, *kwargs.values())):
        if isinstance(one, str):
            return frozenset({1})
        if isinstance(one, list):
            return frozenset({len(one)})
        if one.dim() == 0:
            continue
        found = {int(one.shape[0])}
        if one.is_nested:
            return frozenset({int(one.size(0))})
        if sequence_first and one.dim() > 1:
            found.add(int(one.shape[1]))
        if one.dim() == 2 and one.is_floating_point():
            found.add(1)  # (T, D): one example without an axis of its own
        return frozenset(found)
    return frozenset()


def _values(given: Sequence[Any]) -> Iterator[Any]:
    """The tensors, texts and lists of texts in what a model was given, from the first on."""
    for one in given:
        if isinstance(one, Tensor | str):
            yield one
        elif isinstance(one, list | tuple) and one and all(isinstance(o, str) for o in one):
            yield list(one)
        elif isinstance(one, list | tuple):
            yield from _values(one)
        elif isinstance(one, Mapping):
            yield from _values(tuple(one.values()))


def meaning(
    place: Running,
    inside: Sequence[Running],
    shape: Sequence[int],
    given: frozenset[int],
    *,
    fused: bool,
) -> tuple[tuple[int, ...], Axes]:
    """The shape that weights (*lead, Q, K) are shown in, and what its axes are.

    Args:
        place: the module that attends.
        inside: all modules that run, from the outermost.
        given: sizes that may be the batch.
        fused: an operation of PyTorch's, whose third axis from the end is heads as it says itself.
    """
    *lead, queries, keys = (int(n) for n in shape)
    heads = next((own.heads for own in (place, *reversed(inside)) if own.heads), 0)
    if isinstance(place.module, nn.MultiheadAttention):
        given = given | _of_layer(place, given)
    sizes = given or frozenset({1})
    if not lead:
        names: tuple[str, ...] = ("example",) if 1 in sizes else ("call",)
        return (1, queries, keys), _axes(place, names, False, 1, sizes)
    if len(lead) == 1:
        size = lead[0]
        batch = next((b for b in sorted(sizes, reverse=True) if b * heads == size), None)
        if heads > 1 and batch is not None:
            return (batch, heads, queries, keys), _axes(place, ("example",), True, batch, sizes)
        name = "example" if size in sizes else _plain(inside, size, (queries, keys), sizes)
        return (size, queries, keys), _axes(place, (name,), False, size, sizes)
    headed = lead[-1] == heads or (heads == 0 and len(lead) == 2) or (fused and heads == 0)
    first = "example" if lead[0] in sizes else _plain(inside, lead[0], (queries, keys), sizes)
    more = lead[1:-1] if headed else lead[1:]
    named = [_plain(inside, n, (queries, keys), frozenset()) for n in more]
    names = tuple(n if named.count(n) == 1 else f"{n} {i}" for i, n in enumerate(named, 1))
    return tuple(shape), _axes(place, (first, *names), headed, lead[0], sizes)


def _of_layer(place: Running, given: frozenset[int]) -> frozenset[int]:
    """The batch of PyTorch's own layer, where it is that of the whole model."""
    query = place.args[0] if place.args else place.kwargs.get("query")
    if not isinstance(query, Tensor):
        return frozenset()
    if query.dim() == 2:
        return frozenset({1})
    axis = 0 if getattr(place.module, "batch_first", False) else 1
    own = int(query.shape[axis])
    return frozenset({own}) if own in given else frozenset()


def _plain(
    inside: Sequence[Running], size: int, cells: tuple[int, int], sizes: frozenset[int]
) -> str:
    """A name for an axis that is not of examples."""
    for own in reversed(inside):
        window = getattr(own.module, "window_size", None)
        areas = {window, window * window} if isinstance(window, int) else set()
        if isinstance(window, list | tuple) and all(isinstance(w, int) for w in window):
            areas = {prod(window)}
        if areas & set(cells):
            return "window"
    for own in inside:
        frames = getattr(getattr(own.module, "config", None), "num_frames", None)
        if isinstance(frames, int) and any(size == b * frames for b in sizes):
            return "frame"
    return "block"


def _axes(
    place: Running, names: tuple[str, ...], heads: bool, size: int, sizes: frozenset[int]
) -> Axes:
    reason = ""
    if names[0] != "example":
        batch = " or ".join(str(b) for b in sorted(sizes))
        reason = (
            f"its first axis is {size} {names[0]}{'s' if size != 1 else ''} where the model was "
            f"given a batch of {batch}, and which of them belong to which example is not known"
        )
    return Axes(names, heads, reason=reason, part=place.parts)


def placed(
    axes: Axes, place: Running, role: str, shape: Sequence[int], generating: Generating | None
) -> Axes:
    """With the positions of rows and columns, inside of `generate`."""
    run = None if generating is None else generating.run
    if generating is None or run is None:
        return axes
    number = generating.reading
    rows = columns = None
    if number >= 0:
        reading = run.readings[number]
        rows = Positions(reading.start)
        if role == "cross":
            columns = Positions(0, "source")
        else:
            layer = getattr(place.module, "layer_idx", None)
            start = reading.column(int(shape[-1]), layer if isinstance(layer, int) else None)
            columns = None if start is None else Positions(start)
    return Axes(axes.batch, axes.heads, rows, columns, axes.reason, axes.part, run, number)


def sequence_first(model: nn.Module) -> bool:
    """Whether a model has layers of PyTorch's that take (T, B, D)."""
    return any(isinstance(m, nn.MultiheadAttention) and not m.batch_first for m in model.modules())
