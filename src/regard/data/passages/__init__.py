"""Longer texts: questions about passages, stories, running text."""
