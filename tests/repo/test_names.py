"""Every public name can be had after everything was imported, and is not hidden by a module."""

import contextlib
import importlib
import inspect
import types

import pytest

import regard
from tests.repo.tree import dotted, modules

NAMES = sorted({dotted(path) for path in modules()} - {"regard", "regard.__main__"})


@pytest.fixture(scope="module")
def everything() -> dict[str, types.ModuleType]:
    """Every submodule that can be imported; `test_every_module_can_be_imported` has the others."""
    found = {}
    for name in ["regard", *NAMES]:
        with contextlib.suppress(Exception):
            found[name] = importlib.import_module(name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_module_can_be_imported(everything, name):
    if name not in everything:
        importlib.import_module(name)  # again, to show why not


def test_there_are_modules(everything):
    assert "regard.attention.op" in everything
    assert len(everything) > 30


@pytest.mark.parametrize("name", ["regard", *NAMES])
def test_public_names_resolve(everything, name):
    module = everything.get(name)
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), f"{name}.__all__ names {public}, which is not there"


@pytest.mark.parametrize("name", ["regard", *NAMES])
def test_public_names_are_not_hidden_by_modules(everything, name):
    """`from regard.attention import kernels` is the context manager, whatever was imported."""
    module = everything.get(name)
    for public in getattr(module, "__all__", []):
        if f"{name}.{public}" in everything:
            value = getattr(module, public)
            assert isinstance(value, types.ModuleType), f"{name}.{public} is hidden by a module"
            assert name == "regard", f"{name}.{public} is public and a module"


@pytest.mark.parametrize("name", NAMES)
def test_a_module_says_what_it_is(everything, name):
    assert name not in everything or (everything[name].__doc__ or "").strip()


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
    from regard.attention import explain, kernels, watch

    for value in (explain, kernels, watch):
        assert callable(value)
        assert not isinstance(value, types.ModuleType)
    with kernels("reference"):
        pass


def test_versions_agree(everything):
    from importlib import metadata

    assert regard.__version__ == metadata.version("regard")
