"""Kinds of panels, on each surface."""
