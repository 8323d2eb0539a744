"""All claims, in the order of their ids, by theme."""

import re
from collections.abc import Mapping, Sequence

from regard.claims.claim import Claim
from regard.claims.lists import alignment, papers, tasks, training, transformer
from regard.errors import RequestError, nearest

__all__ = ["CLAIMS", "THEMES", "claim"]

THEMES: Mapping[str, Sequence[Claim]] = {
    **alignment.THEMES,
    **transformer.THEMES,
    **training.THEMES,
    **papers.THEMES,
    **tasks.THEMES,
}
"""The claims of each theme."""

CLAIMS: Mapping[str, Claim] = {one.id: one for theme in THEMES.values() for one in theme}


def claim(name: str) -> Claim:
    """The claim with this id: `C07`, `c7` or `7`.

    Raises:
        RequestError: there is none; the sentence names the nearest id.
    """
    number = re.fullmatch(r"[Cc]?(\d+)", name)
    last = len(CLAIMS)
    if number is None:
        raise RequestError(f"claims: there is no claim {name!r}: {nearest(name.upper(), CLAIMS)}")
    if not 1 <= int(number[1]) <= last:
        close = min(max(int(number[1]), 1), last)
        raise RequestError(f"claims: there is no claim {name!r}: did you mean 'C{close:02d}'?")
    return CLAIMS[f"C{int(number[1]):02d}"]
