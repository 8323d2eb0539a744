"""Labels of some places of a text."""

from collections.abc import Sequence

from regard.views import Axis

__all__ = ["part"]


def part(axis: Axis, start: int, stop: int) -> Axis:
    """Some places of a text, with what is left of its words."""

    def within(places: Sequence[int]) -> list[int]:
        return [i - start for i in places if start <= i < stop]

    kept = [(within(g), t) for g, t in zip(axis.groups, axis.texts, strict=True) if within(g)]
    return Axis(
        axis.pieces[start:stop],
        groups=[g for g, _ in kept],
        texts=[t for _, t in kept],
        special=within(axis.special),
    )
