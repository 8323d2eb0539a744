"""Watching changes nothing and sees everything."""

import threading

import pytest
import torch
from torch import nn

from regard import watch
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Lengths,
    MultiHead,
    WeightedSum,
    attend,
    scope,
)
from regard.errors import RequestError


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attention = MultiHead(8, 2, Attention(read=WeightedSum(0.3), mask=Causal()))
        self.cross = Attention(Additive(8, 8, 4))

    def forward(self, x, memory):
        y = self.self_attention(x, x).context
        steps = [self.cross(y[:, t : t + 1], memory).context for t in range(y.shape[1])]
        return torch.cat(steps, 1)


def run(model, x, look):
    model.zero_grad()
    torch.manual_seed(7)
    if look:
        with watch(model) as seen:
            out = model(x, x)
            out.sum().backward()
    else:
        seen, out = None, model(x, x)
        out.sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    return out.detach(), grads, torch.get_rng_state(), seen


@pytest.mark.parametrize("autocast", [False, True])
def test_outputs_gradients_and_random_numbers_are_bitwise_the_same(autocast):
    torch.manual_seed(0)
    model, x = Toy().train(), torch.randn(2, 4, 8)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        plain, plain_grads, plain_rng, _ = run(model, x, look=False)
        out, grads, rng, seen = run(model, x, look=True)
    assert torch.equal(plain, out)
    assert all(torch.equal(a, b) for a, b in zip(plain_grads, grads, strict=True))
    assert torch.equal(plain_rng, rng)
    assert set(seen) == {"self_attention", "cross"}


def test_weights_are_those_of_the_reference():
    torch.manual_seed(0)
    model, x = Toy().eval().double(), torch.randn(2, 4, 8).double()
    with watch(model) as seen:
        model(x, x)
    direct = model.self_attention(x, x, need_weights=True)
    torch.testing.assert_close(seen["self_attention"].weights, direct.weights)
    y = direct.context
    expected = model.cross(y, x, need_weights=True).weights  # (B, Q, K), all queries at once
    assert len(seen["cross"].steps) == 4
    assert seen["cross"].weights.shape == (4, 2, 1, 4)
    torch.testing.assert_close(seen["cross"].of(1)[0], expected[1])


def test_names_scopes_patterns_and_unknown_names():
    model, x = Toy(), torch.randn(1, 3, 8)
    with watch(model, only="self*") as some, watch(model) as everything:
        model(x, x)
        for k in range(2):
            with scope("hop", k):
                attend(x, x, name="facts")
        model.cross(x, x)
        Attention()(x, x)  # not part of the model: not seen
    assert set(some) == {"self_attention"}
    assert set(everything) == {"self_attention", "cross", "facts"}
    assert everything["facts"].scopes == [{"hop": 0}, {"hop": 1}]
    with pytest.raises(RequestError, match="did you mean 'cross'"):
        everything["cros"]
    with watch() as bare:
        attend(x, x)
        model.cross(x, x)
    assert set(bare) == {"attend"}
    with pytest.raises(RequestError, match="a module"), watch(3):
        pass


def test_a_watcher_sees_its_own_thread_only():
    model, x = Toy(), torch.randn(1, 3, 8)
    with watch(model) as seen:
        other = threading.Thread(target=lambda: model(x, x))
        other.start()
        other.join()
    assert len(seen) == 0


def test_along_a_beam_with_hypotheses_as_queries_and_with_pasts_of_their_own():
    torch.manual_seed(0)
    model = Toy().double().eval()
    model.self_attention.declare("decoder", None)  # the axes (example, hypothesis) before heads
    memory = torch.randn(2, 5, 8).double()
    x = torch.randn(2, 3, 4, 8).double()  # (B, beam, T, D)
    trail = torch.tensor([[1, 0], [1, 2], [0, 1]])  # (row, slot); row 0 left the batch at step 2
    cached = None
    with watch(model) as seen, torch.no_grad():
        for t in range(3):
            rows = slice(None) if t < 2 else slice(1, 2)
            now = x[rows, :, t]
            model.cross(now, memory[rows])  # beams are the query axis
            layer = model.self_attention
            step = now[..., None, :]
            if cached is None:
                cached = layer.remember(step)
            else:
                cached = cached.rows(torch.tensor([1])) if t == 2 else cached
                cached = layer.extend(cached, step)
            layer(step, cached)
    cross = seen["cross"].along(trail)
    assert cross.shape == (1, 3, 5)
    for t, (row, slot) in enumerate(trail.tolist()):
        b = row if t < 2 else 1
        expected = model.cross(x[b : b + 1, slot, t : t + 1], memory[b : b + 1], need_weights=True)
        torch.testing.assert_close(cross[0, t], expected.weights[0, 0])
    past = seen["self_attention"].along(trail)
    assert past.shape == (2, 3, 3)
    torch.testing.assert_close(past.sum(-1), torch.ones(2, 3).double())
    assert (past[:, 0, 1:] == 0).all()
    with pytest.raises(RequestError, match="4 steps"):
        seen["cross"].along(torch.zeros(4, 2, dtype=torch.long))


def test_padding_gets_exactly_zero_in_what_is_seen():
    model, x = Toy().eval(), torch.randn(2, 4, 8)
    memory = model.cross.remember(x, mask=Lengths(torch.tensor([4, 2])))
    with watch(model) as seen:
        model.cross(x, memory)
    assert (seen["cross"].weights[1, :, 2:] == 0).all()
