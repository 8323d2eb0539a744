"""Whatever changes a module of a generator, decoding gives what the generator's own steps give.

For each generator of the catalog, changes of a product of its step are generated, before the first
decoding and after it. The fast road is taken where it is right, and left where it is not.
"""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from regard import native
from regard.decode import Beam
from regard.layers.weightnorm import NormedLinear
from regard.protocols import BOS
from tests.decode.program.zoo import CASES, LANGUAGE_MODELS, OwnSteps

pytestmark = pytest.mark.skipif(
    native.level() in ("none", "portable"), reason="there is no C with vector instructions"
)
PRODUCTS = (nn.Linear, NormedLinear)
BEAM = Beam(beam_size=3, max_length=6)
FIRST = {case.name: case for case in reversed(CASES) if case.name not in LANGUAGE_MODELS}
"""One form of each generator that reads a source; the others continue texts, by no beam."""


def bent(out):
    """What an adapter may add."""
    return out + 2 * torch.sin(3 * out.sum(-1, keepdim=True) + torch.arange(out.shape[-1]))


class Bent(nn.Module):
    def forward(self, weight):
        return 2 * weight + 0.1


def used(model, case):
    """Owner and name of the last product that a step calls."""
    seen = []
    one = lambda module, *rest: seen.append(module)  # noqa: E731
    hooks = [m.register_forward_hook(one) for m in model.modules() if isinstance(m, PRODUCTS)]
    with torch.inference_mode():
        begun = case.start(model, case.source(2, 5))
        seen.clear()
        model.step(torch.full((2, 1), BOS), begun)
    for hook in hooks:
        hook.remove()
    path = next(name for name, module in model.named_modules() if module is seen[-1])
    owner, _, name = path.rpartition(".")
    return model.get_submodule(owner), name


def subclassed(owner, name):
    one = getattr(owner, name)
    one.__class__ = type(
        "Adapted",
        (type(one),),
        {"forward": lambda s, *given: bent(super(type(s), s).forward(*given))},
    )


def hooked(owner, name):
    getattr(owner, name).register_forward_hook(lambda module, given, out: bent(out))


def hooked_before(owner, name):
    getattr(owner, name).register_forward_pre_hook(lambda module, given: (3 * given[0] + 1,))


def patched(owner, name):
    one = getattr(owner, name)
    one.forward = lambda *given: bent(type(one).forward(one, *given))


def parametrized(owner, name):
    one = getattr(owner, name)
    parametrize.register_parametrization(one, next(iter(one._parameters)), Bent())


def replaced(owner, name):
    setattr(owner, name, copy.deepcopy(getattr(owner, name)))
    overwritten(owner, name)


def overwritten(owner, name):
    for weight in getattr(owner, name).parameters():
        weight.data = 3 * weight.data.flip(0)


CHANGES = [subclassed, hooked, hooked_before, patched, parametrized, replaced, overwritten]
EVERY = list(itertools.product(FIRST, CHANGES, ["before", "after"]))


def quick(name, change, when):
    """Each generator has one change; each change meets several of them, before and after."""
    at = list(FIRST).index(name)
    turn, which = divmod(at, len(CHANGES))
    return CHANGES[which] is change and (when == "after") == ((turn + which) % 2 == 0)


def test_each_change_comes_before_and_after_a_first_decoding():
    met = {(change, when) for name, change, when in EVERY if quick(name, change, when)}
    assert met == set(itertools.product(CHANGES, ["before", "after"]))


def built(case):
    """A model whose words differ in probability: some begin with weights of 0.01."""
    model = case.build()
    for weight in model.parameters():
        if weight.data.square().mean() < 0.05**2:
            weight.data *= 20
    return model


def written(model, case):
    given = case.source(3, 7)
    given = given if given.extras else (given.values, given.lengths)
    found = BEAM(model, *given) if isinstance(given, tuple) else BEAM(model, given)
    return [(h.tokens, h.score) for each in found for h in each]


def same(found, expected):
    return all(
        a == b and x == pytest.approx(y, abs=1e-5)
        for (a, x), (b, y) in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "change", "when"),
    [
        pytest.param(*one, marks=() if quick(*one) else pytest.mark.slow, id="-".join(
            (one[0], one[1].__name__, one[2])
        ))
        for one in EVERY
    ],
)  # fmt: skip
def test_no_fast_road_overlooks_a_change(name, change, when):
    case = FIRST[name]
    model = built(case)
    plain = written(OwnSteps(model), case)
    if when == "after":
        assert same(written(model, case), plain)
    change(*used(model, case))
    expected = written(OwnSteps(model), case)
    assert same(written(model, case), expected)
    assert expected != plain
