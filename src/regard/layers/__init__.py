"""Layers of models other than attention."""
