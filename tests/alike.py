"""Values that are alike: the same, and numbers within a limit."""

import pytest

__all__ = ["alike"]


def alike(ours, theirs, limit=1e-4):
    """The same values, numbers within a limit, named alike and in the same order."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            alike(one, other, limit)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, abs=limit)
    else:
        assert ours == theirs
