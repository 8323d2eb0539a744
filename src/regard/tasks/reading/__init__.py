"""Answers from a passage."""
