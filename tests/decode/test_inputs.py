"""Frames are a source as a text is: every decoder writes of them what it writes of their ids."""

import pytest
import torch
from torch import nn

from regard.decode import Beam, Greedy, Sample
from regard.errors import RequestError
from regard.models.rnnsearch import RNNsearch
from regard.protocols import EOS, PAD, Encoded, Generator, Inputs, unpacked

SIZES = {"embed": 6, "hidden": 8, "maxout": 4, "align": 5}


class OfFrames(nn.Module):
    """An RNNsearch that reads vectors (B, S, m) in place of ids."""

    normalized = False

    def __init__(self, model):
        super().__init__()
        self.model = model

    def encode(self, source, lengths=None):
        frames, lengths = unpacked(source, lengths)
        states, _, first = self.model.encoder(frames, lengths)
        return Encoded(states, lengths, first)

    def start(self, encoded):
        return self.model.start(encoded)

    def step(self, tokens, decoding):
        return self.model.step(tokens, decoding)

    def forward(self, source, target_in, lengths=None):
        raise AssertionError("decoding does not call it")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return RNNsearch(11, 12, **SIZES).eval()


@pytest.fixture(scope="module")
def source():
    return torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD], [4, EOS, PAD, PAD]])


@pytest.mark.parametrize(
    "decoder",
    [Greedy(max_length=6), Beam(beam_size=3, max_length=6)],
    ids=lambda d: type(d).__name__,
)
def test_frames_are_decoded_as_their_ids(decoder, model, source):
    lengths = torch.tensor([4, 3, 2])
    with torch.no_grad():
        frames = Inputs(model.embed_source(source), lengths)
    made = OfFrames(model)
    assert isinstance(made, Generator)
    found = decoder(made, frames)
    expected = decoder(model, source)
    assert [[h.tokens for h in one] for one in found] == [
        [h.tokens for h in one] for one in expected
    ]
    assert found[0][0].score == pytest.approx(expected[0][0].score, abs=1e-5)
    *_, last = decoder.steps(made, frames)
    assert [one[0].tokens for one in last] == [one[0].tokens for one in found]


def test_samples_depend_on_the_frames_and_not_on_the_batch(model, source):
    decoder = Sample(seed=5, n_best=2, max_length=6)
    with torch.no_grad():
        values = model.embed_source(source)
    made, lengths = OfFrames(model), torch.tensor([4, 3, 2])
    whole = decoder(made, Inputs(values, lengths))
    alone = decoder(made, Inputs(values[1:2, :3], lengths[1:2]))
    assert [h.tokens for h in whole[1]] == [h.tokens for h in alone[0]]


def test_frames_without_lengths_are_all_real(model, source):
    with torch.no_grad():
        frames = model.embed_source(source[:1])
    made, decoder = OfFrames(model), Greedy(max_ratio=1.0, max_extra=0)
    (found,) = decoder(made, Inputs(frames, torch.tensor([4])))
    assert len(found[0].tokens) <= 4


def test_texts_as_inputs(model, source):
    given = Inputs(source)
    assert torch.equal(model.encode(given).states, model.encode(source).states)
    target = torch.tensor([[1, 4], [1, 5], [1, 6]])
    assert torch.equal(model(given, target).logits, model(source, target).logits)
    assert [h[0].tokens for h in Beam()(model, given)] == [
        h[0].tokens for h in Beam()(model, source)
    ]


def test_frames_where_ids_are_read(model):
    with pytest.raises(RequestError, match=r"reads ids \(batch, time\), and got torch.float32 of"):
        model.encode(Inputs(torch.zeros(2, 3, 6)))


def test_inputs_move_and_are_picked():
    given = Inputs(torch.arange(6).view(3, 2), torch.tensor([2, 1, 2]), {"marks": torch.eye(3)})
    part = given.rows(torch.tensor([2, 0]))
    assert part.values.tolist() == [[4, 5], [0, 1]]
    assert part.lengths.tolist() == [2, 2]
    assert part.extras["marks"].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert given.to("meta").extras["marks"].device.type == "meta"
    assert len(given) == 3
