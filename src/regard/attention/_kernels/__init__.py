"""Implementations of the one operation, behind one table."""
