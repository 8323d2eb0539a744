"""What is said of an attention that somebody has altered, and who asks."""

import copy
import pickle

import pytest
import torch
from torch import nn

import regard
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Dot,
    Lengths,
    MultiHead,
    Ragged,
    ScaledDot,
    Softmax,
    WeightedSum,
    Window,
    attend,
    attend_ragged,
    explain,
    kernels,
    op,
)
from regard.attention._kernels import compared
from regard.attention._kernels.reference import Reference
from regard.attention.plain import Altered, exactly, is_causal, overridden, plain_form
from regard.errors import RegardError, RequestError


class Mine(ScaledDot):
    def forward(self, query, key, *, at=0, features=None):
        return super().forward(query, key) ** 2


class Both(ScaledDot):
    """Its product is its own, so its form is too."""

    def as_dot(self, query, key):
        return super().as_dot(2 * query, key)


class Whole(Both):
    def forward(self, query, key, *, at=0, features=None):
        return super().forward(query, key)

    def as_dot(self, query, key):
        return super().as_dot(query, key)


class Said(ScaledDot):
    """What no result depends on may differ."""

    def __init__(self, note):
        super().__init__()
        self.note = note

    def extra_repr(self):
        return self.note


class Inner(Attention):
    def forward(self, *given, **more):
        found = super().forward(*given, **more)
        return found._replace(context=3 * found.context)


def test_what_is_overridden():
    assert overridden(Mine) == "ScaledDot's forward is overridden by Mine"
    assert [overridden(kind) for kind in (ScaledDot, Both, Whole, Said, Window, Causal)] == [
        None
    ] * 6
    assert overridden(Inner) == "Attention's forward is overridden by Inner"
    found = explain(Attention(Mine()))[""]
    assert found.kernel == "reference"
    assert dict(found.passed_over)["sdpa"] == "ScaledDot's forward is overridden by Mine"
    for kind in (Both(), Whole(), Said("a")):
        assert explain(Attention(kind))[""].names[-1] == "sdpa"
    with kernels("sdpa"), pytest.raises(RequestError, match="ScaledDot's forward is overridden"):
        attend(*[torch.randn(1, 2, 4)] * 3, score=Mine())


def test_hooks_come_and_go_and_stay_in_copies():
    layer = Attention(Dot())
    handle = layer.score.register_forward_hook(lambda module, given, out: 2 * out)
    assert explain(layer)[""].passed_over[0][1] == "Dot has a hook"
    assert explain(copy.deepcopy(layer))[""].kernel == "reference"
    handle.remove()
    assert explain(layer)[""].names[-1] == "sdpa"
    assert explain(pickle.loads(pickle.dumps(layer)))[""].names[-1] == "sdpa"
    layer.score.register_full_backward_hook(lambda module, given, out: None)
    assert explain(layer)[""].kernel == "reference"


def test_hooks_of_watchers_change_no_kernel():
    layer, x = Attention(), torch.randn(1, 3, 4)
    with regard.watch(layer):
        assert explain(layer)[""].names[-1] == "sdpa"
        layer(x, x)


def test_the_plain_form():
    form = plain_form(MultiHead(8, 2, Attention(mask=Causal())).attention)
    assert (form.score, form.select, form.read, form.mask) == (
        ScaledDot,
        Softmax,
        WeightedSum,
        Causal,
    )
    assert str(form) == "ScaledDot, Softmax, WeightedSum, Causal"
    assert str(plain_form(Attention(Mine()))) == "ScaledDot's forward is overridden by Mine"
    assert isinstance(plain_form(Inner()), Altered)
    patched = Causal()
    object.__setattr__(patched, "dense", lambda *a, **k: None)
    assert plain_form(Attention(mask=patched)) == "the dense of a Causal is patched"
    assert not exactly(patched, Causal)
    assert not is_causal(Causal(right=1))
    assert is_causal(Causal())


@pytest.mark.parametrize("how", ["subclass", "hook"])
def test_heads_call_an_attention_that_is_more_than_its_parts(how):
    torch.manual_seed(0)
    inner = Inner() if how == "subclass" else Attention()
    layer, x = MultiHead(8, 2, inner), torch.randn(2, 5, 8)
    if how == "hook":
        inner.register_forward_hook(lambda m, given, out: out._replace(context=3 * out.context))
    usual = MultiHead(8, 2)
    usual.load_state_dict(layer.state_dict())
    mask = Lengths(torch.tensor([5, 3]))
    expected = 3 * usual(x, x, mask=mask).context
    torch.testing.assert_close(layer(x, x, mask=mask).context, expected)
    assert not layer.ragged_is_faster(4)
    rows = Ragged.of([x[0], x[1, :3]])
    found = layer(rows, rows, rows).context
    torch.testing.assert_close(found, torch.cat([expected[0], expected[1, :3]]))
    inner.mask = mask
    with pytest.raises(RequestError, match="give that mask in the call"):
        layer(x, x)


def test_ragged_sequences_of_an_altered_score():
    rows = Ragged.of([torch.randn(n, 4) for n in (3, 5)])
    found = attend_ragged(rows, rows, score=Mine()).tensor
    each = [attend(x[None], x[None], score=Mine()).context[0] for x in rows.sequences()]
    torch.testing.assert_close(found, torch.cat(each))


@pytest.mark.parametrize("grad", [False, True])
def test_a_step_sees_a_hook_that_comes_between_two_steps(grad):
    torch.manual_seed(0)
    layer = Attention(Additive(4, 6, 8))
    with torch.set_grad_enabled(grad):
        memory = layer.remember(torch.randn(2, 7, 6))
        query = torch.randn(2, 1, 4)
        before = layer(query, memory).context
        handle = layer.score.register_forward_hook(lambda module, given, out: 9 * out)
        with kernels("reference"):
            expected = layer(query, memory).context
        torch.testing.assert_close(layer(query, memory).context, expected)
        assert not torch.allclose(before, expected)
        handle.remove()
        torch.testing.assert_close(layer(query, memory).context, before)
        nn.utils.parametrize.register_parametrization(layer.score, "v", nn.Tanh())
        with kernels("reference"):
            expected = layer(query, memory).context
        torch.testing.assert_close(layer(query, memory).context, expected)


def test_weights_of_an_altered_call_are_its_own():
    x = torch.randn(1, 3, 4)
    layer = Attention(Mine())
    with regard.watch(layer) as seen:
        layer(x, x)
    with kernels("reference"):
        expected = layer(x, x, need_weights=True).weights
    torch.testing.assert_close(torch.as_tensor(seen[""].weights), expected)


def test_nobody_looks_ahead_in_silence():
    x = torch.randn(1, 5, 4)
    with kernels("reference"):
        expected = attend(x, x, mask=Causal(right=2)).context
    torch.testing.assert_close(attend(x, x, mask=Causal(right=2)).context, expected)


class Off:
    """A kernel that is wrong."""

    name = "off"

    def unsupported_reason(self, call):
        return None

    def run(self, call):
        found = Reference().run(call)
        return found._replace(context=found.context + 0.01)


def test_a_debugging_user_is_told_of_a_kernel_that_differs(monkeypatch):
    x = torch.randn(2, 3, 4)
    monkeypatch.setattr(compared, "WANTED", True)
    attend(x, x)
    attend(x, x, mask=Lengths(torch.tensor([3, 0])))
    layer = Attention(Additive(4, 4, 8))
    layer(x, layer.remember(x))
    monkeypatch.setattr(op, "choose", lambda call: Off())
    with pytest.raises(RegardError, match=r"'off' differs from the reference by 0.01.*ScaledDot"):
        attend(x, x)
    monkeypatch.setattr(compared, "WANTED", False)
    attend(x, x)


def test_ragged_heads_around_an_altered_attention_refuse_what_they_would_ignore():
    rows = Ragged.of([torch.randn(3, 8)])
    for attention in (Attention(), Inner()):
        with pytest.raises(RequestError, match="has no need_weights="):
            MultiHead(8, 2, attention)(rows, rows, rows, need_weights=True)
