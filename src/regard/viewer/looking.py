"""What one hypothesis of a model that writes looked at, every layer and every head."""

from regard.tasks._views.generation import (
    KINDS,
    Look,
    look,
    look_all,
    looks_view,
    token_scores,
)

__all__ = ["KINDS", "Look", "look", "look_all", "looks_view", "token_scores"]
