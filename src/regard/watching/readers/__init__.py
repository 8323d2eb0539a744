"""Readers of what models of others were given and returned."""
