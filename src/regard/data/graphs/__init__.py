"""Graphs: their files, checks, neighbors and scaling."""
