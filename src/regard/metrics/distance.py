"""Levenshtein's edit distance, exact and fast, and the nearest of several variants."""

from collections.abc import Hashable, Sequence

__all__ = ["edit_distance", "nearest_variant"]


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The least number of substitutions, insertions and deletions that turn one into the other.

        d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [first_i ≠ second_j])

    Adjacent cells of a column differ by -1, 0 or 1. So a column is stored as the bits of two
    integers (increases and decreases), and the next column costs a dozen operations on them.

    Args:
        first: tokens: words, phonemes, the characters of a string.
        second: the same.

    Source: Myers (1999), "A fast bit-vector algorithm for approximate string matching based on
    dynamic programming", JACM 46(3), in the form of Hyyrö (2003) for the distance of whole strings.

    Example:
        >>> edit_distance("kitten", "sitting")
        3
    """
    if not first or not second:
        return len(first) + len(second)
    places: dict[Hashable, int] = {}  # bit i is set where first[i] is that token
    for i, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << i
    full = (1 << len(first)) - 1
    last = 1 << (len(first) - 1)
    rises, falls, distance = full, 0, len(first)  # column 0 is 0, 1, 2, ...
    for token in second:
        match = places.get(token, 0)
        vertical = match | falls
        horizontal = (((match & rises) + rises) ^ rises) | match
        up = falls | (full & ~(horizontal | rises))
        down = rises & horizontal
        distance += bool(up & last) - bool(down & last)
        up = up << 1 | 1  # row 0 of the table is 0, 1, 2, ...
        rises = (down << 1 | (full & ~(vertical | up))) & full
        falls = up & vertical & full
    return distance


def nearest_variant(
    hypothesis: Sequence[Hashable], variants: Sequence[Sequence[Hashable]]
) -> tuple[int, int]:
    """The index of the variant with the least edit distance, and that distance.

    The first of equals is used, because dictionaries list the main form first.

    Example:
        >>> nearest_variant("ab", ["abc", "xb", "ab"])
        (2, 0)
    """
    distances = [edit_distance(hypothesis, v) for v in variants]
    best = min(range(len(distances)), key=distances.__getitem__)
    return best, distances[best]
