"""ConvS2S against the paper's equations in NumPy, and the paper's checks."""

import copy

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import explain
from regard.errors import RequestError
from regard.layers.weightnorm import NormedConv, NormedLinear
from regard.models.convs2s import ConvS2S
from tests.models import slow

SIZES = {"embed": 5, "encoder": [[2, 6, 3], [1, 7, 1]], "decoder": [[1, 6, 2], [1, 4, 3]]}
HALF = np.sqrt(0.5)


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(ConvS2S(12, 13, **{**SIZES, "dropout": 0.0, "max_length": 8, **changes}))


def by_hand(net, sentence, target):
    """Logits (T, V) of one sentence without padding, and the attention of each layer (T, S)."""
    p = slow.numbers(net)

    def linear(name, x):
        v = p[f"{name}.v"]
        w = p[f"{name}.g"] * v / np.sqrt((v**2).sum(1, keepdims=True))
        return x @ w.T + p[f"{name}.bias"]

    def block(name, x, kernel, before):
        """A σ(B) of every position's window; zeros stand outside of the sentence."""
        rows = []
        for t in range(len(x)):
            at = [t - before + i for i in range(kernel)]
            window = [x[s] if 0 <= s < len(x) else np.zeros_like(x[0]) for s in at]
            a, b = np.split(linear(f"{name}.conv", np.concatenate(window)), 2)
            rows.append(a * slow.sigmoid(b))
        residual = linear(f"{name}.change", x) if f"{name}.change.v" in p else x
        return np.stack(rows), residual

    e = p["embed_source.weight"][sentence] + p["position_source.table"][: len(sentence)]
    x = linear("encoder_in", e)
    for i, kernel in enumerate([3, 3, 1]):
        h, residual = block(f"encoder.{i}", x, kernel, kernel // 2)
        x = (h + residual) * HALF
    z = linear("encoder_out", x)
    g = p["embed_target.weight"][target] + p["position_target.table"][: len(target)]
    x = linear("decoder_in", g)
    looks = []
    for i, kernel in enumerate([2, 3]):
        h, residual = block(f"decoder.{i}", x, kernel, kernel - 1)
        if f"decoder.{i}.query.v" not in p:  # this layer does not look
            x = (h + residual) * HALF
            continue
        d = (linear(f"decoder.{i}.query", h) + g) * HALF
        a = np.stack([slow.softmax(z @ row) for row in d])
        c = np.sqrt(len(sentence)) * a @ ((z + e) * HALF)
        h = (linear(f"decoder.{i}.back", c) + h) * HALF
        x = (h + residual) * HALF
        looks.append(a)
    return linear("output", linear("decoder_out", x)), looks


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    assert list(seen) == ["decoder.0.attention", "decoder.1.attention"]
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        for record, look in zip(seen.values(), looks, strict=True):
            found = record.steps[0][row, :, : len(sentence)].detach().numpy()
            np.testing.assert_allclose(found, look, atol=1e-10)


@pytest.mark.parametrize("chosen", [[1], [2], [1, 2]])
def test_attention_in_chosen_decoder_layers(chosen):
    """Table 5 of the paper: layers are counted from 1."""
    net = model(attention=chosen)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    assert list(seen) == [f"decoder.{number - 1}.attention" for number in chosen]
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, _ = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
    encoded = net.encode(source[:1], lengths[:1])
    (grad,) = torch.autograd.grad(encoded.states.sum(), net.encoder_out.bias)
    torch.testing.assert_close(grad, torch.full_like(grad, 6 / (2 * len(chosen))))


@pytest.mark.parametrize("chosen", [[], [0], [3]])
def test_layers_that_are_not_there_cannot_attend(chosen):
    with pytest.raises(RequestError, match="one or more of the decoder's layers 1 to 2, got"):
        model(attention=chosen)


def test_check_a_receptive_fields_by_gradient():
    net = model(encoder=[[3, 6, 3]], decoder=[[2, 6, 3]], max_length=20)
    x = torch.randn(1, 15, 6).double().requires_grad_()
    y = x
    for block in net.encoder:
        y = block(y, torch.ones(1, 15, 1, dtype=torch.bool))
    (grad,) = torch.autograd.grad(y[0, 7].sum(), x)
    reach = 3 * (3 - 1) // 2  # 1 + L (k - 1) inputs, symmetric
    assert grad[0].any(-1).nonzero().flatten().tolist() == list(range(7 - reach, 8 + reach))
    y = x
    for block in net.decoder:
        y = torch.nn.functional.glu(block.conv(y), -1)
    (grad,) = torch.autograd.grad(y[0, 7].sum(), x)
    assert grad[0].any(-1).nonzero().flatten().tolist() == list(range(7 - 2 * (3 - 1), 8))


def test_check_b_the_scalings_keep_the_variance():
    """The fact sheet's E8: 20 blocks, d = 128, inputs of std 0.14 go from 0.138 to 0.155."""
    torch.manual_seed(0)
    net = ConvS2S(4, 4, embed=128, encoder=[[20, 128, 3]], decoder=[[1, 128, 3]], dropout=0.0)
    start = 0.14 * torch.randn(8, 60, 128)
    ends = {}
    for scaling, gain in ((1.0, 1.0), (2**0.5, 1.0), (1.0, 0.25)):
        x = start
        with torch.no_grad():
            for block in net.encoder:
                changed = copy.deepcopy(block)
                changed.conv.g.mul_(gain**0.5)
                x = changed(x, torch.ones(8, 60, 1, dtype=torch.bool)) * scaling
        ends[scaling, gain] = x.std().item()
    assert 0.12 < ends[1.0, 1.0] < 0.2
    assert ends[2**0.5, 1.0] > 100  # without sqrt(0.5)
    assert ends[1.0, 0.25] < 0.01  # with the init of layers that no GLU follows


def test_check_c_the_condition_keeps_its_variance_at_any_length():
    net = model(embed=64, encoder=[[1, 64, 1]], decoder=[[1, 64, 1]]).float()
    look = net.decoder[0].attention
    for m in (5, 20, 80):
        value = torch.randn(200, m, 64)
        context = look(torch.zeros(200, 1, 64), look.remember(torch.zeros_like(value), value))
        assert abs(context.context.std().item() - 1) < 0.05


def test_initialization_is_as_published():
    torch.manual_seed(2)
    net = ConvS2S(500, 600, embed=64, encoder=[[2, 96, 3]], decoder=[[2, 128, 5]], dropout=0.2)
    expected = {
        "embed_source.weight": 0.1,
        "position_target.table": 0.1,
        "encoder_in.v": (0.8 / 64) ** 0.5,
        "encoder_out.v": (1 / 96) ** 0.5,
        "encoder.1.conv.v": (4 * 0.8 / (3 * 96)) ** 0.5,
        "decoder.0.conv.v": (4 * 0.8 / (5 * 128)) ** 0.5,
        "decoder.1.query.v": (1 / 128) ** 0.5,
        "output.v": (0.8 / 64) ** 0.5,
    }
    parameters = dict(net.named_parameters())
    for name, std in expected.items():
        assert abs(parameters[name].std().item() / std - 1) < 0.05, name
    for name, p in parameters.items():
        assert not (name.endswith("bias") and p.any())
        if name.endswith(".g"):
            torch.testing.assert_close(p[:, 0], parameters[name[:-1] + "v"].norm(dim=1))


def test_the_encoder_hands_back_a_share_of_its_gradient_and_the_embedding_all():
    net, source = model(), torch.tensor([[5, 6, 2]])
    encoded = net.encode(source)
    e = net.position_source(net.embed_source(source))
    (through,) = torch.autograd.grad(encoded.states.sum(), net.encoder_out.bias, retain_graph=True)
    torch.testing.assert_close(through, torch.full_like(through, 3 / 4))  # 3 words, 2 * 2 layers
    # The values' gradient of the position table: all of e's, and a quarter of z's.
    (values,) = torch.autograd.grad(
        encoded.extra["values"].sum(), net.position_source.table, retain_graph=True
    )
    (keys,) = torch.autograd.grad(encoded.states.sum(), net.position_source.table)
    own = torch.zeros_like(values)
    own[: e.shape[1]] = 1.0
    torch.testing.assert_close(values, HALF * (own + keys))


def test_parameter_count_of_the_romanian_model():
    rows = [[20, 512, 3]]
    assert slow.count(ConvS2S, 40_000, 40_000, embed=512, encoder=rows) == 137_144_448


def test_weight_normalization():
    torch.manual_seed(3)
    layer = NormedLinear(4, 3).double()
    with torch.no_grad():
        layer.g.copy_(torch.tensor([[2.0], [0.5], [1.0]]))
    torch.testing.assert_close(layer.weight().norm(dim=1), layer.g[:, 0])
    x = torch.randn(2, 4).double()
    before = layer(x)
    with torch.no_grad():
        layer.v.mul_(7.0)  # only the direction counts
    torch.testing.assert_close(layer(x), before)
    conv = NormedConv(2, 3, 3, before=1).double()
    x = torch.randn(1, 5, 2).double()
    kernel = conv.weight().view(3, 3, 2).transpose(1, 2)  # (outputs, inputs, k)
    same = torch.nn.functional.conv1d(x.transpose(1, 2), kernel, conv.bias, padding=1)
    torch.testing.assert_close(conv(x), same.transpose(1, 2))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_acts_in_training_only(dropout):
    net, plain = model(dropout=dropout), model()
    plain.load_state_dict(net.state_dict())
    source, lengths, target = slow.ragged()
    expected = plain(source, target, lengths).logits
    assert torch.equal(net(source, target, lengths).logits, expected)
    net.train()
    assert torch.equal(net(source, target, lengths).logits, expected) == (dropout == 0.0)


def test_its_attention_takes_a_fast_kernel():
    assert {found.kernel for found in explain(model()).values()} == {"sdpa"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder": [[2, 6, 2]]}, "encoder kernels are centered, so odd"),
        ({"encoder": [[6, 3]]}, r"rows of \(layers, width, kernel\), all 1 or more, got \[6, 3\]"),
        ({"decoder": []}, "decoder expected one row"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(changes, said):
    with pytest.raises(RequestError, match=said):
        model(**changes)


def test_a_text_longer_than_the_table_is_refused():
    with pytest.raises(RequestError, match="learned positions end at 8"):
        model().encode(torch.full((1, 9), 5))
