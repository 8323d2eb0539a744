"""A curve of a training: one metric over updates, epochs or seconds."""

from dataclasses import dataclass

__all__ = ["AXES", "Curve"]


AXES = {"step": "updates", "epoch": "passes", "cpu": "CPU seconds", "wall": "seconds"}
"""What curves can run along, and its unit."""


@dataclass(frozen=True)
class Curve:
    """One number of a training.

    Args:
        run: the folder, as it was named.
        name: as in the log; `dev.…` is a score on dev.
        x, y: places along the axis and values, in the order of the log.
    """

    run: str
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
