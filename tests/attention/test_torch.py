"""Every cell of `docs/pytorch.md`: each part, in both layers, under each feature."""

import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.attention import torch_features
from tests.attention.torch_cases import CASES, MASKS, PARTS, Case
from tests.attention.torch_features import FEATURES, SLOW, inapplicable
from tests.docs.test_parts import parts
from tests.repo.tree import TOP

PAGE = TOP / "docs" / "pytorch.md"
WORLD = 2


def test_every_part_is_a_row():
    assert set(PARTS) | set(MASKS) == set(parts())


def test_the_table_is_on_the_page():
    """Written by `python -m tests.attention.torch_features`."""
    assert torch_features.table() in PAGE.read_text(encoding="utf-8")


DEAR = {"fake"}
"""Seven times the time of others; nothing of a part is computed: each second one is a slow test."""


def cells(slow):
    """Each part under each feature, in one of its two layers: the other layer is a slow test."""
    names, numbers = [name for name in FEATURES if name not in SLOW], {}
    for n, feature in enumerate(names):
        for case in CASES:
            part = numbers.setdefault(case.part, len(numbers))
            other = (n + part) % 2 == (case.layer == "MultiHead")
            alone = sum(one.part == case.part for one in CASES) == 1
            rare = feature in DEAR and part % 2 == 1
            if ((other and not alone) or rare) is slow:
                yield pytest.param(feature, case, id=f"{feature}-{case}")


@pytest.mark.parametrize(("feature", "case"), list(cells(slow=False)))
def test_feature(feature, case):
    FEATURES[feature](case)


@pytest.mark.slow
@pytest.mark.parametrize(("feature", "case"), list(cells(slow=True)))
def test_feature_in_the_other_layer(feature, case):
    FEATURES[feature](case)


COMPILERS = ("compile", "lengths", "export")
"""Each takes seconds a case: a part meets them in turns of its two layers, and each layer one."""


def slow_cells():
    """Each part in both layers; under a compiler in one of them, the next under the next one."""
    parts = [*PARTS, *MASKS]
    for feature in sorted(SLOW & set(FEATURES)):
        for case in CASES:
            if inapplicable(case.part, feature):
                continue
            alone = sum(one.part == case.part for one in CASES) == 1
            if feature in COMPILERS and not alone:
                turn = parts.index(case.part) + COMPILERS.index(feature)
                if turn % 2 == (case.layer == "MultiHead"):
                    continue
            yield pytest.param(feature, case, id=f"{feature}-{case}")


@pytest.mark.slow
@pytest.mark.nohook
@pytest.mark.parametrize(("feature", "case"), list(slow_cells()))
def test_slow_feature(feature, case):
    FEATURES[feature](case)


def test_every_part_meets_every_slow_feature_and_every_layer_a_compiler():
    cells = [cell.values for cell in slow_cells()]
    assert {(f, c.part) for f, c in cells} == {
        (f, c.part) for f in SLOW & set(FEATURES) for c in CASES if not inapplicable(c.part, f)
    }
    assert {str(c) for f, c in cells if f in COMPILERS} == set(map(str, CASES))


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
