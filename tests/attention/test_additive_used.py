"""Additive attention in use: training step by step, compilers, autocast, caches, heads, carries."""

import pytest
import torch

from regard import native
from regard.attention import (
    Additive,
    Attention,
    Coverage,
    Lengths,
    MultiHead,
    WeightedSum,
    explain,
    kernels,
)
from regard.attention._ops.cpu import additive as c
from regard.attention._ops.cpu import additive_grad

needs_c = pytest.mark.skipif(c.unsupported_reason() is not None, reason=str(c.unsupported_reason()))


def error(found, expected):
    expected = expected.double()
    return float((found.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-300))


def recurrent(layer, dtype, steps=5):
    """A decoder in small: each step's query is made of the context before."""
    g = torch.Generator().manual_seed(2)
    key = torch.randn(3, 7, 6, generator=g).to(dtype).requires_grad_()
    query = torch.randn(steps, 3, 1, 6, generator=g).to(dtype).requires_grad_()
    memory = layer.remember(key, mask=torch.tensor([7, 3, 0]))
    state, loss = query.new_zeros(3, 1, 6), 0.0
    for t in range(steps):
        state = torch.tanh(layer(query[t] + state, memory).context + state)
        loss = loss + (state**2).sum()
    return key, query, memory, loss


@needs_c
@pytest.mark.parametrize("wait", [2, 64])
def test_steps_over_one_memory_share_its_gradient(wait, monkeypatch):
    """One buffer behind one node: right for whole, partial, repeated and kept graphs."""
    monkeypatch.setattr(additive_grad, "WAIT", wait)
    layer = Attention(score=Additive(6, 6, 32))
    true = Attention(score=Additive(6, 6, 32)).double()
    true.load_state_dict(layer.state_dict())
    key, query, memory, loss = recurrent(layer, torch.float32)
    with kernels("reference"):
        exact_key, exact_query, _, exact_loss = recurrent(true, torch.float64)
    inputs, exact_inputs = (
        (key, query, *layer.parameters()),
        (exact_key, exact_query, *true.parameters()),
    )
    expected = torch.autograd.grad(exact_loss, exact_inputs, retain_graph=True)

    def check(which):
        found = torch.autograd.grad(loss, [inputs[n] for n in which], retain_graph=True)
        for n, a in zip(which, found, strict=True):
            assert error(a, expected[n]) <= 1e-5

    check(range(5))
    check(range(5))  # once more
    check([1])  # the buffer is filled, and nobody fetches it
    check([0])
    projected = memory.prepared[0]
    (found,) = torch.autograd.grad(loss, projected, retain_graph=True)
    flat = found.reshape(-1, 32).double().T @ key.detach().reshape(-1, 6).double()
    assert error(flat, expected[4]) <= 1e-5  # U's gradient, by hand
    loss.backward(retain_graph=True)
    loss.backward()
    assert error(key.grad / 2, expected[0]) <= 1e-5


@needs_c
def test_a_memory_used_by_two_layers_and_two_losses():
    layer = Attention(score=Additive(4, 4, 8))
    key = torch.randn(2, 5, 4, requires_grad=True)
    memory = layer.remember(key)
    query = torch.randn(2, 1, 4)
    first, second = layer(query, memory).context.sum(), layer(2 * query, memory).context.sum()
    (a,) = torch.autograd.grad(first, key, retain_graph=True)
    (b,) = torch.autograd.grad(second, key, retain_graph=True)
    (both,) = torch.autograd.grad(first + second, key)
    torch.testing.assert_close(a + b, both)


@needs_c
@pytest.mark.nohook
@pytest.mark.parametrize("training", [False, True])
def test_it_compiles_in_one_graph(training):
    layer = Attention(score=Additive(6, 5, 16))
    query, key = torch.randn(2, 3, 6), torch.randn(2, 7, 5, requires_grad=training)
    mask = Lengths(torch.tensor([7, 2]))

    def run(query, key):
        return layer(query, key, mask=mask).context

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    with torch.set_grad_enabled(training):
        expected, found = run(query, key), compiled(query, key)
    torch.testing.assert_close(found, expected)
    if training:
        (a,) = torch.autograd.grad(expected.pow(2).sum(), key)
        (b,) = torch.autograd.grad(found.pow(2).sum(), key)
        torch.testing.assert_close(a, b)


@needs_c
@pytest.mark.nohook
def test_it_exports():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention(score=Additive(6, 5, 16))

        def forward(self, query, key):
            return self.attention(query, key).context

    model, x = Model().eval(), (torch.randn(2, 3, 6), torch.randn(2, 7, 5))
    exported = torch.export.export(model, x)
    names = [str(node.target) for node in exported.graph.nodes]
    assert any("regard.additive_attend" in name for name in names)
    torch.testing.assert_close(exported.module()(*x), model(*x))


@needs_c
def test_the_operators_keep_the_rules_of_operators():
    query, key, v = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(8)
    value, packed = torch.randn(2, 5, 4), c.pack(key)
    inputs = [t.requires_grad_() for t in (query, key, v, value)]
    lengths, mask = torch.tensor([5, 2]), torch.rand(2, 3, 5) > 0.3
    utils = ("test_schema", "test_faketensor", "test_autograd_registration")
    op = torch.ops.regard.additive_scores.default
    torch.library.opcheck(op, (inputs[0], inputs[1], packed, inputs[2], 1), test_utils=utils)
    op = torch.ops.regard.additive_attend.default
    arguments = (inputs[0], inputs[1], packed, inputs[2], inputs[3], mask, lengths, 0.5, 1, True)
    torch.library.opcheck(op, arguments, test_utils=utils)


@needs_c
def test_differentiating_twice_is_what_the_reference_says():
    layer = Attention(score=Additive(4, 4, 8))
    x = torch.randn(1, 3, 4, requires_grad=True)

    def twice():
        (first,) = torch.autograd.grad(layer(x, x).context.pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), x)[0]

    found = twice()
    with kernels("reference"):
        torch.testing.assert_close(found, twice(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_under_autocast_prepared_keys_are_widened_once(low):
    layer = Attention(score=Additive(8, 8, 32))
    query, key = torch.randn(2, 1, 8), torch.randn(2, 5, 8)
    with torch.autocast("cpu", dtype=low):
        memory = layer.remember(key)
        found = layer(query, memory)
        with kernels("reference"):
            expected = layer(query, memory)
    first = memory.prepared[0] if isinstance(memory.prepared, tuple) else memory.prepared
    assert first.dtype == torch.float32
    assert found.context.dtype == expected.context.dtype == low
    torch.testing.assert_close(found.context, expected.context, atol=2e-2, rtol=2e-2)


def test_prepared_keys_follow_a_cache_and_a_beam():
    layer = Attention(score=Additive(4, 4, 40))
    key, query = torch.randn(3, 9, 4), torch.randn(3, 1, 4)
    with torch.no_grad():
        memory = layer.remember(key[:, :4])
        for n in (4, 5, 7):  # one, two, two
            end = {4: 5, 5: 7, 7: 9}[n]
            memory = layer.extend(memory, key[:, n:end])
        torch.testing.assert_close(layer(query, memory).context, layer(query, key).context)
        order = torch.tensor([2, 0, 0, 1])
        torch.testing.assert_close(
            layer(query[order], memory.select(order)).context, layer(query, key).context[order]
        )
        wide = Attention(score=Additive(4, 4, 40)).double()
        wide.load_state_dict(layer.state_dict())
        found = wide(query.double(), memory.to(torch.float64)).context
        torch.testing.assert_close(found.float(), layer(query, key).context)


def test_heads_of_their_own():
    """MultiHead around Additive(heads=...) is one Additive a head."""
    torch.manual_seed(1)
    layer = MultiHead(12, 3, Attention(score=Additive(4, 4, 8, bias=True, heads=3)))
    x, y = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    lengths = torch.tensor([7, 3])
    s = layer.attention.score
    heads = []
    for h in range(3):
        one = Attention(score=Additive(4, 4, 8, bias=True))
        one.score.query.weight.data, one.score.v.data = s.query.weight.data[h], s.v.data[h]
        one.score.key.weight.data = s.key.weight.data[h]
        one.score.key.bias.data = s.key.bias.data[h, 0]
        parts = [
            p(t)[..., 4 * h : 4 * h + 4]
            for p, t in ((layer.query, x), (layer.key, y), (layer.value, y))
        ]
        heads.append(one(*parts, mask=Lengths(lengths)).context)
    expected = layer.out(torch.cat(heads, -1))
    for name in ("streaming", "reference"):
        with kernels(name):
            found = layer(x, y, mask=Lengths(lengths)).context
        torch.testing.assert_close(found, expected)
    double = MultiHead(12, 3, Attention(score=Additive(4, 4, 8, bias=True, heads=3))).double()
    double.load_state_dict(layer.state_dict())
    wide = double(x.double(), y.double(), mask=Lengths(lengths)).context  # by blocks
    torch.testing.assert_close(wide.float(), expected)


def test_gradients_of_heads_of_their_own():
    """Each head has a v, and each v the gradient of its own head alone."""
    torch.manual_seed(1)
    layer = MultiHead(12, 3, Attention(score=Additive(4, 4, 8, bias=True, heads=3)))
    exact = MultiHead(12, 3, Attention(score=Additive(4, 4, 8, bias=True, heads=3))).double()
    exact.load_state_dict(layer.state_dict())
    x, y, mask = torch.randn(2, 5, 12), torch.randn(2, 7, 12), Lengths(torch.tensor([7, 3]))
    weight, found = torch.randn(2, 5, 12), []
    for one, name in ((layer, "streaming"), (exact, "reference")):
        dtype = one.out.weight.dtype
        with kernels(name):
            context = one(x.to(dtype), y.to(dtype), mask=mask).context
        found.append(torch.autograd.grad((context * weight).sum(), list(one.parameters())))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("heads", [1, 2])
def test_features_of_a_carry_need_no_reference(queries, heads):
    """Coverage shown to the score: one step of one query, or of several hypotheses."""
    score = Additive(6, 6, 16, features=1, heads=heads)
    layer = Attention(score=score, carry=Coverage())
    batch = (2,) if heads == 1 else (2, heads)
    query, key = torch.randn(*batch, queries, 6), torch.randn(*batch, 5, 6)

    def run():
        x = key.clone().requires_grad_()
        memory, state, contexts = layer.remember(x), None, []
        for t in range(3):
            out = layer(query + t, memory, state=state)
            state = out.state
            contexts.append(out.context)
        total = torch.stack(contexts)
        return total, torch.autograd.grad(total.pow(2).sum(), [x, *layer.parameters()])

    found, found_grads = run()
    with kernels("reference"):
        expected, expected_grads = run()
    assert explain(layer)[""].kernel == (
        "located" if heads == 1 and native.library() else "streaming"
    )
    torch.testing.assert_close(found, expected)
    for a, b in zip(found_grads, expected_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_dropout_and_other_selects_take_the_scores_alone():
    layer = Attention(score=Additive(4, 4, 8), read=WeightedSum(dropout=0.5))
    x = torch.randn(2, 6, 4)
    torch.manual_seed(3)
    found = layer(x, x).context
    torch.manual_seed(3)
    with kernels("reference"):
        expected = layer(x, x).context
    torch.testing.assert_close(found, expected)
