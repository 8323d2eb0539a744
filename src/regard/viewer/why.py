"""Does it matter? What becomes of an output's score when an attention may not look as it did."""

from regard.tasks._views.changes import edited, permuted, uniform, without_head
from regard.tasks._views.why import Effect, effects, moved, why

__all__ = [
    "Effect", "edited", "effects", "moved", "permuted", "uniform", "why", "without_head",
]  # fmt: skip
