"""Nodes of graphs."""
