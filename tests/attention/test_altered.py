"""Whatever changes a part, no kernel gives another result than the parts themselves.

For each part that there is, changes are generated: a subclass, hooks, a patched method, a
parametrization, another setting; before the first call and after it. Each kernel, forced, either
refuses the call or gives what the reference gives.
"""

import copy
import dataclasses
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.nn.modules import module as every
from torch.nn.utils import parametrize

from regard.attention import (
    Attention,
    Causal,
    Window,
    kernels,
)
from regard.attention._kernels.dispatch import table
from regard.errors import RequestError
from tests.attention.combine import CARRIES, LENGTHS, MASKS, POSITIONS, READS, SCORES, SELECTS, D, N

KERNELS = [kernel.name for kernel in table() if kernel.name != "reference"]
WITH = {  # what a part needs beside it to be used at all
    "feature additive": {"select": "feature softmax", "read": "feature sum"},
    "feature perceptron": {"select": "feature softmax", "read": "feature sum"},
    "source to token": {"select": "feature softmax", "read": "feature sum"},
    "feature softmax": {"score": "feature additive", "read": "feature sum"},
    "feature sum": {"score": "feature additive", "select": "feature softmax"},
    "additive with features": {"carry": "coverage"},
    "location-aware": {"carry": "previous weights"},
    "coverage": {"score": "additive with features"},
    "previous weights": {"score": "location-aware"},
    "monotonic": {"carry": "alignment"},
    "monotonic chunks": {"carry": "alignment"},
    "monotonic chunks of their own": {"carry": "alignment"},
    "alignment": {"select": "monotonic"},
    "gather": {"select": "hard"},
    "edges": {"score": "split linear"},
}
TABLES = {
    "score": SCORES, "position": POSITIONS, "select": SELECTS, "read": READS, "carry": CARRIES,
    "mask": {**MASKS, "looking ahead": lambda: Causal(right=2), "near": lambda: Window(1, 0)},
}  # fmt: skip
FIRST = {
    "score": "scaled dot", "position": "none", "select": "softmax", "read": "sum", "carry": "none",
    "mask": "none",
}  # fmt: skip
METHODS = {
    "score": ("forward",),
    "select": ("align", "__call__", "forward"),
    "read": ("forward", "__call__"),
    "position": ("bias",),
    "carry": ("adjust",),
    "mask": ("dense",),
}


def other(made):
    """Another result of a method, of the same shape."""
    if isinstance(made, tuple):
        return other(made[0]), *made[1:]
    if made.dtype == torch.bool:
        return ~made
    return made * 0.5 + torch.linspace(0, 1, made.shape[-1], dtype=made.dtype)


def method_of(part, role):
    """The name of the method that gives the part's result."""
    return next(
        name for name in METHODS[role]
        if any(name in vars(kind) for kind in type(part).__mro__[:-1] if kind is not nn.Module)
    )  # fmt: skip


def subclassed(layer, role):
    part = getattr(layer, role)
    name, base = method_of(part, role), type(part)
    changed = {name: lambda self, *a, **k: other(getattr(base, name)(self, *a, **k))}
    object.__setattr__(part, "__class__", type("Mine", (base,), changed))


def patched(layer, role):
    part = getattr(layer, role)
    name = method_of(part, role)
    if name == "__call__":  # Python looks it up in the class
        return False
    own = getattr(part, name)
    object.__setattr__(part, name, lambda *a, **k: other(own(*a, **k)))
    return True


def hooked(layer, role):
    if not isinstance(getattr(layer, role), nn.Module):
        return False
    getattr(layer, role).register_forward_hook(lambda module, given, out: other(out))
    return True


def pre_hooked(layer, role):
    if not isinstance(getattr(layer, role), nn.Module):
        return False
    getattr(layer, role).register_forward_pre_hook(lambda module, given: (2 * given[0], *given[1:]))
    return True


def hooked_inside(layer, role):
    """A hook on each layer within a part."""
    part = getattr(layer, role)
    inner = [m for m in part.children()] if isinstance(part, nn.Module) else []
    for one in inner:
        one.register_forward_hook(lambda module, given, out: other(out))
    return bool(inner)


class Twice(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrized(layer, role):
    part = getattr(layer, role)
    names = [n for n, _ in part.named_parameters()] if isinstance(part, nn.Module) else []
    for name in names:
        owner, _, last = name.rpartition(".")
        parametrize.register_parametrization(part.get_submodule(owner), last, Twice())
    return bool(names)


def set_otherwise(layer, role):
    """Each number among the settings, one larger; None becomes 1."""
    part, changed = getattr(layer, role), False
    own = vars(part)
    fields = {f.name for f in dataclasses.fields(part)} if dataclasses.is_dataclass(part) else own
    for name in list(own):
        sized = ("heads", "dim", "size", "filters", "width", "clip", "reach", "queries", "keys")
        if name[0] == "_" or name in ("training", *sized) or name not in fields:
            continue
        value = own[name]
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float)):
            continue
        if role == "mask" or value is not None:
            object.__setattr__(part, name, 1 if value is None else value + 1)
            changed = True
    return changed


CHANGES = (
    subclassed, patched, hooked, pre_hooked, hooked_inside, parametrized, set_otherwise,
)  # fmt: skip


@contextmanager
def hooks_on_all(layer, role):
    part = type(getattr(layer, role))
    handle = every.register_module_forward_hook(
        lambda module, given, out: other(out) if type(module) is part else None
    )
    try:
        yield
    finally:
        handle.remove()


def built(role, name):
    """A layer around one part, the others the usual ones or those that it needs."""
    names = {**FIRST, **WITH.get(name, {}), role: name}
    torch.manual_seed(0)
    made = {key: TABLES[key][one]() for key, one in names.items()}
    return Attention(made.pop("score"), **made)


def inputs():
    return [torch.randn(len(LENGTHS), N, D) for _ in range(3)]


def context(layer, given):
    torch.manual_seed(1)
    steps = given if layer.carry is None else [given[0][:, :1], *given[1:]]
    found = layer(*steps, at=0)
    if found.state is not None:
        found = layer(*steps, state=found.state, at=0)
    return found.context


def compare(layer, given):
    """The default and each kernel against the reference; what the reference gives."""
    with kernels("reference"):
        expected = context(layer, given)
    torch.testing.assert_close(context(layer, given), expected, atol=2e-5, rtol=1e-4)
    for name in KERNELS:
        with kernels(name):
            try:
                found = context(layer, given)
            except RequestError:
                continue
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4, msg=name)
    return expected.detach()


CASES = [(role, name) for role, own in TABLES.items() for name in own if name != "none"]


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("role", "name"), CASES)
def test_no_kernel_overlooks_a_change(role, name, half):
    """Each change before or after the first call, in turns; slow: the other way round."""
    seen = 0
    for n, change in enumerate(CHANGES, CASES.index((role, name)) + half):
        layer, given = built(role, name), inputs()
        with kernels("reference"):
            before = context(copy.deepcopy(layer), given)
        if n % 2:
            compare(layer, given)
        if change(layer, role) is False:
            continue
        try:
            with kernels("reference"):
                context(layer, given)
        except (RequestError, RuntimeError):  # the changed setting does not fit
            continue
        after = compare(layer, given)
        seen += not torch.equal(after, before)
    assert seen, "no change had any effect"
    if isinstance(getattr(built(role, name), role), nn.Module):
        layer, given = built(role, name), inputs()
        compare(layer, given)
        with hooks_on_all(layer, role):
            compare(layer, given)
        compare(layer, given)
