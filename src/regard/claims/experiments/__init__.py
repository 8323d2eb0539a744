"""One file for each group of experiments: short programs of regard's own operations."""
