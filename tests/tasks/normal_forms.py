"""Examples of data in one normal form, compared with those in another."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch

from regard.data.text.normal_form import composed

FORMS = ("NFC", "NFD")


def plain(value):
    """Numbers and composed texts of anything, to be compared."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return tuple(value.shape), value.tolist()
    if isinstance(value, str):
        return composed(value)
    if isinstance(value, Mapping):
        return {composed(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return plain(vars(value)) if hasattr(value, "__dict__") else value


def same_examples(found, right):
    """Every split of both has the same examples, up to the normal form of texts."""
    for split in ("train", "dev", "test"):
        some, others = getattr(right, split), getattr(found, split)
        everything = range(len(some))
        assert len(others) == len(some)
        assert plain(others.collate(everything)) == plain(some.collate(everything)), split
        assert plain(others.references) == plain(some.references), split
    assert found.problems.counts == right.problems.counts
