"""Attention that is not this package's is seen as it was, and seeing it changes nothing."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.errors import RequestError

B, H, Q, K, D = 2, 4, 5, 6, 8


class Products(nn.Module):
    """Projections around `scaled_dot_product_attention`."""

    def __init__(self, groups=H, **options):
        super().__init__()
        self.to_q, self.to_k = nn.Linear(D, D), nn.Linear(D, D)
        self.options, self.groups = options, groups

    def forward(self, query, key):
        keys = self.to_k(key)[:, : self.groups]
        return F.scaled_dot_product_attention(self.to_q(query), keys, keys, **self.options)


def inputs(dtype=torch.float64):
    rand = torch.Generator().manual_seed(3)
    return tuple(torch.randn(B, H, n, D, generator=rand, dtype=dtype) for n in (Q, K))


def by_hand(model, query, key, *, mask=None, is_causal=False, scale=None, enable_gqa=False):
    """One number at a time, in NumPy's float64."""
    q = model.to_q(query).detach().double().numpy()
    k = model.to_k(key)[:, : model.groups].detach().double().numpy()
    found = np.zeros((B, H, Q, K))
    for b, h, i in np.ndindex(B, H, Q):
        scores = []
        for j in range(K):
            score = float(q[b, h, i] @ k[b, h * model.groups // H, j])
            score *= 1 / math.sqrt(D) if scale is None else scale
            if is_causal and j > i:
                score = -math.inf
            if mask is not None:
                one = mask.expand(B, H, Q, K)[b, h, i, j]
                given = mask.dtype == torch.bool
                score += (0 if one else -math.inf) if given else float(one)
            scores.append(score)
        if max(scores) > -math.inf:
            powers = np.exp(np.array(scores) - max(scores))
            found[b, h, i] = powers / powers.sum()
    return torch.from_numpy(found)


def some():
    allowed = torch.rand(B, 1, Q, K, generator=torch.Generator().manual_seed(5)) > 0.4
    allowed[0, 0, 2] = False  # this query may look at nothing
    return allowed


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": some()},
        {"attn_mask": torch.linspace(-2, 2, H * Q * K, dtype=torch.float64).view(H, Q, K)},
        {"enable_gqa": True},
        {"enable_gqa": True, "attn_mask": some()},
        {"dropout_p": 0.5},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_scaled_products(options, mode):
    options = dict(options)
    model = Products(2 if "enable_gqa" in options else H, **options).double()
    query, key = inputs()
    with mode(), regard.watch(model) as seen:
        model(query, key)
    options.pop("dropout_p", None)
    expected = by_hand(model, query, key, mask=options.pop("attn_mask", None), **options)
    record = seen[""]
    torch.testing.assert_close(record.weights, expected, rtol=0, atol=1e-12)
    (facts,) = record.facts
    assert facts.empty == (expected == 0).all(-1).sum()
    assert facts.dropped == ("dropout_p" in model.options)
    assert facts.dropped or facts.error < 1e-12
    assert facts.causal == options.get("is_causal", False) or facts.causal is None


def test_tiles_of_products():
    for options in ({}, {"is_causal": True}, {"attn_mask": some()}):
        model = Products(**options).double()
        query, key = inputs()
        with torch.no_grad(), regard.watch(model, tiles=True) as seen:
            model(query, key)
        expected = by_hand(
            model, query, key, mask=options.get("attn_mask"), is_causal="is_causal" in options
        )
        lazy = seen[""].kept[0]
        tile = lazy.tile((1, 2), slice(1, 4), slice(2, 5))
        torch.testing.assert_close(tile, expected[1, 2, 1:4, 2:5], rtol=0, atol=1e-12)
        torch.testing.assert_close(seen[""].weights, expected, rtol=0, atol=1e-12)
        assert seen[""].facts[0].error < 1e-12
        assert seen.view(row=1).maps[0].shape == (H, Q, K)


def test_tiles_outlive_a_cache_that_is_written_again():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = torch.zeros(1, 1, 4, D)

        def forward(self, hidden_states, at):
            self.cache[:, :, at] = hidden_states[:, :, 0]
            return F.scaled_dot_product_attention(hidden_states, self.cache, self.cache)

    model = Cached()
    steps = [torch.randn(1, 1, 1, D) for _ in range(4)]
    with regard.watch(model) as whole, regard.watch(model, tiles=True) as seen:
        for t, step in enumerate(steps):
            model(step, t)
    assert len(seen[""].kept) == 4
    for a, b in zip(whole[""].steps, seen[""].steps, strict=True):
        assert torch.equal(a, b)


def encoder(**options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()


PAD = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"activation": "gelu"}, {"norm_first": True}], ids=str)
@pytest.mark.parametrize("given", [{}, {"src_key_padding_mask": PAD}], ids=["whole", "padded"])
def test_the_fused_layer_stays_fused(options, given):
    """Weights are those of the layer's own attention, called by hand with the same input."""
    model, x = encoder(**options), torch.randn(2, 5, 32)
    with torch.no_grad():
        without = model(x, **given)
        with regard.watch(model) as seen:
            within = model(x, **given)
        assert torch.equal(without, within)
        assert list(seen) == ["layers.0.self_attn", "layers.1.self_attn"]
        for n, record in enumerate(seen.values()):
            layer = model.layers[n]
            assert record.facts[0].kernel == "_transformer_encoder_layer_fwd"
            assert record.role == "self"
            inner = layer.norm1(x) if layer.norm_first else x
            pad = given.get("src_key_padding_mask")
            with torch.enable_grad():  # which takes the slow path
                _, own = layer.self_attn(
                    inner, inner, inner, key_padding_mask=pad, average_attn_weights=False
                )
            rows = torch.ones(2, 5, dtype=torch.bool) if pad is None else ~pad
            mine = record.weights.transpose(1, 2)[rows]
            torch.testing.assert_close(mine, own.transpose(1, 2)[rows], rtol=0, atol=1e-5)
            if pad is None:
                assert record.facts[0].error < 1e-5
            with torch.enable_grad():
                x = layer(x, src_key_padding_mask=pad).detach()


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(grad, need_weights):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x, y = torch.randn(2, 5, 32), torch.randn(2, 6, 32)
    for memory in (x, y):
        with torch.set_grad_enabled(grad), regard.watch(model) as seen:
            model(x, memory, memory, need_weights=need_weights)
        with torch.enable_grad():
            _, own = model(x, memory, memory, average_attn_weights=False)
        torch.testing.assert_close(seen[""].weights, own, rtol=0, atol=1e-6)
        assert seen[""].role == ("self" if memory is x else "cross")
        assert seen[""].facts[0].error < 1e-5


def test_roles_of_a_transformer():
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    with regard.watch(model) as seen:
        model(torch.randn(2, 5, 16), torch.randn(2, 3, 16), tgt_mask=mask)
    assert {name: (r.role, r.facts[0].causal, r.facts[0].dropped) for name, r in seen.items()} == {
        "encoder.layers.0.self_attn": ("encoder", False, True),
        "decoder.layers.0.self_attn": ("decoder", True, True),
        "decoder.layers.0.multihead_attn": ("cross", False, True),
    }


class Eager(nn.Module):
    """Attention by hand, in one of several ways."""

    def __init__(self, read, p=0.0):
        super().__init__()
        self.to_k, self.read, self.dropout = nn.Linear(D, D), read, nn.Dropout(p)

    def forward(self, query, key):
        keys = self.to_k(key)
        weights = torch.softmax(query @ keys.mT / math.sqrt(D), -1)
        self.kept = weights.detach().clone()
        return self.read(self.dropout(weights), keys)


READS = {
    "matmul": lambda w, v: w @ v,
    "einsum": lambda w, v: torch.einsum("bhij,bhjd->bihd", w, v),
    "einsum, values first": lambda w, v: torch.einsum("bhjd,bhij->bhid", v, w),
    "transposed": lambda w, v: (v.mT @ w.mT).mT,
    "flattened": lambda w, v: torch.bmm(w.flatten(0, 1), v.flatten(0, 1)),
    "cast": lambda w, v: w.float() @ v.float(),
}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("read", READS)
def test_a_pattern(read, p, mode):
    model = Eager(READS[read], p).double()
    with mode(), regard.watch(model) as seen:
        model(*inputs())
    assert torch.equal(seen[""].weights, model.kept)
    (facts,) = seen[""].facts
    assert facts.by_pattern
    assert facts.dropped == (p > 0)
    assert math.isnan(facts.error) or facts.error == 0


def test_a_mask_after_the_softmax_belongs_to_the_weights():
    hidden = torch.rand(Q, K, generator=torch.Generator().manual_seed(0)) > 0.5
    for read in (
        lambda w, v: w.masked_fill(hidden, 0.0) @ v,
        lambda w, v: w.masked_fill_(hidden, 0.0) @ v,
        lambda w, v: (w * ~hidden) @ v,
    ):
        model = Eager(read).double()
        with torch.no_grad(), regard.watch(model) as seen:
            model(*inputs())
        assert torch.equal(seen[""].weights, model.kept.masked_fill(hidden, 0.0))


@pytest.mark.parametrize(
    "read",
    [
        lambda w, v: w.sum(-1),
        lambda w, v: w.topk(2).values,
        lambda w, v: w.mT @ w,
        lambda w, v: w.mT @ v[:, :, :Q],
    ],
    ids=["sum", "top", "itself", "over queries"],
)
def test_what_is_no_attention(read):
    """A softmax that multiplies no values along its own axis is none, and that is said."""
    model = Eager(read).double()
    with pytest.raises(RequestError, match="no attention was seen"), regard.watch(model):
        model(*inputs())


def test_a_mixture_of_embeddings_is_no_attention():
    class Soft(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(K, D))

        def forward(self, x):
            return torch.softmax(x, -1) @ self.table

    with pytest.raises(RequestError, match="no attention was seen"), regard.watch(model := Soft()):
        model(torch.randn(2, 3, K))


class Training(nn.Module):
    """Every kind at once."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 2, 16, dropout=0.2, batch_first=True)
        self.products = Products(dropout_p=0.3)
        self.eager = Eager(READS["matmul"], 0.3)

    def forward(self, query, key):
        return self.eager(self.products(query, key), key).sum() + self.layer(query[:, 0]).sum()


def test_watching_changes_nothing():
    """Outputs, gradients, random numbers and the hooks of the model are the same."""
    torch.manual_seed(0)
    model, results = Training().train(), []
    for watched in (False, True):
        own = copy.deepcopy(model)
        torch.manual_seed(7)
        if watched:
            with regard.watch(own) as seen:
                loss = own(*inputs(torch.float32))
                loss.backward()
            assert set(seen) == {"layer.self_attn", "products", "eager"}
            assert all(len(r.kept) == 1 for r in seen.values())
        else:
            loss = own(*inputs(torch.float32))
            loss.backward()
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in own.modules())
        grads = [p.grad for p in own.parameters()]
        results.append([loss.detach(), torch.get_rng_state(), *grads])
    for without, within in zip(*results, strict=True):
        assert torch.equal(without, within)


def test_what_is_kept_can_be_chosen():
    model = Training().eval()
    with regard.watch(model, only="pro*", top_k=2, dtype=torch.float16) as seen:
        model(*inputs(torch.float32))
    assert list(seen) == ["products"]
    assert seen["products"].weights.dtype == torch.float16
    assert ((seen["products"].weights > 0).sum(-1) <= 2).all()


def test_two_watchers_see_the_same():
    model = Training().eval()
    with regard.watch(model) as one, regard.watch(model) as two:
        model(*inputs(torch.float32))
    assert list(one) == list(two)
    for a, b in zip(one.values(), two.values(), strict=True):
        assert a.facts[0].kernel == b.facts[0].kernel
        assert torch.equal(a.weights, b.weights)


def test_a_module_that_is_called_often():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Products()

        def forward(self, x):
            return self.inner(self.inner(x, x), x)

    model, (x, _) = Shared().double(), inputs()
    with regard.watch(model) as seen:
        model(x)
        model(x)
    assert [s["call"] for s in seen["inner"].scopes] == [1, 2, 1, 2]
    assert len(seen["inner"].within({"call": 2}).kept) == 2


def test_errors_of_the_model_are_not_hidden():
    model = Products()
    with pytest.raises(ZeroDivisionError), regard.watch(model):
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="mat1"), regard.watch(model):
        model(torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 3))
    with regard.watch(model) as seen:
        pass  # it did not run
    assert not seen


def test_a_compiled_model_is_refused():
    with pytest.raises(RequestError, match="compiled"), regard.watch(torch.compile(Products())):
        pass


def test_ours_inside_of_theirs_is_seen_once():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.ours = regard.MultiHead(D, 2)
            self.theirs = nn.MultiheadAttention(D, 2, batch_first=True)

        def forward(self, x):
            return self.theirs(*[self.ours(x, x, x).context] * 3)[0]

    model = Mixed()
    with regard.watch(model) as seen:
        model(torch.randn(2, 3, D))
    assert {n: len(r.kept) for n, r in seen.items()} == {"ours": 1, "theirs": 1}
    assert not seen["ours"].facts


def test_what_fails_beside_the_model_does_not_end_its_run(monkeypatch):
    from regard.errors import RegardError
    from regard.watching.foreign.products import Products

    def broken(self, start=0, stop=None):
        raise ValueError("a trap")

    monkeypatch.setattr(Products, "weights", broken)
    model = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    done = []

    def run():
        with regard.watch(model):
            done.append(model(x, x, x, need_weights=False)[0])

    with pytest.raises(RegardError, match="the model itself has run: ValueError"):
        run()
    assert torch.equal(done[0], model(x, x, x, need_weights=False)[0])
