"""Norms, gradients, rollout and changed weights of models that are not ours, each done by hand."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.errors import RequestError
from regard.watching.ablation import effects
from regard.watching.interventions import edited, permuted, uniform, without_head
from tests.attention.foreign_cases import CASES, built, expected, inputs

pytest.importorskip("transformers")
TORCH = tuple(int(n) for n in torch.__version__.split(".")[:2])
KINDS = {  # the attention of a layer, and the linear layer behind its heads
    "bert": ("encoder.layer.1.attention.self", "encoder.layer.1.attention.output.dense"),
    "gpt2": ("h.1.attn", "h.1.attn.c_proj"),
    "bart": ("decoder.layers.1.encoder_attn", "decoder.layers.1.encoder_attn.out_proj"),
}
SLOW = {
    "llama": ("layers.1.self_attn", "layers.1.self_attn.o_proj"),
    "t5": ("decoder.block.1.layer.1.EncDecAttention", "decoder.block.1.layer.1.EncDecAttention.o"),
    "vit": ("layers.1.attention", "layers.1.attention.o_proj"),
    "roberta": ("encoder.layer.0.attention.self", "encoder.layer.0.attention.output.dense"),
    "distilbert": ("transformer.layer.1.attention", "transformer.layer.1.attention.out_lin"),
    "whisper": ("decoder.layers.1.encoder_attn", "decoder.layers.1.encoder_attn.out_proj"),
}
MODELS = [
    *KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)
]  # fmt: skip
BOTH = pytest.mark.parametrize("kernel", ["eager", "sdpa"])


def pair(kind, kernel):
    """The model, the same under eager, what it reads, and a score of what it gives."""
    own, model = built(CASES[kind], "eager"), built(CASES[kind], kernel)
    model.load_state_dict(own.state_dict())
    given = inputs(CASES[kind], model)
    own.double()
    model.double()
    given = {k: v.double() if v.is_floating_point() else v for k, v in given.items()}
    rand = torch.Generator().manual_seed(3)

    def score(output):
        last = output.last_hidden_state
        rand.manual_seed(3)
        return (last * torch.randn(last.shape, generator=rand, dtype=last.dtype)).sum()

    return model, own, given, score


def heads_of(linear, x):
    """What each head hands on, (B, T, head, D): the linear layer without its bias, in parts."""
    conv = type(linear).__name__ == "Conv1D"
    matrix = linear.weight if conv else linear.weight.mT
    width = matrix.shape[0] // 4
    parts = [x[..., h * width : (h + 1) * width] @ matrix[h * width : (h + 1) * width]
             for h in range(4)]  # fmt: skip
    return torch.stack(parts, 2)


@BOTH
@pytest.mark.parametrize("kind", MODELS)
def test_a_head_less_is_a_head_zeroed_by_hand(kind, kernel):
    model, own, given, score = pair(kind, kernel)
    name, behind = {**KINDS, **SLOW}[kind]
    linear = own.get_submodule(behind)
    for head in (0, 3):
        width = 32 // 4

        def zeroed(module, args, head=head, width=width):
            x = args[0].clone()
            x[..., head * width : (head + 1) * width] = 0
            return (x, *args[1:])

        handle = linear.register_forward_pre_hook(zeroed)
        with torch.no_grad():
            expected_score = score(own(**given))
        handle.remove()
        with torch.no_grad(), without_head(model.get_submodule(name), head):
            mine = score(model(**given))
        torch.testing.assert_close(mine, expected_score, rtol=1e-6, atol=1e-8)
        with torch.no_grad():
            assert not torch.isclose(mine, score(model(**given)), rtol=1e-6)


@BOTH
@pytest.mark.parametrize("kind", MODELS)
def test_gradients_are_those_of_eager_attention(kind, kernel):
    model, own, given, score = pair(kind, kernel)
    output = own(**given, output_attentions=True)
    truth = expected(output)
    flat = [w for layers in truth.values() for w in layers]
    slopes = iter(torch.autograd.grad(score(output), flat, allow_unused=True))
    with regard.watch(model, measure="gradient") as seen:
        total = score(model(**given))
    seen.backward(total)
    for role, layers in truth.items():
        mine = [r for r in seen.values() if r.role == role]
        for record, weights in zip(mine, layers, strict=True):
            slope = next(slopes)
            rows = record.weights.abs().sum(-1) > 0
            assert rows.any()
            own_product = (weights * slope).detach()
            torch.testing.assert_close(
                record.weights[rows], own_product[rows], rtol=1e-4, atol=1e-6, check_dtype=False
            )
    assert all(p.grad is None for p in model.parameters())


@BOTH
@pytest.mark.parametrize("kind", MODELS)
def test_norms_are_of_what_the_layer_behind_hands_on(kind, kernel):
    """By hand: one key at a time gets all the weight, and what leaves the head is measured."""
    model, own, given, _ = pair(kind, kernel)
    name, behind = {**KINDS, **SLOW}[kind]
    with torch.no_grad(), regard.watch(model, only=name, measure="norms") as seen:
        model(**given)
    with torch.no_grad(), regard.watch(own, only=name) as plain:
        own(**given)
    record, weights = seen[name], plain[name].weights
    assert record.facts[0].projected is True
    linear = own.get_submodule(behind)
    kept = {}
    handle = linear.register_forward_pre_hook(lambda m, args: kept.update(x=args[0]))
    for key in range(0, weights.shape[-1], 3):
        alone = [1.0 if k == key else 0.0 for k in range(weights.shape[-1])]
        with torch.no_grad(), edited(own.get_submodule(name), 0, alone):
            own(**given)
        sizes = heads_of(linear, kept["x"])[:, 0].norm(dim=-1)  # (B, head)
        mine = record.weights[:, :, :, key]
        torch.testing.assert_close(
            mine, weights[:, :, :, key] * sizes[:, :, None], rtol=1e-4, atol=1e-6, check_dtype=False
        )
    handle.remove()


@BOTH
@pytest.mark.parametrize("kind", ["bert", "bart"])
def test_rollout_is_that_of_numpy(kind, kernel):
    model, own, given, _ = pair(kind, kernel)
    with torch.no_grad(), regard.watch(model) as seen:
        model(**given)
    with torch.no_grad():
        truth = expected(own(**given, output_attentions=True))
    found = seen.rollout()
    assert not [name for name in found if "encoder_attn" in name]
    for role, layers in truth.items():
        mine = [r.weights[0, 0].numpy() for r in found.values() if r.role == role]
        assert bool(mine) == (role != "cross")
        below = np.eye(layers[0].shape[-1])
        for rolled, weights in zip(mine, layers, strict=False):
            below = (weights[0].mean(0).numpy() + np.eye(len(below))) / 2 @ below
            np.testing.assert_allclose(rolled, below, atol=1e-6)
    assert found.view().maps[0].what == "rollout"


def by_hand(mha, x, change):
    """Attention of `nn.MultiheadAttention`, heads one by one."""
    q, k, v = F.linear(x, mha.in_proj_weight, mha.in_proj_bias).chunk(3, -1)
    width, parts = x.shape[-1] // mha.num_heads, []
    for h in range(mha.num_heads):
        part = slice(h * width, (h + 1) * width)
        scores = q[..., part] @ k[..., part].mT / width**0.5
        parts.append(change(scores.softmax(-1), h) @ v[..., part])
    return mha.out_proj(torch.cat(parts, -1))


@pytest.mark.parametrize("fast", [False, True])
def test_rows_are_set_and_made_even_in_torchs_own(fast):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    mha, x = model.layers[0].self_attn, torch.randn(2, 3, 8)
    row = torch.tensor([0.2, 0.0, 0.8])

    def set_row(weights, head):
        if head == 1:
            weights[:, 2] = row
        return weights

    def even(weights, head):
        return torch.full_like(weights, 1 / 3)

    seen = {}

    def run(change):
        with torch.no_grad():
            normed = layer.norm1(x)
            if fast:
                return mha(normed, normed, normed, need_weights=False)[0]
            seen["made"] = mha(normed, normed, normed)
            return seen["made"][0]

    normed = layer.norm1(x)
    for context, change in (
        (edited(mha, 2, row.tolist(), head=1), set_row), (uniform(mha), even),
    ):  # fmt: skip
        with context:
            mine = run(change)
        torch.testing.assert_close(mine, by_hand(mha, normed, change), rtol=1e-5, atol=1e-6)
        assert not torch.allclose(run(change), mine, atol=1e-4)


def test_effects_of_the_fast_path_are_those_of_zeroed_columns():
    """The fused encoder layer is one operation; what it would have given is made again."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(1, 4, 8)

    def score():
        return model(x)[0, 0, 0]

    whole, found = effects(model, score)
    assert whole == pytest.approx(score().item())
    assert len(found) == 8
    assert [e.change for e in found] == sorted(e.change for e in found)
    for one in found:
        if one.head is None:
            continue
        own = model.get_submodule(one.attention).out_proj.weight
        kept = own.detach().clone()
        with torch.no_grad():
            own[:, (one.head - 1) * 4 : one.head * 4] = 0
            assert score().item() - whole == pytest.approx(one.change, abs=1e-5)
            own.copy_(kept)


def test_permuted_weights_keep_their_values():
    torch.manual_seed(0)
    mha = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, mask = torch.randn(1, 4, 8), torch.ones(4, 4).triu(1).bool()
    with torch.no_grad(), permuted(mha):
        _, moved = mha(x, x, x, attn_mask=mask, average_attn_weights=False)
        first = mha(x, x, x, attn_mask=mask)[0]
    with torch.no_grad():
        plain, own = mha(x, x, x, attn_mask=mask, average_attn_weights=False)
    torch.testing.assert_close(moved, own)  # what the module itself says is not touched
    torch.testing.assert_close(first[:, 0], plain[:, 0])  # one place: nowhere else to look
    assert not torch.allclose(first[:, 3], plain[:, 3], atol=1e-4)


class Bare(nn.Module):
    """Attention with nothing behind it."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, x):
        x = self.project(x)
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.xfail(
    TORCH >= (2, 14),
    reason="PyTorch 2.14 fuses examples with heads where a model has no axis for heads",
    raises=RequestError,
    strict=True,
)
def test_without_a_layer_behind_values_count_as_they_are():
    model, x = Bare(), torch.randn(2, 3, 4)
    with torch.no_grad(), regard.watch(model, measure="norms") as seen:
        model(x)
    with torch.no_grad(), regard.watch(model) as plain:
        model(x)
        sizes = model.project(x).norm(dim=-1)
    record = seen[""]
    assert record.facts[0].projected is False
    torch.testing.assert_close(record.weights, plain[""].weights * sizes[:, None, :])
    assert seen.view().maps[0].what == "norms"


def test_our_own_have_the_same_measures():
    from regard.attention import MultiHead

    layer, x = MultiHead(8, 2), torch.randn(1, 3, 8)
    with regard.watch(layer) as plain:
        layer(x, x)
    with regard.watch(layer, measure="norms") as seen, torch.no_grad():
        layer(x, x)
    assert (seen[""].weights > 0).all()
    with regard.watch(layer, measure="gradient") as moved:
        total = layer(x, x).context[0, 0, 0]
    moved.backward(total)
    assert moved[""].weights.shape == plain[""].weights.shape
    assert (moved[""].weights[0, :, 1:] == 0).all()  # other rows say nothing of the first
    assert plain.rollout()[""].weights.shape == (1, 1, 3, 3)
    with pytest.raises(RequestError, match="no head 2"), without_head(layer, 2):
        pass


def wrong(kind):
    model, x = Bare(), torch.randn(1, 3, 4)
    if kind == "no such measure":
        with regard.watch(model, measure="norm"):
            pass
    elif kind == "rollout":
        with regard.watch(model, measure="rollout"):
            pass
    elif kind == "with tiles":
        with regard.watch(model, measure="norms", tiles=True):
            pass
    elif kind == "no gradient":
        with torch.no_grad(), regard.watch(model, measure="gradient") as seen:
            made = model(x)
        seen.backward(made.sum())
    elif kind == "not told":
        with regard.watch(model, measure="gradient") as seen:
            model(x)
        seen.view()
    elif kind == "many numbers":
        with regard.watch(model, measure="gradient") as seen:
            made = model(x)
        seen.backward(made)
    elif kind == "weights":
        with regard.watch(model) as seen:
            made = model(x)
        seen.backward(made.sum())
    elif kind == "with gradients":
        with uniform(model):
            model(x)
    elif kind == "with gradients, fused":  # PyTorch 2.14 also fuses without an axis of heads
        with uniform(model):
            model(x[:, None])
    elif kind == "no head":
        with torch.no_grad(), without_head(model, 5):
            model(x)
    elif kind == "not run":
        with uniform(model):
            pass
    elif kind == "too few":
        with torch.no_grad(), edited(model, 0, [1.0]):
            model(x)
    elif kind == "no stack":
        with torch.no_grad(), regard.watch(nn.MultiheadAttention(4, 2)) as seen:
            pass
        seen.rollout()
    else:
        effects(model, lambda: model(x))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no such measure", "did you mean 'norms'"), ("rollout", "seen.rollout()"),
        ("with tiles", "without top_k"), ("no gradient", "without torch.no_grad"),
        ("not told", "backward"), ("many numbers", "one number"), ("weights", "gradient"),
        ("with gradients", "torch.no_grad"), ("with gradients, fused", "torch.no_grad"),
        ("no head", "no head 5"), ("not run", "no attention"),
        ("too few", "a weight for each of 3 keys"), ("no stack", "nothing that looks at itself"),
        ("score", "one number"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_one_sentence(kind, said):
    with pytest.raises(RequestError, match=said):
        wrong(kind)
