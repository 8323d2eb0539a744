"""Does it matter? What becomes of an output's score when an attention may not look as it did."""

from regard.tasks._views.why import (
    Effect,
    edited,
    moved,
    permuted,
    uniform,
    why,
    without_head,
)

__all__ = ["Effect", "edited", "moved", "permuted", "uniform", "why", "without_head"]
