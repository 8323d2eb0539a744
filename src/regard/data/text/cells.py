"""Several inputs of an example in one text."""

from collections.abc import Sequence

__all__ = ["BETWEEN", "cells_of"]

BETWEEN = "|||"
"""What stands between the inputs of an example that has several, where they are one text."""


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
