"""What the slow references of taggers share."""

import numpy as np
import torch

from regard.protocols import Inputs
from tests.models.slow import sigmoid


def tagged(vocabulary=12, lengths=(6, 3, 1), seed=12):
    """Sentences with marks, right-padded."""
    g = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(lengths)
    real = torch.arange(max(lengths)) < sizes[:, None]
    ids = torch.randint(4, vocabulary, real.shape, generator=g) * real
    marks = (torch.arange(max(lengths)) == (sizes // 2)[:, None]).long()
    return Inputs(ids, sizes, {"marks": marks})


def rows(source):
    """(words, extras) of each sentence without its padding, as lists and arrays."""
    for row, size in enumerate(source.lengths.tolist()):
        extras = {name: x[row, :size].numpy() for name, x in source.extras.items()}
        yield row, size, source.values[row, :size].numpy(), extras


def affine(p, path, x):
    return p[f"{path}.weight"] @ x + p.get(f"{path}.bias", 0.0)


def lstm_states(p, path, xs, backward=False):
    """PyTorch's cell with two biases, word by word: a state for each, in the order of xs."""
    w, u = p[f"{path}.stack.weight_ih_l0"], p[f"{path}.stack.weight_hh_l0"]
    b = p[f"{path}.stack.bias_ih_l0"] + p[f"{path}.stack.bias_hh_l0"]
    h = c = np.zeros(u.shape[1])
    states = []
    for x in reversed(xs) if backward else xs:
        i, f, g, o = np.split(w @ x + u @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return states[::-1] if backward else states


def close(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), np.array(expected), atol=1e-10)
