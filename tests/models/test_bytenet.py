"""ByteNet against its equations in NumPy, its receptive field and its dynamic unfolding."""

import math

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.models.bytenet import ByteNet, Convolution
from tests.models import slow

SIZES = {"dim": 4, "dilations": (1, 2), "sets": 1, "ratio": 1.2, "extra": 1}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(ByteNet(12, 13, **{**SIZES, **changes}))


def norm(p, path, x):
    mean, var = x.mean(), x.var()
    return (x - mean) / np.sqrt(var + 1e-6) * p[f"{path}.weight"] + p[f"{path}.bias"]


def relu(x):
    return np.maximum(x, 0)


def linear(p, path, x):
    return p[f"{path}.weight"] @ x + p[f"{path}.bias"]


def block(p, path, rows, dilation, ahead):
    """One residual block over a sequence, place by place; places outside are zero."""
    inner = [
        relu(
            norm(
                p, f"{path}.norm", linear(p, f"{path}.down", relu(norm(p, f"{path}.norm_down", x)))
            )
        )
        for x in rows
    ]
    out = []
    for t, x in enumerate(rows):
        seen = []
        for j in range(3):
            place = t - (2 - j) * dilation + (dilation if ahead else 0)
            seen.append(inner[place] if 0 <= place < len(rows) else np.zeros_like(inner[0]))
        convolved = linear(p, f"{path}.convolution.product", np.concatenate(seen))
        out.append(x + linear(p, f"{path}.up", relu(norm(p, f"{path}.norm_up", convolved))))
    return out


def by_hand(net, sentence, target, extra=1):
    p = slow.numbers(net)
    columns = max(math.ceil(1.2 * len(sentence) - 1e-9) + extra, len(sentence))
    rows = [p["embed_source.weight"][i] for i in sentence]
    rows += [np.zeros(8)] * (columns - len(sentence))
    for i, dilation in enumerate((1, 2)):
        rows = block(p, f"encoder.{i}", rows, dilation, ahead=True)
    z = [
        p["embed_target.weight"][y] + (rows[t] if t < len(rows) else 0)
        for t, y in enumerate(target)
    ]
    for i, dilation in enumerate((1, 2)):
        z = block(p, f"decoder.{i}", z, dilation, ahead=False)
    last = [relu(linear(p, "last", relu(norm(p, "norm", x)))) for x in z]
    return np.stack([linear(p, "output", x) for x in last])


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize(("kernel", "dilations"), [(3, (1, 2, 4)), (5, (1, 3)), (3, (2, 2))])
def test_the_receptive_field_is_1_plus_the_sum_of_k_minus_1_times_r(kernel, dilations):
    """The fact sheet's check, for both stacks: seen by what a gradient reaches."""
    field = 1 + sum((kernel - 1) * r for r in dilations)
    net = model(kernel=kernel, dilations=dilations, ratio=1.0, extra=0)
    middle, time = field + 2, 2 * field + 5
    for stack, reach in ((net.decoder, (field - 1, 0)), (net.encoder, ((field - 1) // 2,) * 2)):
        x = torch.randn(1, time, 8, dtype=torch.float64, requires_grad=True)
        y = x
        for one in stack:
            both = stack is net.encoder
            y = one(y, inside=torch.ones(1, time, 1).double()) if both else one(y)
        (grad,) = torch.autograd.grad(y[0, middle].sum(), x)
        touched = grad[0].abs().sum(-1).nonzero()[:, 0]
        # dilations without a 1 leave holes; the outermost places are what counts
        assert (int(touched[0]), int(touched[-1])) == (middle - reach[0], middle + reach[1])


def test_the_papers_stack_reaches_373_places():
    """Six sets of 1, 2, 4, 8, 16 with k = 3: 1 + 6 * 2 * 31."""
    with torch.device("meta"):
        paper = ByteNet(323, 296)
    assert len(paper.encoder) == len(paper.decoder) == 30
    assert 1 + sum(one.convolution.reach for one in paper.decoder) == 373
    d, k = 800, 3
    norms = 2 * (2 * d + d + d)
    one = norms + (2 * d * d + d) + (k * d * d + d) + (2 * d * d + 2 * d)
    expected = 60 * one + (323 + 296) * 2 * d + 4 * d + (4 * d * d + 2 * d) + 296 * (2 * d + 1)
    assert slow.count(ByteNet, 323, 296) == expected


def test_it_unfolds_to_a_times_the_source_and_writes_on_behind_it():
    net = model(ratio=1.2, extra=0)
    assert net.unfolded(torch.tensor([1, 5, 10, 11])).tolist() == [2, 6, 12, 14]
    assert model(ratio=0.5).unfolded(torch.tensor([10])).tolist() == [10]  # never cut short
    source, lengths = torch.tensor([[5, 6, 7, 2]]), torch.tensor([4])
    assert net.encode(source, lengths).states.shape == (1, 5, 8)
    long = torch.randint(4, 13, (1, 9), generator=torch.Generator().manual_seed(1))
    long[0, 0] = 1
    logits = net(source, long, lengths).logits
    expected = by_hand(net, [5, 6, 7, 2], long[0].tolist(), extra=0)
    np.testing.assert_allclose(logits[0].detach().numpy(), expected, atol=1e-10)


def test_a_convolution_is_torchs():
    torch.manual_seed(2)
    ours = Convolution(4, 3, 2).double()
    theirs = torch.nn.Conv1d(4, 4, 3, dilation=2).double()
    with torch.no_grad():
        theirs.weight.copy_(ours.product.weight.view(4, 3, 4).transpose(1, 2))
        theirs.bias.copy_(ours.product.bias)
    x = torch.randn(2, 7, 4).double()
    for both, sides in ((False, (4, 0)), (True, (2, 2))):
        wide = torch.nn.functional.pad(x.transpose(1, 2), sides)
        torch.testing.assert_close(ours(x, both=both), theirs(wide).transpose(1, 2))


def test_an_even_kernel_is_refused():
    with pytest.raises(RequestError, match="odd number of places, got 4"):
        ByteNet(12, 13, kernel=4)
