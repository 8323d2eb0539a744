"""Weights from elsewhere: arrays, tensors, and what Hugging Face models give."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import regard
from regard import viewer
from regard.errors import RequestError
from regard.views.axis import axis_of
from tests.viewer.views import soft

TOKENS = ["[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]"]


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_arrays_of_two_axes(kind):
    weights = soft(3, 4)
    view = regard.view(kind(weights), rows=["a", "b", "c"], columns="w x y z")
    assert view.maps[0].shape == (1, 3, 4)
    assert (view.maps[0].weights[0] == weights).all()
    assert view.axes[view.maps[0].columns].pieces == ["w", "x", "y", "z"]


def test_layers_may_have_other_numbers_of_heads():
    view = regard.view(
        [torch.tensor(soft(1, 2, 7, 7)), torch.tensor(soft(1, 5, 7, 7))], rows=TOKENS
    )
    assert [one.shape[0] for one in view.maps] == [2, 5]
    assert len(view.axes) == 1
    assert view.axes[0].texts == ["[CLS]", "the", "cats", "sat", ".", "[SEP]"]
    assert view.axes[0].special == [0, 6]


def test_an_encoder_decoders_output():
    source, target = ["▁das", "▁ist", "</s>"], ["▁this", "▁is", "▁it", "</s>"]
    output = SimpleNamespace(
        encoder_attentions=tuple(torch.tensor(soft(2, 4, 3, 3)) for _ in range(2)),
        decoder_attentions=tuple(torch.tensor(soft(2, 4, 4, 4)) for _ in range(2)),
        cross_attentions=tuple(torch.tensor(soft(2, 4, 4, 3)) for _ in range(2)),
    )
    view = regard.view(output, rows=target, columns=source, row=1)
    assert view.names == [
        "encoder.1", "encoder.2", "decoder.1", "decoder.2", "cross.1", "cross.2",
    ]  # fmt: skip
    cross = view["cross.2"]
    assert (cross.weights == output.cross_attentions[1][1].numpy()).all()
    assert view.axes[cross.rows].pieces == target
    assert view.axes[cross.columns].pieces == source
    assert view.axes[view["encoder.1"].rows].pieces == source
    assert view.axes[view["decoder.1"].columns].pieces == target


def test_steps_of_generate_are_put_together():
    """`generate` gives a tuple of steps, each a tuple of layers, each (batch, heads, 1, keys)."""
    steps = [[soft(1, 2, 1, t + 1), soft(1, 2, 1, t + 1)] for t in range(4)]
    given = tuple(tuple(torch.tensor(layer) for layer in step) for step in steps)
    view = regard.view(given, rows="a b c d", kind="decoder")
    assert [one.shape for one in view.maps] == [(2, 4, 4), (2, 4, 4)]
    for t in range(4):
        np.testing.assert_allclose(view.maps[1].weights[:, t, : t + 1], steps[t][1][0, :, 0])
        assert not view.maps[1].weights[:, t, t + 1 :].any()


def test_what_cannot_be_shown_is_said():
    with pytest.raises(RequestError, match="output_attentions=True"):
        regard.view(SimpleNamespace(logits=1))
    with pytest.raises(RequestError, match="no row 3 in a batch of 2"):
        regard.view([torch.zeros(2, 1, 3, 3)], row=3)
    with pytest.raises(RequestError, match="expected 3 labels for 3 places, got 2"):
        regard.view(np.eye(3), rows="a b")
    with pytest.raises(RequestError, match="up to layers of 4"):
        regard.view(np.zeros(3))
    with pytest.raises(RequestError, match="no attention called 'cros'"):
        regard.view(np.eye(3), kind="cross")["cros"]
    with pytest.raises(RequestError, match="did you mean 'rollout'"):
        regard.view(np.eye(3), what="rolout")


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁un believ able ▁, ▁is n ' t", ["unbelievable", ",", "isn", "'", "t"]),
        ("Ġthe Ġcat s </s>", ["the", "cats", "</s>"]),
        ("th@@ e cat", ["the", "cat"]),
        ("<s> he ▁is <pad> <pad>", ["<s>", "he", "is", "<pad>", "<pad>"]),
        ("plain words", []),
    ],
)
def test_words_are_joined_as_tokenizers_split_them(pieces, words):
    assert axis_of(pieces.split()).texts == words


def test_sides_that_cannot_be_are_refused():
    with pytest.raises(RequestError, match="exactly one word"):
        viewer.Axis(["a", "b"], groups=[[0]], texts=["a"])
    with pytest.raises(RequestError, match="one for each word"):
        viewer.Axis(["a", "b"], groups=[[0], [1]], texts=["a"])
    with pytest.raises(RequestError, match="not 4 places"):
        viewer.Axis(list("abcd"), "image", grid=(2, 3))
    with pytest.raises(RequestError, match="not there"):
        viewer.Axis(["a"], edges=[(0, 1)])


def test_measures_tell_heads_apart():
    n = 12
    previous, following, last = np.eye(n, k=-1), np.eye(n, k=1), np.zeros((n, n))
    previous[0, 0] = following[-1, -1] = 1
    last[:, -1] = 1
    even = np.full((n, n), 1 / n)
    view = regard.view(np.stack([previous, following, last, even]), rows=[*"abcdefghijk", "</s>"])
    from regard.viewer.head_measures import measures, redundancy

    whole = view.maps[0].weights
    blocks = [(0, whole[:, :5]), (5, whole[:, 5:])]
    found = measures(blocks, (n, n), [n - 1], [(1, 0), (2, 1)], True)
    assert found["previous"] == [
        1,
        0,
        pytest.approx(1 / (n - 1) * 0, abs=1e-3),
        pytest.approx(1 / n, abs=1e-3),
    ]
    assert found["next"][:2] == [0, 1]
    assert found["delimiter"][2] == 1
    assert found["entropy"] == [0, 0, 0, pytest.approx(np.log2(n), abs=1e-3)]
    assert found["diagonal"][:2] == [1, 1]
    assert found["links"][0] == 1
    assert found["distance"][0] == pytest.approx(11 / 12, abs=1e-3)
    like, most = redundancy([*view.maps[0].weights, previous.astype(np.float32)])
    assert (like[0], most[0]) == (1, 4)
    assert like[1] < 0.5


def test_views_add_up_to_compare():
    a, b = regard.view(np.eye(3), title="a"), regard.view(np.ones((3, 3)) / 3)
    both = a + b
    assert (len(both.runs), len(both.maps), both.title) == (2, 2, "a")
    assert both.runs[1].maps == [1]
    assert (both.maps[1].weights[0] == b.maps[0].weights[0]).all()
