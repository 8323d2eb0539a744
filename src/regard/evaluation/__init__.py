"""Scores of model folders, and the differences between them."""
