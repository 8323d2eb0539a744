"""The two BiLSTM-CRFs against their equations in NumPy, and the probability of every tagging."""

import itertools
import math

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.layers.crf import Chain, log_partition
from regard.models.bilstm_crf import BiLSTMCRF
from regard.models.deep_bilstm_crf import DeepBiLSTMCRF
from regard.protocols import Inputs
from tests.models.slow import count, numbers, shaken
from tests.models.tagged import affine, close, lstm_states, rows, tagged


def spelled(source, seed=7):
    """The same sentences with characters, two further columns, and a word without characters."""
    g = torch.Generator().manual_seed(seed)
    shape, real = source.values.shape, source.values != 0
    sizes = torch.randint(1, 6, shape, generator=g) * real
    sizes[0, 2] = 0
    letters = torch.randint(4, 9, (*shape, 5), generator=g)
    letters *= torch.arange(5) < sizes[..., None]
    letters[0, 3] = letters[0, 1]  # a word that occurs twice
    features = torch.randint(1, 7, (*shape, 2), generator=g)
    return Inputs(
        source.values, source.lengths,
        {**source.extras, "characters": letters, "features": features},
    )  # fmt: skip


def word(p, letters):
    """The last state of each direction."""
    xs = [p["letters.embed.weight"][c] for c in letters if c]
    if not xs:
        return np.zeros(2 * p["letters.lstm.ahead.stack.weight_hh_l0"].shape[1])
    ahead, back = (
        lstm_states(p, "letters.lstm.ahead", xs),
        lstm_states(p, "letters.lstm.back", xs, True),
    )
    return np.concatenate([ahead[-1], back[0]])


def emissions(p, ids, extras):
    xs = []
    for t, i in enumerate(ids):
        x = [p["embed.weight"][i]]
        if "letters.embed.weight" in p:
            x.append(word(p, extras["characters"][t]))
        if "feature.weight" in p:
            x += [p["feature.weight"][f] for f in extras["features"][t]]
        if "mark.weight" in p:
            x.append(p["mark.weight"][extras["marks"][t]])
        xs.append(np.concatenate(x))
    both = lstm_states(p, "lstm.ahead", xs), lstm_states(p, "lstm.back", xs, True)
    hs = [np.concatenate(pair) for pair in zip(*both, strict=True)]
    if "hidden.weight" in p:
        hs = [np.tanh(affine(p, "hidden", h)) for h in hs]
    return [affine(p, "output", h) for h in hs]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ffn_dim": None},
        {"num_characters": 9},
        {"num_features": 7, "feature_columns": 2},
        {"num_characters": 9, "num_features": 7, "feature_columns": 2, "marks": True},
    ],
)
def test_it_computes_the_papers_equations(changes):
    torch.manual_seed(1)
    sizes = {"embed": 4, "character": 3, "character_hidden": 2, "feature": 3, "mark": 2}
    net = shaken(BiLSTMCRF(12, 5, **{**sizes, "hidden": 4, "ffn_dim": 6, **changes}))
    source = spelled(tagged())
    p, found = numbers(net), net(source)
    for row, size, ids, extras in rows(source):
        close(found.logits[row, :size], emissions(p, ids, extras))
        assert not found.logits[row, size:].any()
    for name in ("transitions", "start", "end"):
        assert torch.equal(found.extra[name], getattr(net.chain, name))


def test_words_may_have_no_characters():
    torch.manual_seed(1)
    net = shaken(BiLSTMCRF(12, 5, 9, embed=4, hidden=4, ffn_dim=None))
    source = spelled(tagged())
    letters = source.extras["characters"]
    results = [
        net(Inputs(source.values, source.lengths, {"characters": given})).logits
        for given in (letters * 0, letters[..., :0], letters)
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_probabilities_of_all_taggings_add_up():
    torch.manual_seed(1)
    net = shaken(BiLSTMCRF(12, 3, embed=4, hidden=4, ffn_dim=None))
    output = net(torch.tensor([[4, 7, 5, 9]]))
    e = output.logits[0].detach().numpy()
    a, b, end = (output.extra[n].detach().numpy() for n in ("transitions", "start", "end"))
    total = 0.0
    for y in itertools.product(range(3), repeat=4):
        score = b[y[0]] + end[y[-1]] + sum(e[t, k] for t, k in enumerate(y))
        total += math.exp(score + sum(a[i, j] for i, j in itertools.pairwise(y)))
    found = log_partition(output.logits, Chain(**output.extra), torch.tensor([4]))
    assert abs(found.item() - math.log(total)) < 1e-10


def test_the_sizes():
    """Lample et al.: 100 + 2 * 25 numbers of a word; 100 cells of each direction; tanh of 100."""
    lstm = 2 * (400 * (150 + 100) + 800)
    letters = 85 * 25 + 2 * (100 * (25 + 25) + 200)
    rest = 200 * 100 + 100 + 100 * 17 + 17 + 17 * 17 + 2 * 17
    assert count(BiLSTMCRF, 1000, 17, 85) == 100_000 + lstm + letters + rest
    first = (7 * 32 + 5) * 128 + 128
    others = 7 * (256 * 128 + 128)
    cells = 8 * (512 * 256 + 1024)
    top = 256 * 105 + 105 + 105 * 105 + 2 * 105
    assert count(DeepBiLSTMCRF, 1000, 105) == 32_000 + 2 * 5 + first + others + cells + top


def deep(p, ids, marks, layers):
    def vector(t):
        inside = at is not None and 0 <= t < len(ids)
        return p["embed.weight"][ids[t]] if inside else np.zeros(p["embed.weight"].shape[1])

    at = marks.tolist().index(1) if 1 in marks else None
    xs = []
    for t, i in enumerate(ids):
        around = [vector(-9 if at is None else at + k) for k in range(-2, 3)]
        near = int(at is not None and abs(t - at) <= 2)
        x = [p["embed.weight"][i], around[2], *around, p["mark.weight"][near]]
        xs.append(np.concatenate(x))
    for layer in range(layers):
        zs = [affine(p, f"project.{layer}", x) for x in xs]
        hs = lstm_states(p, f"layers.{layer}", zs, layer % 2 == 1)
        xs = [np.concatenate(pair) for pair in zip(zs, hs, strict=True)]
    return [affine(p, "output", x) for x in xs]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("predicate", ["middle", "first", "last", "none", "two"])
def test_the_deep_one_computes_the_papers_equations(layers, predicate):
    torch.manual_seed(1)
    net = shaken(DeepBiLSTMCRF(12, 5, embed=3, mark=2, hidden=4, layers=layers))
    source = tagged(lengths=(8, 3, 1))
    places, ends = torch.arange(8), source.lengths[:, None]
    chosen = {
        "middle": places == ends // 2,
        "first": (places == 0) & (ends > 0),
        "last": places == ends - 1,
        "none": (places < 0) & (ends > 0),
        "two": ((places == 1) | (places == 4)) & (ends > 0),
    }
    source = Inputs(source.values, source.lengths, {"marks": chosen[predicate].long()})
    p, found = numbers(net), net(source).logits
    for row, size, ids, extras in rows(source):
        close(found[row, :size], deep(p, ids, extras["marks"], layers))


def test_what_does_not_fit_is_said():
    with pytest.raises(RequestError, match="num_features=7 and feature_columns=0"):
        BiLSTMCRF(9, 3, 0, 7)
    with pytest.raises(RequestError, match="odd number of words around the predicate"):
        DeepBiLSTMCRF(9, 3, window=4)
