"""Every cell of `docs/pytorch.md`: each part, in both layers, under each feature."""

import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.attention import torch_features
from tests.attention.torch_cases import CASES, MASKS, PARTS, Case
from tests.attention.torch_features import FEATURES, SLOW
from tests.docs.test_parts import parts
from tests.repo.tree import TOP

PAGE = TOP / "docs" / "pytorch.md"
WORLD = 2


def test_every_part_is_a_row():
    assert set(PARTS) | set(MASKS) == set(parts())


def test_the_table_is_on_the_page():
    """Written by `python -m tests.attention.torch_features`."""
    assert torch_features.table() in PAGE.read_text(encoding="utf-8")


def cells(slow):
    """Each part under each feature, in one of its two layers: the other layer is a slow test."""
    names, numbers = [name for name in FEATURES if name not in SLOW], {}
    for n, feature in enumerate(names):
        for case in CASES:
            part = numbers.setdefault(case.part, len(numbers))
            other = (n + part) % 2 == (case.layer == "MultiHead")
            alone = sum(one.part == case.part for one in CASES) == 1
            if (other and not alone) is slow:
                yield pytest.param(feature, case, id=f"{feature}-{case}")


@pytest.mark.parametrize(("feature", "case"), cells(slow=False))
def test_feature(feature, case):
    FEATURES[feature](case)


@pytest.mark.slow
@pytest.mark.parametrize(("feature", "case"), cells(slow=True))
def test_feature_in_the_other_layer(feature, case):
    FEATURES[feature](case)


@pytest.mark.slow
@pytest.mark.nohook
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("feature", sorted(SLOW & set(FEATURES)))
def test_slow_feature(feature, case):
    FEATURES[feature](case)


@pytest.fixture(scope="module")
def sharded():
    """What two processes found, by case."""
    context = torch.multiprocessing.get_context("spawn")
    names = [str(case) for case in CASES]
    with context.Manager() as manager, tempfile.TemporaryDirectory() as folder:
        said = manager.dict()
        arguments = (WORLD, str(Path(folder) / "store"), names, said)
        torch.multiprocessing.spawn(torch_features.sharded, arguments, nprocs=WORLD)
        yield dict(said)


@pytest.mark.slow
@pytest.mark.nohook
@pytest.mark.parametrize("case", CASES, ids=str)
def test_fsdp(case, sharded):
    torch_features.compare_sharded(case, sharded[str(case)], WORLD)


class Broken(nn.Module):
    """A score that autograd cannot follow."""

    def prepare(self, key):
        return key

    def forward(self, query, key, *, at=0, features=None):
        return (query @ key.mT).detach()


def test_a_feature_that_fails_is_seen():
    case = Case("Broken", "Attention", {"score": Broken})
    FEATURES["copies"](case)  # as wrong in each copy and in the reference
    with pytest.raises(AssertionError):
        FEATURES["jvp"](case)
