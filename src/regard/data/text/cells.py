"""Cells of an example: several in one text, and such as cannot be read."""

from collections.abc import Sequence

__all__ = ["BETWEEN", "Bad", "cells_of"]

BETWEEN = "|||"
"""What stands between the inputs of an example that has several, where they are one text."""


class Bad(ValueError):
    """A cell that cannot be read: its line is reported, counted and left out.

    Args:
        what: the kind in fixed words: "empty", "not a number".
        detail: the particulars.
    """

    def __init__(self, what: str, detail: str = "") -> None:
        super().__init__(f"{what} ({detail})" if detail else what)
        self.what, self.detail = what, detail


def cells_of(text: str, inputs: Sequence[str]) -> list[str]:
    """The inputs of one example, which stand in one text, divided by `|||` or by tabs.

    Raises:
        ValueError: there are more or fewer.
    """
    cells = [text]
    if len(inputs) > 1:
        cells = text.split("\t" if "\t" in text else BETWEEN)
    if len(cells) != len(inputs):
        named = f" {BETWEEN} ".join(inputs)
        raise ValueError(f"expected {len(inputs)} inputs, {named}; got {len(cells)}")
    return cells
