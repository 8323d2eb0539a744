"""The ids that every vocabulary begins with."""

__all__ = ["BOS", "EOS", "PAD", "UNK"]

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""The first four ids of every vocabulary: padding, start, end, unknown."""
