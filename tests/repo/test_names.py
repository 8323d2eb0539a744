"""Public names: each can be imported, none is hidden by a module, no two classes share one."""

import contextlib
import importlib
import inspect
import types
from collections import defaultdict

import pytest

import regard
from tests.repo.tree import SOURCE, dotted, modules, top_classes

pytestmark = pytest.mark.nohook  # every module is imported: five times as long with the hook

NAMES = sorted({dotted(path) for path in modules()} - {"regard", "regard.__main__"})

SHARED = {
    "Cosine": {"attention/score/dot.py", "optim/schedules.py"},
    "Row": {"cli/app.py", "data/files/row.py"},
    "Score": {"attention/score/base.py", "metrics/score.py"},
    "Work": {"train/engine.py", "train/loop.py"},
}
"""Public classes that still share a name, with their files. No row may be added."""


@pytest.fixture(scope="module")
def everything() -> dict[str, types.ModuleType]:
    """Every submodule that can be imported; `test_every_module_can_be_imported` has the others."""
    found = {}
    for name in ["regard", *NAMES]:
        with contextlib.suppress(Exception):
            found[name] = importlib.import_module(name)
    return found


def test_every_module_can_be_imported(everything):
    for name in NAMES:
        if name not in everything:
            importlib.import_module(name)  # again, to show why not


def test_there_are_modules(everything):
    assert "regard.attention.op" in everything
    assert len(everything) > 30


def test_public_names_resolve(everything):
    lacking = [
        f"{name}.{public}"
        for name, module in everything.items()
        for public in getattr(module, "__all__", [])
        if not hasattr(module, public)
    ]
    assert lacking == [], "named in __all__, and not there"


def test_public_names_are_not_hidden_by_modules(everything):
    """`from regard.attention import kernels` is the context manager, whatever was imported."""
    for name, module in everything.items():
        for public in getattr(module, "__all__", []):
            if f"{name}.{public}" in everything:
                value = getattr(module, public)
                assert isinstance(value, types.ModuleType), f"{name}.{public} is hidden by a module"
                assert name == "regard", f"{name}.{public} is public and a module"


def test_a_module_says_what_it_is(everything):
    assert [name for name in everything if not (everything[name].__doc__ or "").strip()] == []


def test_no_two_public_classes_have_the_same_name():
    """A reader who meets a class must not ask which of two it is."""
    homes = defaultdict(set)
    for path in modules():
        for name in top_classes(path):
            if not name.startswith("_"):
                homes[name].add(path.relative_to(SOURCE).as_posix())
    assert len(homes) > 200
    twice = {name: sorted(where) for name, where in homes.items() if len(where) > 1}
    assert {name: at for name, at in twice.items() if not set(at) <= SHARED.get(name, set())} == {}


def test_the_front_page(everything):
    assert regard.__all__ == sorted(regard.__all__)
    assert inspect.isfunction(regard.load)
    assert inspect.isfunction(regard.attend)
    assert callable(regard.watch)
    assert not isinstance(regard.watch, types.ModuleType)
    assert inspect.isclass(regard.Attention)
    assert inspect.isclass(regard.MultiHead)
    assert inspect.isclass(regard.Memory)
    assert regard.catalog is everything["regard.catalog"]
    assert set(regard.__all__) <= set(dir(regard))
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        regard.atend  # noqa: B018


def test_the_operation_page(everything):
    from regard import watch
    from regard.attention import explain, kernels

    for value in (explain, kernels, watch):
        assert callable(value)
        assert not isinstance(value, types.ModuleType)
    with kernels("reference"):
        pass


def test_versions_agree(everything):
    from importlib import metadata

    assert regard.__version__ == metadata.version("regard")


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [("regard.attention", "watch", "regard.watch"), ("regard.viewer", "view", "regard.view")],
)
def test_a_name_that_moved_says_where_it_is(module, name, now):
    with pytest.raises(ImportError, match=rf"^{module}\.{name} is now {now}: "):
        getattr(importlib.import_module(module), name)
    assert getattr(regard, name).__module__.startswith("regard.watching")
