"""Predictions of a tagger."""

from dataclasses import dataclass

from regard.data.annotations.tagged_text import RolesText, TaggedText
from regard.tasks.prediction import Prediction

__all__ = ["RolesPrediction", "TagsPrediction"]


@dataclass(frozen=True, eq=False)
class TagsPrediction(TaggedText, Prediction):
    """The tags of a text; see `TaggedText`."""


@dataclass(frozen=True, eq=False)
class RolesPrediction(RolesText, Prediction):
    """The roles of a plain text; see `RolesText`."""
