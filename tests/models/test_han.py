"""The hierarchical attention network against its equations in NumPy."""

import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models import han
from regard.models.han import HAN
from regard.protocols import Inputs
from tests.models.slow import count, numbers, shaken, sigmoid, softmax, thirds

SIZES = {"embed": 5, "hidden": 3, "context": 4}


def model(**changes):
    torch.manual_seed(1)
    return shaken(HAN(12, 5, **{**SIZES, **changes}))


def gru(p, path, xs):
    """As printed: the reset gate is inside of the candidate, and z takes the new."""
    (w_r, w_z, w_h), (b_r, b_z, b_h), (u_r, u_z, u_h) = (
        thirds(p[f"{path}.{name}"]) for name in ("input.weight", "input.bias", "recurrent.weight")
    )
    h, states = np.zeros(len(u_r)), []
    for x in xs:
        r = sigmoid(w_r @ x + u_r @ h + b_r)
        z = sigmoid(w_z @ x + u_z @ h + b_z)
        new = np.tanh(w_h @ x + r * (u_h @ h) + b_h)
        h = (1 - z) * h + z * new
        states.append(h)
    return np.array(states)


def level(p, path, xs, read):
    ahead, back = gru(p, f"{path}.gru.ahead", xs), gru(p, f"{path}.gru.back", xs[::-1])[::-1]
    h = np.concatenate([ahead, back], 1)
    if read == "max":
        return h.max(0), None
    weights = np.full(len(h), 1 / len(h))
    if read == "attention":
        u = np.tanh(h @ p[f"{path}.read.key.weight"].T + p[f"{path}.read.key.bias"])
        weights = softmax(u @ p[f"{path}.read.context"])
    return weights @ h, weights


DOCUMENTS = [[[5, 9, 4, 7], [8], [6, 6]], [[11, 4]], [[7, 5], [4, 8, 9]]]


def batch():
    ids = torch.zeros(3, 3, 4, dtype=torch.int64)
    for i, document in enumerate(DOCUMENTS):
        for j, sentence in enumerate(document):
            ids[i, j, : len(sentence)] = torch.tensor(sentence)
    return ids


@pytest.mark.parametrize("read", ["attention", "mean", "max"])
def test_it_computes_the_papers_equations(read):
    net = model(read=read)
    p = numbers(net)
    with watch(net) as seen:
        logits = net(Inputs(batch(), torch.tensor([3, 1, 2]))).logits.detach().numpy()
    row = 0
    for i, document in enumerate(DOCUMENTS):
        sentences = []
        for sentence in document:
            s, weights = level(p, "words", p["embed.weight"][sentence], read)
            sentences.append(s)
            if read != "max":
                found = seen["words.read.attention"].weights[row, 0].detach().numpy()
                np.testing.assert_allclose(found[: len(sentence)], weights, atol=1e-12)
            row += 1
        v, weights = level(p, "sentences", np.array(sentences), read)
        expected = p["output.weight"] @ v + p["output.bias"]
        np.testing.assert_allclose(logits[i], expected, atol=1e-10)
        if read != "max":
            found = seen["sentences.read.attention"].weights[i, 0].detach().numpy()
            np.testing.assert_allclose(found[: len(document)], weights, atol=1e-12)


def test_the_papers_sizes():
    with torch.device("meta"):
        net = HAN(20, 5)
    assert sum(p.numel() for p in net.words.parameters()) == 85_500
    assert sum(p.numel() for p in net.sentences.parameters()) == 55_500
    assert count(HAN, 20, 5) == 141_505 + 20 * 200
    for read in ("mean", "max"):  # no parameters of its own: 2 (100 x 100 + 100 + 100) fewer
        assert count(HAN, 20, 5, read=read) == 141_505 - 20_400 + 20 * 200


def test_sentences_read_in_several_parts_give_the_same(monkeypatch):
    generator = torch.Generator().manual_seed(2)
    words = torch.tensor([[40, 3, 0, 2], [1, 17, 4, 2], [5, 0, 0, 0]])
    ids = torch.randint(4, 12, (3, 4, 40), generator=generator)
    given = Inputs(ids, torch.tensor([4, 4, 1]), {"words": words})
    net = model()
    expected = net(given).logits
    monkeypatch.setattr(han, "AREA", 8)
    with watch(net) as seen:
        again = net(given).logits
    record = seen["words.read.attention"]
    assert [len(rows["example"]) for rows in record.rows] == [3, 5]
    pairs = [
        (d, s, int((w[0] > 0).sum()))
        for step, rows in zip(record.steps, record.rows, strict=True)
        for d, s, w in zip(rows["example"].tolist(), rows["sentence"].tolist(), step, strict=True)
    ]
    assert sorted(pairs) == [(d, s, words[d, s]) for d, s in words.nonzero().tolist()]
    torch.testing.assert_close(again, expected, atol=1e-12, rtol=0)
    gradients = []
    for area in (8, 1 << 16):
        monkeypatch.setattr(han, "AREA", area)
        net.zero_grad()
        net(given).logits.square().sum().backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


LONG = """
import resource, torch
from regard.models.han import HAN
from regard.protocols import Inputs
torch.set_num_threads(1)
net = HAN(20_000, 5)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
def document(*words):
    ids = torch.zeros(1, len(words), max(words), dtype=torch.int64)
    for i, n in enumerate(words): ids[0, i, :n] = 5
    return Inputs(ids)
before = peak()
for words in ([20] * 250, [5000], [4000] + [1] * 1000):
    net(document(*words)).logits.sum().backward()
with torch.no_grad():
    for words in ([20] * 2500, [50_000], [40_000] + [10] * 1000):
        assert net(document(*words)).logits.isfinite().all()
print(peak() - before)
"""


@pytest.mark.slow
def test_long_documents_need_little_memory():
    """5,000 words are trained on and 50,000 predicted in 1 GB; the last one's ids take 0.32 GB."""
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=True)
    print(done.stdout, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime)
    assert float(done.stdout) < 1.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"read": "maximum"}, "HAN has no read 'maximum': "),
        ({"read": "men"}, "HAN has no read 'men': did you mean 'mean'"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(RequestError, match=said):
        HAN(12, 5, **{**SIZES, **wrong})


@pytest.mark.parametrize("source", [torch.zeros(2, 3), torch.ones(1, 2, 3, 4, dtype=torch.int64)])
def test_only_ids_are_read(source):
    with pytest.raises(RequestError, match="expected documents as ids"):
        model()(source)
