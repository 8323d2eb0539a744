"""What a row of the catalogue says, and values that many rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AXES", "GENERATION", "NO_ATTENTION", "SOFT", "Entry"]

AXES: Mapping[str, str] = {
    "score": "how well does a key match the query?",
    "select": "how do scores become weights?",
    "query": "which state looks: the one before the decoder's step, after it, or every layer's",
    "body": "what the sequences are read with",
    "parallel": "are all target positions computed at once in training?",
    "sequences": "distinctive (two sequences), self (one), co-attention (several attended jointly)",
    "levels": "single, or several levels of abstraction",
    "positions": "soft (all, weighted), hard (sampled), local (a window)",
    "representations": "one, several of the same input, or weights per feature",
}
"""What the axes ask. The last four are our reading of the axes of Chaudhari et al. (2019),
"An Attentive Survey of Attention Models", arXiv 1904.02874."""


@dataclass(frozen=True)
class Entry:
    """One row: a paper's model.

    Args:
        name: what recipes and the command line call it.
        target: "module:Class".
        title: the paper's title.
        authors: as cited.
        year: of the first public version.
        url: where the paper is.
        tasks: the tasks it is used for here.
        axes: its value on each of `AXES` that applies.
        tiny: keyword arguments of the constructor for tests, no width above 16.
    """

    name: str
    target: str
    title: str
    authors: str
    year: int
    url: str
    tasks: tuple[str, ...]
    axes: Mapping[str, str]
    tiny: Mapping[str, Any] = field(default_factory=dict)


GENERATION = ("translation", "pronunciation")
NO_ATTENTION = {"score": "none", "select": "none", "query": "none", "levels": "single"}
SOFT = {"levels": "single", "positions": "soft", "representations": "one"}
