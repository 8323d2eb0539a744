"""Which words gave the largest features: against loops, and in `regard look`."""

import numpy as np
import pytest
import torch

import regard
from regard.layers.pool import spread
from regard.models.bilstm_pool import BiLSTMPair, BiLSTMPool
from regard.models.kim_cnn import KimCNN
from regard.models.swem import SWEM
from regard.protocols import Inputs
from regard.tasks.labels.pooled_words import pooled_words
from regard.views import WHATS
from tests.tasks.labeled import fitted, pairs, write

IDS = torch.tensor([[5, 7, 6, 9, 8, 4], [9, 4, 6, 0, 0, 0], [6, 0, 0, 0, 0, 0], [0] * 6])
LENGTHS = torch.tensor([6, 3, 1, 0])


def looped(features, size):
    """A share to the word of each feature's largest value; features are (windows, F)."""
    shares = np.zeros(size)
    for own in features.T:
        shares[own.argmax()] += 1 / features.shape[1]
    return shares


def divided(features, width, size):
    """As `looped` of windows, whose share goes to their words in equal parts."""
    found = np.zeros(size)
    for first, share in enumerate(looped(features, len(features))):
        found[first : first + width] += share / width
    return found


@pytest.mark.parametrize("pool", ["max", "concat", "hier"])
def test_shares_of_pooled_words_are_those_of_a_loop(pool):
    model = SWEM(10, 2, embed=8, pool=pool, window=2).double().eval()
    shares = model.encoder.shares(Inputs(IDS, LENGTHS)).numpy()
    x = model.embed(IDS).detach().numpy()
    for row, n, found in zip(x, LENGTHS.tolist(), shares, strict=True):
        width = min(2, n) if pool == "hier" else 1
        means = [row[i : i + width].mean(0) for i in range(n - width + 1)] if n else []
        wanted = divided(np.stack(means), width, 6) if n else np.zeros(6)
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_shares_of_states_are_those_of_a_loop():
    model = BiLSTMPool(10, 2, embed=8, hidden=5).double().eval()
    shares = model.encoder.shares(Inputs(IDS, LENGTHS)).detach().numpy()
    for i, n in enumerate(LENGTHS.tolist()[:3]):
        alone = model.encoder.lstm(model.embed(IDS[i : i + 1, :n]), LENGTHS[i : i + 1])
        wanted = np.pad(looped(alone[0].detach().numpy(), n), (0, 6 - n))
        np.testing.assert_allclose(shares[i], wanted, atol=1e-12)
    assert not shares[3].any()


def test_shares_of_filters_leave_out_those_that_are_silent():
    torch.manual_seed(1)
    model = KimCNN(10, 2, embed=8, widths=[2, 3], filters=7).double().eval()
    shares = model.encoder.shares(Inputs(IDS, LENGTHS)).detach().numpy()
    x = model.embed(IDS).detach()
    silent = 0
    for i, n in enumerate(LENGTHS.tolist()[:3]):
        found, count = np.zeros(6), 0
        for width, layer in zip((2, 3), model.encoder.convolutions, strict=True):
            row = x[i].clone()
            row[n:] = 0
            answers = layer(row[: max(n, width)].T[None])[0].detach().numpy()  # (F, windows)
            for own in answers:
                silent += own.max() <= 0
                if own.max() > 0:
                    count += 1
                    inside = min(width, n)
                    found[own.argmax() : own.argmax() + inside] += 1 / inside
        np.testing.assert_allclose(shares[i], found / count, atol=1e-12)
    assert silent  # so that leaving them out was tested


def test_shares_add_up_to_one_and_padding_has_none():
    for model in (SWEM(10, 2, pool="hier"), BiLSTMPool(10, 2, hidden=9), KimCNN(10, 2)):
        shares = model.eval().encoder.shares(Inputs(IDS, LENGTHS))
        assert shares[:3].sum(1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
        there = torch.arange(6) < LENGTHS[:, None]
        assert not shares[:3].masked_fill(there[:3], 0).any()


def test_windows_share_what_they_gave():
    assert spread(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([2]), 4).tolist() == [
        [0, 0.5, 0.5, 0]
    ]


def test_means_and_other_tokens_have_no_shares():
    texts = [Inputs(IDS[:1], LENGTHS[:1])]
    assert pooled_words(SWEM(10, 2, pool="mean"), texts, [6]) == []
    assert pooled_words(SWEM(10, 2, pool="max"), texts, [5]) == []
    assert len(pooled_words(SWEM(10, 2, pool="max"), texts, [6])) == 1
    assert len(pooled_words(BiLSTMPair(10, 2, hidden=9), texts * 2, [6, 6])) == 2


def test_a_look_shades_the_words(tmp_path):
    model = {"name": "swem", "embed": 8, "pool": "max"}
    fitted(tmp_path, write(tmp_path / "data"), model, {"name": "classification"}, epochs=3)
    loaded = regard.load(tmp_path / "run")
    made = loaded.task.view(loaded, ["The film is awful."])
    (own,) = [one for one in made.maps if one.kind == "pooled"]
    assert made.axes[own.columns].texts == ["the", "film", "is", "awful", "."]
    assert own.weights.sum() == pytest.approx(1, abs=1e-3)
    assert own.what == "pooled"
    assert "not attention" in WHATS[own.what]
    titles = [panel.title for panel in made.runs[0].panels]
    assert titles == ["words by their share of the largest features", "probabilities"]


def test_a_look_at_a_pair_shades_both_texts(tmp_path):
    data = write(tmp_path / "data", make=pairs)
    model = {"name": "bilstm-pair", "embed": 8, "hidden": 6, "ffn_dim": 8}
    columns = {"premise": "a", "hypothesis": "b"}
    fitted(tmp_path, data, model, {"name": "entailment"}, epochs=1, columns=columns)
    loaded = regard.load(tmp_path / "run")
    made = loaded.task.view(loaded, ["w1 w2 w3 ||| w4 w5"])
    own = [one for one in made.maps if one.kind == "pooled"]
    assert [len(made.axes[one.columns].texts) for one in own] == [3, 2]
