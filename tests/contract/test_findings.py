"""Modules that people changed, watched or moved: each case once gave another result in silence.

Every case is as short as it was found; the tests beside the modules generate others of its kind.
"""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import regard
from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Causal,
    Coverage,
    Edges,
    MultiHead,
    Softmax,
    SplitLinear,
    WeightedSum,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention.score import ScaledDot
from regard.decode import Beam, Greedy
from regard.errors import RequestError
from regard.layers.norm import PreNorm
from regard.layers.positional_encoding import Sinusoid, sinusoid
from regard.models.arsg import ARSG
from regard.models.rnnsearch import RNNsearch
from regard.models.show_attend_tell import ShowAttendTell
from regard.models.transformer import Transformer
from regard.protocols import Inputs

# Parts: the fast kernels against the reference.


class FiveFold(Additive):
    def forward(self, query, key, *, at=0, features=None):
        return 5 * super().forward(query, key, at=at, features=features)


class Squared(ScaledDot):
    def forward(self, query, key, *, at=0, features=None):
        return super().forward(query, key, at=at, features=features) ** 2


class Half(Softmax):
    def __call__(self, scores, *, query=None, mask=None, at=0):
        weights, other = super().__call__(scores, query=query, mask=mask, at=at)
        return weights * 0.5, other


class Twice(WeightedSum):
    def forward(self, weights, value, *, at=0):
        return 2 * super().forward(weights, value, at=at)


class Outside(Window):
    def dense(self, queries, keys, *, at, device):
        return ~super().dense(queries, keys, at=at, device=device)


def hooked(part, result):
    part.register_forward_hook(lambda module, given, output: result(output))
    return part


ATTENTIONS = {
    "a subclass of Additive": lambda: Attention(FiveFold(8, 8, 4)),
    "a subclass of ScaledDot": lambda: Attention(Squared()),
    "a subclass of Softmax": lambda: Attention(select=Half()),
    "a subclass of WeightedSum": lambda: Attention(read=Twice()),
    "a subclass of Window": lambda: Attention(mask=Outside(2, 2)),
    "a mask to the right": lambda: Attention(mask=Causal(right=2)),
    "a hook on a score": lambda: Attention(hooked(Additive(8, 8, 4), lambda scores: scores * 9)),
    "a hook on a read": lambda: Attention(read=hooked(WeightedSum(), lambda context: context * 0)),
}


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_parts(kind):
    layer, x = ATTENTIONS[kind](), torch.randn(1, 300, 8)
    found = layer(x, x).context
    with kernels("reference"):
        torch.testing.assert_close(found, layer(x, x).context, rtol=1e-5, atol=1e-6)
    if kind == "a hook on a read":
        assert not found.any()


def test_the_reason_names_both_classes():
    said = str(explain(Attention(FiveFold(8, 8, 4)))[""])
    assert "Additive's forward is overridden by FiveFold" in said


class Feature(nn.Module):
    """A score that sees one feature of the carry's state."""

    feature_dim = 1

    def prepare(self, key):
        return key

    def forward(self, query, key, *, at=0, features=None):
        assert features is not None
        return query @ key.mT


class PerFeature(nn.Module):
    def __init__(self):
        super().__init__()
        self.per_feature = True

    def prepare(self, key):
        return key

    def forward(self, query, key, *, at=0, features=None):
        return query.unsqueeze(-2) * key.unsqueeze(-3)


def test_what_parts_declare():
    x = torch.randn(1, 5, 8)
    assert Attention(Feature(), carry=Coverage())(x[:, :1], x).context.shape == (1, 1, 8)
    with pytest.raises(RequestError, match="PerFeature"):
        Attention(PerFeature())
    layer = MultiHead(8, 2)
    with regard.watch(layer) as seen:
        seen.label(role="cross")
        layer(x, x)
    assert seen[""].role == "cross"


def test_a_memory_of_inference_mode_goes_on_outside():
    layer, x = MultiHead(8, 2), torch.randn(1, 3, 8)
    with torch.inference_mode():
        past = layer.extend(layer.remember(x[:, :1]), x[:, 1:2])
    with torch.no_grad():
        past = layer.extend(past, x[:, 2:])
        torch.testing.assert_close(layer(x, past).context, layer(x, x).context)


# Packed decoding against the model's own steps.


class LoRA(nn.Linear):
    def forward(self, x):
        return super().forward(x) + x @ self.low


class Halved(nn.Module):
    def forward(self, x):
        return x * 0.5


def a_transformer(change=None):
    torch.manual_seed(1)
    model = Transformer(30, 30, dim=32, heads=2, layers=2, ffn_dim=64).eval()
    torch.manual_seed(3)
    if change is not None:
        change(model)
    return model.eval()


def adapted(model):
    old = model.decoder[0].self_attention.query
    layer = LoRA(32, 32, bias=False)
    layer.weight, layer.low = old.weight, nn.Parameter(torch.randn(32, 32) * 0.3)
    model.decoder[0].self_attention.query = layer


def hooked_feedforward(model):
    hooked(model.decoder[0].feedforward, lambda output: output * 0 + 1)


def later_mask(model):
    Greedy(max_length=12)(model, source())
    for layer in model.decoder:
        layer.self_attention.attention.mask = Causal(0)


def later_eps(model):
    Greedy(max_length=12)(model, source())
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 0.5


def eps_of_one_layer(model):
    model.decoder[1].self_residual.norm.eps = 0.5


def another_norm(model):
    model.decoder_norm = Halved()


def another_residual(model):
    model.decoder[1].self_residual = PreNorm(32)


def one_head(model):
    old = model.decoder[1].self_attention
    model.decoder[1].self_attention = new = MultiHead(32, 1, Attention(mask=Causal()))
    new.load_state_dict(old.state_dict())


CHANGES = [
    None, adapted, hooked_feedforward, later_mask, later_eps, eps_of_one_layer, another_norm,
    another_residual, one_head,
]  # fmt: skip


def source(words=30):
    torch.manual_seed(0)
    ids = torch.randint(4, words, (3, 7))
    ids[:, -1] = 2
    return ids


def the_same(model, ids, monkeypatch):
    fast = Greedy(max_length=12)(model, ids)
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    slow = Greedy(max_length=12)(model, ids)
    for one, other in zip(fast, slow, strict=True):
        assert one[0].tokens == other[0].tokens
        assert one[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-4)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: getattr(change, "__name__", "none"))
def test_programs_of_transformers(change, monkeypatch):
    the_same(a_transformer(change), source(), monkeypatch)


@pytest.mark.parametrize("where", ["", "readout", "attention"])
def test_programs_of_rnnsearch(where, monkeypatch):
    torch.manual_seed(0)
    model = RNNsearch(40, 40, embed=16, hidden=16, align=16, maxout=8, scale=None).eval()
    if where == "readout":
        hooked(model.readout, lambda output: output * 0)
    elif where:
        hooked(model.attention, lambda output: output._replace(context=output.context * 0))
    the_same(model, source(40), monkeypatch)


def test_a_quantized_model_writes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = torch.ao.quantization.quantize_dynamic(a_transformer(), {nn.Linear})
    assert len(Greedy(max_length=5)(model, source())) == 3


def test_states_are_no_inputs():
    torch.manual_seed(0)
    captioner = ShowAttendTell(
        3, 20, widths=(4, 8), convolutions=(1, 1), embed=8, hidden=12, align=8, encoder="vgg"
    ).eval()
    covering = Beam(max_length=6, coverage_penalty=0.2)
    assert len(covering(captioner, Inputs(torch.rand(2, 3, 16, 16)))) == 2
    listener = ARSG(
        5, 12, hidden=8, layers=1, join=2, state=8, align=8, maxout=4, filters=2, width=5
    ).eval()
    frames = Inputs(torch.rand(2, 10, 5), torch.tensor([10, 8]))
    assert len(covering(listener, frames)) == 2


# Watching, and the life of a module.


def test_tables_of_the_meta_device():
    with torch.device("meta"):
        table, layer = Sinusoid(8), MultiHead(8, 2, Attention(position=ALiBi(2)))
    table.to_empty(device="cpu")
    layer.to_empty(device="cpu")
    layer.load_state_dict(MultiHead(8, 2).state_dict())
    torch.testing.assert_close(table.table, sinusoid(256, 8))
    assert layer.attention.position.m.tolist() == [2**-4, 2**-8]


class PerHead(nn.Module):
    num_heads = 2

    def forward(self, x):
        self.weights = []
        for head in x.chunk(2, -1):
            self.weights.append(F.softmax(head @ head.mT, -1))
            self.weights[-1] @ head
        return x


def test_a_loop_over_heads():
    model = PerHead()
    with regard.watch(model) as seen:
        model(torch.randn(4, 3, 8))
    assert [tuple(step.shape) for step in seen[""].steps] == [(4, 3, 3)] * 2
    for call, weights in enumerate(model.weights, 1):
        found = seen[""].within({"call": call}).of(1)
        torch.testing.assert_close(found.reshape(3, 3), weights[1])
    with pytest.raises(RequestError, match=r"no call within {'call': 3}; there are {'call': 1}, "):
        seen[""].within({"call": 3})


GENERATE = {
    "sliding window": {},
    "beams": {"num_beams": 4},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
    "no cache": {"use_cache": False},
}


@pytest.mark.parametrize("form", GENERATE)
def test_generate(form):
    transformers = pytest.importorskip("transformers")
    ids = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0, "vocab_size": 30}
    if form == "sliding window":
        model = transformers.MistralForCausalLM(transformers.MistralConfig(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2, sliding_window=3, **ids,
        ))  # fmt: skip
    else:
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, **ids)
        )
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    prompt = torch.tensor([[5, 6, 7, 8] if form == "beams" else [5, 6, 7, 8, 5, 6, 7]])
    new = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    with torch.no_grad(), regard.watch(model) as seen:
        written = model.generate(prompt, **new, **GENERATE[form])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        right = model(written[:, :-1], output_attentions=True).attentions[0][0].numpy()
    drawn = seen.view(row=0).maps[0]
    found = np.stack([drawn.load(head) for head in range(drawn.shape[0])])
    assert found.shape == right.shape
    assert abs(found - right).max() < 1e-5


def test_two_sets_of_nodes():
    edges = torch.tensor([[0, 1, 1], [0, 1, 2]])  # of two authors to three papers
    papers = ["paper0", "paper1", "paper2"]
    axes = regard.view((edges, torch.ones(3)), rows=papers, columns=["a", "b"]).axes
    assert [axis.pieces for axis in axes] == [papers, ["a", "b"]]


def test_recomputed_layers_are_seen_once():
    layer, x = MultiHead(8, 2), torch.randn(1, 4, 8, requires_grad=True)
    with regard.watch(layer) as seen:
        checkpoint(lambda x: layer(x, x).context, x, use_reentrant=False).sum().backward()
    assert seen.view().maps[0].shape == (2, 4, 4)


def test_strided_offsets():
    edges, x = Edges.of(torch.tensor([[0, 1], [1, 0]]), 2), torch.randn(2, 8)
    strided = torch.stack([edges.offsets, edges.offsets], 1)[:, 0]
    score = SplitLinear(8, 8)
    found = attend(x, x, x, score=score, mask=Edges(strided, edges.sources)).context
    torch.testing.assert_close(found, attend(x, x, x, score=score, mask=edges).context)


def test_a_copy_after_use():
    layer, x = MultiHead(8, 2), torch.randn(1, 4, 8)
    before = layer(x, x).context
    torch.testing.assert_close(copy.deepcopy(layer)(x, x).context, before)
