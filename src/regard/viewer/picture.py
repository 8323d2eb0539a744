"""Weights with words on their axes; see `regard.views`."""

from regard.views.picture import Picture, WordPieces, picture

__all__ = ["Picture", "WordPieces", "picture"]
