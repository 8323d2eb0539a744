"""Does it matter? What becomes of an output's score when an attention may not look as it did."""

from regard.tasks._views.why import moved, why
from regard.watching.ablation import Effect, effects, effects_table
from regard.watching.interventions import edited, permuted, uniform, without_head

__all__ = [
    "Effect", "edited", "effects", "effects_table", "moved", "permuted", "uniform", "why",
    "without_head",
]  # fmt: skip
