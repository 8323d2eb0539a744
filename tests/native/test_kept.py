"""Values of weights: kept while the weights are the same, and never where a call is traced."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

from regard import catalog, native
from regard.native.kept import kept, may_keep

pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")


def counted(layer):
    calls = []

    def value():
        return kept(layer, "sum", list(layer.parameters()), lambda: calls.append(1) or len(calls))

    return value


def test_a_value_is_made_once_and_again_after_a_change():
    layer = nn.Linear(3, 2)
    value = counted(layer)
    with torch.no_grad():
        assert [value(), value()] == [1, 1]
        layer.weight.data[1, 2] = 5.0  # `_version` stays
        assert [value(), value()] == [2, 2]
        assert counted(copy.deepcopy(layer))() == 1


def test_nothing_is_kept_where_gradients_or_other_dtypes_are_wanted():
    layer = nn.Linear(3, 2)
    value = counted(layer)
    assert [value(), value()] == [1, 2]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert [value(), value()] == [3, 4]
    with torch.no_grad():
        assert not may_keep([layer.weight.double()])
        assert not may_keep([layer.weight.to("meta")])
        assert may_keep([layer.weight])


def test_a_value_is_gone_with_its_module():
    layer, value = nn.Linear(3, 2), nn.Linear(1, 1)
    with torch.no_grad():
        gone = weakref.ref(kept(layer, "another", [layer.weight], lambda made=value: made))
    del value
    gc.collect()
    assert gone() is not None
    del layer
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("name", "weight"), [("paulus", "embed_target.weight"), ("convs2s", "output.v")]
)
def test_decoders_begin_with_the_weights_of_now(name, weight):
    torch.manual_seed(0)
    model = catalog.load(name)(40, 40, **catalog.entry(name).tiny).eval()
    source = torch.randint(4, 40, (2, 5))

    def logits():
        encoded = model.encode(source)
        return model.step(torch.full((2, 1), 4), model.start(encoded))[0]

    with torch.no_grad():
        before = logits()
        assert torch.equal(logits(), before)
        model.get_parameter(weight).data.mul_(1.5)
        after = logits()
    assert not torch.equal(after, before)
    torch.testing.assert_close(after, logits().detach())
