"""Keys on their way into a memory: prepared by the score, and turned once by the position."""

from typing import Any

from torch import Tensor

from regard.attention._combinations import turns_once
from regard.attention.memory import Memory
from regard.attention.position import Position
from regard.attention.score import Score
from regard.errors import RequestError

__all__ = ["appended", "entering", "turned_otherwise", "unturned"]


def entering(
    score: Score, position: Position | None, key: Tensor, first: int = 0
) -> tuple[Tensor, Any, Position | None]:
    """Keys, what the score prepares of them, and the position that turned them, if any.

    Keys that the score takes as they are stay one tensor, turned.

    Args:
        first: the place of the first of these keys in the memory.

    Shapes:
        key (*batch, K, key_dim) to the same, and prepared keys
    """
    prepared = score.prepare(key)
    if position is None or not turns_once(position):
        return key, prepared, None
    turning: Any = position
    turned = turning.turn(prepared, first)
    return turned if prepared is key else key, turned, position


def appended(
    score: Score, position: Position | None, memory: Memory, key: Tensor, value: Tensor
) -> Memory:
    """A memory with more keys, which are such as those that it has.

    Raises:
        RequestError: another position turned those.
    """
    if memory.turned is None:  # made by hand, or nothing turns them
        return memory.append(key, value, score.prepare(key))
    if memory.turned != position:
        raise turned_otherwise(memory.turned, position)
    key, prepared, _ = entering(score, position, key, len(memory))
    return memory.append(key, value, prepared)


def unturned(memory: Memory) -> Any:
    """The prepared keys of a memory as they were before any position."""
    if memory.turned is None:
        return memory.prepared
    return memory.turned.turn(memory.prepared, 0, back=True)


def turned_otherwise(turned: object, position: object) -> RequestError:
    """What to raise for a memory whose keys another position turned."""
    return RequestError(
        f"this memory's keys were turned by {turned} when they came in, but this attention has "
        f"position={position}; call remember of the layer that attends to it"
    )
