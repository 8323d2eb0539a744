"""What every test has: fixed seeds, one hypothesis profile, and no accelerator where there is none.

Nothing of `regard` may be imported here: the shape checks hook into its import later than this.
"""

import functools
import gc
import importlib
import logging
import os
import random
import sys
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.logging import catching_logs
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.browser import chromium
from tests.shapes import SHAPES, in_turns, only_shapes
from tests.torch_process import torch_process

__all__ = ["chromium", "torch_process"]

only_shapes()

LATE = ("torch._dynamo", "torch.export", "pytorch_lightning", "matplotlib.backends.backend_agg")
"""What tests import late, five seconds in all: the forks of a whole run share it."""
WHOLE = 5000
"""The fewest tests of a whole run."""
UNCHECKED = pytest.StashKey[bool]()
"""A test whose calls are not checked for their shapes: other cases of it are."""

os.environ.setdefault("REGARD_NATIVE", "all")  # tests use all levels: not one at first, then all

settings.register_profile(
    "regard", deadline=None, derandomize=True, print_blob=True, max_examples=50
)
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
    if "torch._dynamo.guards" in sys.modules:  # each compilation measures its guards for a log
        sys.modules["torch._dynamo.guards"].profile_guard_manager = lambda *_: 0.0


@pytest.fixture
def steps_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No decoder is recorded: that takes longer than the few sentences of a test, and is not it."""
    monkeypatch.setenv("REGARD_PROGRAM", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs an accelerator where there is none."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="no accelerator here"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    SHAPES.checked = UNCHECKED not in item.stash


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector, and make cheap what every test repeats.

    Collection makes a million objects that stay, which the collector would look at again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        if session.config.getoption("forks", 0) and len(session.items) >= WHOLE:
            _import_late()
            for item in in_turns(session.items):
                item.stash[UNCHECKED] = True
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)  # as often as by default it takes 3 % of the tests' time
        gc.enable()
        if "torch" in sys.modules:
            _seed_only_what_is_there()
            _log_through_the_root()
            _know_who_propagates()


def _import_late() -> None:
    """Import what forks share; and an engine asks once, not at each start, what is installed."""
    for name in LATE:
        importlib.import_module(name)
    registry = importlib.import_module("lightning_fabric.utilities.registry")
    registry.entry_points = functools.cache(registry.entry_points)  # type: ignore[attr-defined]
    _draw_texts()


@settings(max_examples=60, database=None)
@given(st.text())
def _draw_texts(_text: str) -> None:
    """Before its first examples Hypothesis reads what is constant in each module that there is."""


def _seed_only_what_is_there() -> None:
    """Without an accelerator, `torch.manual_seed` formats the stack three times for later.

    In a test, whose stack is deep, that is 99 % of its time.
    """
    torch = sys.modules["torch"]
    for device in (torch.cuda, torch.xpu, torch.mtia):
        if not device.is_available():
            device.manual_seed_all = lambda seed: None


def _log_through_the_root() -> None:
    """PyTorch's loggers propagate, or pytest adds its handlers to all 40 six times a test."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == "torch" and isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True


class _Propagate:
    """`Logger.propagate`, which notes the loggers where it is False."""

    def __init__(self) -> None:
        loggers = logging.root.manager.loggerDict.values()
        found = (one for one in loggers if isinstance(one, logging.Logger))
        self.alone = {logger for logger in found if not logger.propagate}

    def __get__(self, logger: logging.Logger, kind: type) -> bool:
        return bool(logger.__dict__["propagate"])

    def __set__(self, logger: logging.Logger, value: bool) -> None:
        logger.__dict__["propagate"] = value
        (self.alone.discard if value else self.alone.add)(logger)


def _know_who_propagates() -> None:
    """Six times a test pytest looks for loggers that do not propagate: among 600, for 4 of them."""
    propagate = _Propagate()
    logging.Logger.propagate = propagate  # type: ignore[assignment]

    def enter(self: Any) -> logging.Handler:
        handler: logging.Handler = self.handler
        if self.level is not None:
            handler.setLevel(self.level)
            self.orig_level = logging.root.level
            logging.root.setLevel(min(logging.root.level, self.level))
        self.attached_loggers += [logging.root, *propagate.alone]
        for logger in self.attached_loggers:
            logger.addHandler(handler)
        return handler

    catching_logs.__enter__ = enter  # type: ignore[method-assign]
