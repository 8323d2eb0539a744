"""What every test has: fixed seeds, one hypothesis profile, and no accelerator where there is none.

Nothing of `regard` may be imported here: the shape checks hook into its import later than this.
"""

import os
import random
import sys

import pytest
from hypothesis import Phase, settings

from tests.browser import chromium
from tests.shapes import only_shapes

__all__ = ["chromium"]

only_shapes()

os.environ.setdefault("REGARD_NATIVE", "all")  # tests use all levels: not one at first, then all

settings.register_profile("regard", deadline=None, derandomize=True, print_blob=True)
# For who asks only whether a test fails (tools/mutants.py): no smaller example is looked for.
settings.register_profile(
    "unshrunk", settings.get_profile("regard"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("regard")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same random numbers for a test whatever ran before it; torch only where it is in use."""
    random.seed(1)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(1)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs an accelerator where there is none."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="no accelerator here"))
