"""Recurrent layers that C reads against the same layers read by PyTorch."""

import pytest
import torch
from torch import nn

from regard import native
from regard.decode.program.recorder import Recorder, recorded_call
from regard.layers import reading
from regard.layers.bilstm import BiLSTM
from regard.layers.embed import Embed
from regard.layers.layout import PackedLayout
from regard.layers.lstm import LSTM
from regard.layers.rnn import GRU, BiGRU
from regard.models.deep_att import Layer
from regard.native.reading import PackedLayer, ReadingOrder, RecurrentWeights, read
from tests.pairwise import pairwise

pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")
LENGTHS = [4, 9, 1]
LAYERS = {
    "GRU": lambda **how: GRU(6, 19, **how),
    "GRU back": lambda **how: GRU(6, 19, backward=True, **how),
    "GRU after": lambda **how: GRU(6, 16, reset="after", **how),
    "GRU take": lambda **how: GRU(6, 33, update="take", **how),
    "BiGRU": lambda **how: BiGRU(6, 19, **how),
    "BiGRU after": lambda **how: BiGRU(6, 19, reset="after", update="take", **how),
    "LSTM": lambda **how: LSTM(6, 19, **how),
    "LSTMs": lambda **how: LSTM(6, 16, 3, dropout=0.5, **how),
    "BiLSTM": lambda **how: BiLSTM(6, 19, **how),
}


def flat(x):
    return [x] if isinstance(x, torch.Tensor) else [leaf for one in x for leaf in flat(one)]


def both(layer, *given, call="__call__"):
    """What C reads and what PyTorch does: gradients make PyTorch read."""
    calls = []
    own = reading.read
    reading.read = lambda *args: calls.append(1) or own(*args)
    try:
        with torch.no_grad():
            found = flat(getattr(layer, call)(*given))
        in_c, expected = len(calls), flat(getattr(layer, call)(*given))
    finally:
        reading.read = own
    assert in_c, "C read nothing"
    assert len(calls) == in_c, "C read where gradients are wanted"
    return found, expected


def same(found, expected):
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two.detach(), rtol=0, atol=2e-6)


@pairwise(name=LAYERS, bias=[True, False], level=["AVX2", "AVX-512"], padded=[True, False])
def test_c_reads_what_pytorch_reads(name, bias, level, padded):
    torch.manual_seed(0)
    layer = LAYERS[name](bias=bias).eval()
    x, lengths = torch.randn(3, 9, 6), torch.tensor(LENGTHS)
    with native.at_level(level):
        if native.level() == "portable":
            pytest.skip(f"this machine has no {level}")
        same(*both(layer, x, lengths if padded or name == "BiLSTM" else None))


@pytest.mark.parametrize("name", ["LSTM", "LSTMs", "BiLSTM", "BiGRU"])
def test_sequences_without_padding(name):
    torch.manual_seed(0)
    layer = LAYERS[name](bias=True).eval()
    layout = PackedLayout(torch.arange(9) < torch.tensor(LENGTHS)[:, None])
    x = layout.take(torch.randn(3, 9, 6))
    same(*both(layer, x, layout, call="packed"))
    if isinstance(layer, LSTM):
        same(*both(layer, x, layout, True, call="packed"))


def test_padding_that_is_read_like_words_and_products_that_are_made_already():
    torch.manual_seed(0)
    x, lengths = torch.randn(3, 9, 6), torch.tensor(LENGTHS)
    same(*both(BiLSTM(6, 19), x, lengths, call="padded"))
    for given in (None, lengths):
        same(*both(Layer(6, 19), x, given))


def test_few_words_of_a_large_vocabulary_are_read_in_c():
    embed, ids = Embed(50, 6), torch.randint(1, 50, (3, 9))
    for layer in (GRU(6, 19), BiGRU(6, 19)):
        same(*both(layer, embed, ids, torch.tensor(LENGTHS), call="words"))


def test_a_sequence_has_the_same_bits_alone_and_in_a_batch_and_by_two_threads():
    torch.manual_seed(0)
    layer, x, lengths = BiGRU(6, 40), torch.randn(70, 40, 6), torch.randint(1, 41, (70,))
    threads = torch.get_num_threads()
    with torch.inference_mode():
        states, ahead, back = layer(x, lengths)
        torch.set_num_threads(2)
        try:
            assert all(map(torch.equal, layer(x, lengths), (states, ahead, back)))
        finally:
            torch.set_num_threads(threads)
        for i in (0, 33):
            n = int(lengths[i])
            alone, first, last = layer(x[i : i + 1, :n], lengths[i : i + 1])
            assert torch.equal(alone[0], states[i, :n])
            assert torch.equal(first[0], ahead[i])
            assert torch.equal(last[0], back[i])
            assert not states[i, n:].any()


def test_changed_weights_are_seen():
    layer, x = LSTM(6, 16), torch.randn(2, 5, 6)
    with torch.no_grad():
        before = layer(x)[0]
        layer.stack.weight_hh_l0.data[3, 4] += 1  # `_version` stays
        found = layer(x)[0]
    assert not torch.equal(found, before)
    torch.testing.assert_close(found, layer(x)[0], rtol=0, atol=2e-6)


class Louder(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def replaced(layer):
    for one in layer.modules():
        if isinstance(getattr(one, "input", None), nn.Linear):
            one.input.__class__ = Louder


def hooked(path):
    def change(layer):
        def louder(module, given, out):
            return tuple(2 * x for x in out) if isinstance(out, tuple) else 2 * out

        layer.get_submodule(path).register_forward_hook(louder)

    return change


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: GRU(6, 16), replaced),
        (lambda: BiGRU(6, 16), replaced),
        (lambda: GRU(6, 16), hooked("input")),
        (lambda: BiGRU(6, 16), hooked("back.input")),
        (lambda: BiGRU(6, 16), hooked("ahead")),
        (lambda: BiGRU(6, 16), hooked("back")),
        (lambda: BiLSTM(6, 16), hooked("ahead")),
        (lambda: BiLSTM(6, 16), hooked("back")),
    ],
)
def test_what_a_user_changed_is_called(make, change):
    torch.manual_seed(0)
    layer, given = make(), (torch.randn(2, 5, 6), torch.tensor([5, 3]))
    with torch.no_grad():
        plain = flat(layer(*given))
        change(layer)
        found = flat(layer(*given))
    same(found, flat(layer(*given)))
    assert not torch.allclose(found[0], plain[0])


def test_an_empty_sequence_and_double_precision_are_pytorch_s():
    layer, x = GRU(6, 16), torch.randn(2, 5, 6)
    lengths = torch.tensor([0, 5])
    with torch.no_grad():
        found = layer(x, lengths)
        double = layer.double()(x.double(), lengths)
    assert not found[0][0].any()
    torch.testing.assert_close(double[0].float(), found[0], rtol=0, atol=2e-6)


WRONG = {
    "lengths that grow": {"lengths": torch.tensor([2, 3])},
    "a length below zero": {"lengths": torch.tensor([6, -1])},
    "more words than there are": {"lengths": torch.tensor([3, 3])},
    "a place behind the inputs": {"at": torch.tensor([[0, 3, 1, 4, 6]])},
    "a place before the inputs": {"at": torch.tensor([[0, 3, 1, 4, -1]])},
    "an order of others": {"order": torch.tensor([0, 2])},
}


@pytest.mark.parametrize("name", WRONG)
def test_c_checks_places_before_it_reads(name):
    right = {
        "lengths": torch.tensor([3, 2]),
        "order": torch.tensor([0, 1]),
        "at": torch.tensor([[0, 3, 1, 4, 2]]),
    }
    packed = PackedLayer([RecurrentWeights(torch.randn(64, 4), torch.randn(64, 16))], lstm=True)
    read(packed, torch.randn(6, 4), ReadingOrder(**right))
    with pytest.raises(IndexError, match="lengths, offsets or spans that are out of range"):
        read(packed, torch.randn(6, 4), ReadingOrder(**right | WRONG[name]))


def test_c_checks_the_sizes_of_a_plan():
    packed = PackedLayer([RecurrentWeights(torch.randn(64, 4), torch.randn(64, 16))], lstm=True)
    with pytest.raises(RuntimeError, match="a plan whose sizes do not fit"):
        read(packed, torch.randn(6, 40), ReadingOrder.padded([3], 6, [False]))


@pytest.mark.parametrize("make", [lambda: GRU(6, 8), lambda: BiGRU(6, 8), lambda: LSTM(6, 8)])
def test_a_recording_keeps_no_size_that_only_c_asks_for(make):
    layer, embed = make(), Embed(50, 6)
    ids, lengths = torch.randint(1, 50, (2, 5)), torch.tensor([5, 3])
    recorder = Recorder()
    with torch.no_grad(), recorded_call(recorder, ids) as recording:
        if isinstance(layer, LSTM):
            layer(embed(ids))
        else:
            layer.words(embed, ids, lengths)
    sizes = {(one.left, one.right) for one in recording.comparisons}
    assert not {pair for pair in sizes if 4 in pair or 50 in pair or 0 in pair}
