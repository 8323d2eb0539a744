"""What is no length, no id and no number; and half precision at its ends."""

import pytest
import torch

from regard.attention import (
    Additive,
    Attention,
    Block,
    Causal,
    Dense,
    Documents,
    Edges,
    Entmax15,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    Hard,
    Lengths,
    MultiHead,
    NegativeSquaredEuclidean,
    OverQueries,
    Pointer,
    RelativeKeys,
    Sharpen,
    Softmax,
    Sparsemax,
    WeightedSum,
    Window,
    attend,
    kernels,
)
from regard.errors import RequestError

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.nohook  # the hook refuses wrong dtypes in its own words
@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        (torch.tensor([True, False]), "integers, got bool; a bool mask of keys is given as mask"),
        (torch.tensor([1.0, 2.0]), r"integers, got float32; lengths.long\(\) rounds down"),
        (torch.tensor([3, -1]), "lengths of 0 or more, got -1"),
        ([3, 2], r"a tensor of integers, got list; give torch.tensor\(lengths\)"),
    ],
)
def test_lengths(lengths, said):
    with pytest.raises(RequestError, match=said):
        Lengths(lengths)


@pytest.mark.parametrize(
    "kind", [lambda x: x, lambda x: x & Causal(), lambda x: ~x, lambda x: x | Causal()]
)
@pytest.mark.parametrize("kernel", ["reference", "sdpa"])
def test_lengths_beyond_the_keys(kind, kernel):
    mask = kind(Lengths(torch.tensor([5, 6])))
    with kernels(kernel), pytest.raises(RequestError, match="at most 5 keys, got 6"):
        attend(X, X, mask=mask)
    with pytest.raises(RequestError, match="at most 5 keys, got 6"):
        MultiHead(8, 2)(X, X, mask=mask)
    attend(X, torch.cat([X, X], 1), mask=mask)


@pytest.mark.parametrize("lengths", [torch.tensor([5, 6]), Lengths(torch.tensor([5, 6]))])
def test_a_memory_is_refused_when_it_is_made(lengths):
    for layer in (Attention(Additive(8, 8, 4)), MultiHead(8, 2)):
        with pytest.raises(RequestError, match="at most 5 keys, got 6"):
            layer.remember(X, mask=lengths)


def test_what_a_decoder_does_to_lengths_looks_at_no_number(monkeypatch):
    """A step pays nothing: rows, beams, heads and devices keep what was seen once."""
    mask = Lengths(torch.tensor([5, 3]))
    monkeypatch.setattr(torch, "aminmax", lambda x: pytest.fail("it looked again"))
    index = torch.tensor([1, 0, 1])
    for other in (mask.rows(index), mask.select(index), mask.over_heads(1), mask.to("cpu")):
        assert isinstance(other, Lengths)
        with pytest.raises(RequestError, match="at most 4 keys, got 5"):
            other.check_shape(1, 4)
    assert mask.rows(index).lengths.tolist() == [3, 5, 3]


@pytest.mark.parametrize("select", [Sparsemax(), Entmax15(), OverQueries(Sparsemax())])
def test_not_a_number_stays_in_its_row(select):
    query = X.clone()
    query[0, 1, 2] = torch.nan
    context = attend(query, X, select=select).context
    rows = context.isnan().any(-1)
    expected = torch.zeros_like(rows)
    if isinstance(select, OverQueries):
        expected[0] = True
    else:
        expected[0, 1] = True
        clean = attend(X, X, select=select).context
        torch.testing.assert_close(context[~rows], clean[~rows])
    assert torch.equal(rows, expected)


@pytest.mark.parametrize("shape", [(0, 5, 8), (2, 0, 8), (0, 0, 8)])
@pytest.mark.parametrize("score", [None, lambda: Additive(4, 4, 4), lambda: RelativeKeys(4, 2)])
def test_an_empty_batch_of_heads(shape, score):
    layer = MultiHead(8, 2, None if score is None else Attention(score()))
    x = torch.zeros(shape, requires_grad=True)
    lengths = torch.zeros(shape[0], dtype=torch.int64)
    for mask in (None, Lengths(lengths)):
        found = layer(x, x, mask=mask, need_weights=True)
        assert found.context.shape == shape
        assert found.weights.shape == (shape[0], 2, shape[1], shape[1])
        found.context.sum().backward()


@pytest.mark.nohook
def test_ids_of_edges_are_whole_numbers():
    with pytest.raises(RequestError, match=r"integers \(2, edge\), got float32 \(2, 2\)"):
        Edges.of(torch.tensor([[0.7, 1.0], [1.0, 0.0]]), 2)
    with pytest.raises(RequestError, match="got bool"):
        Edges.of(torch.ones(2, 2).bool(), 2)


@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("select", [Softmax(1e-4), Sharpen(1e4), OverQueries(Softmax(1e-4))])
def test_sharp_softmaxes_in_half_precision(select, masked, need_weights, learnt):
    x = (4 * X).half().requires_grad_(learnt)  # scores of more than 6.5, over 1e-4
    mask = Lengths(torch.tensor([5, 0])) if masked else None
    found = attend(x, x, select=select, mask=mask, need_weights=need_weights)
    expected = attend(x.double(), x.double(), select=select, mask=mask)
    assert found.context.dtype == torch.float16
    torch.testing.assert_close(found.context.double(), expected.context, atol=2e-3, rtol=2e-3)
    if learnt:
        found.context.sum().backward()
        assert x.grad.isfinite().all()


def test_other_temperatures_in_half_precision():
    x = X.half()
    pointed = attend(x, x, select=Softmax(1e-4), read=Pointer())
    assert pointed.context.isfinite().all()
    assert pointed.log_prob.isfinite().all()  # the lowest number, not minus infinity
    chosen = attend(x, x, select=Hard("argmax", temperature=1e-4))
    assert chosen.context.isfinite().all()
    assert chosen.log_prob.isfinite().all()
    wide = Attention(
        FeatureAdditive(8, 8, 8), select=FeatureSoftmax(1e-4), read=FeatureSum()
    ).half()
    assert wide(x, x).context.isfinite().all()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_squared_distances_in_half_precision(need_weights, learnt, autocast):
    """The square of 300 is no number of half precision."""
    x = torch.nn.functional.normalize(X, dim=-1) * 300
    x = x.half().float() if autocast else x.half()
    x.requires_grad_(learnt)
    score = NegativeSquaredEuclidean(1e-5)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        found = attend(x, x, score=score, need_weights=need_weights)
    expected = attend(x.double(), x.double(), score=score, need_weights=need_weights)
    torch.testing.assert_close(found.context.double(), expected.context, atol=0.3, rtol=2e-3)
    if learnt:
        found.context.sum().backward()
        assert x.grad.isfinite().all()


def test_dropped_weights_of_an_empty_batch():
    layer = MultiHead(8, 2, Attention(read=WeightedSum(0.5))).train()
    x = torch.zeros(0, 3, 8, requires_grad=True)
    layer(x, x).context.sum().backward()
    assert x.grad.shape == x.shape


OFF = torch.tensor([[0, 9], [2, 9], [2, 9], [3, 9], [4, 9]])[:, 0]
IDS = torch.tensor([[1, 9], [2, 9], [0, 9], [1, 9]])[:, 0]


@pytest.mark.parametrize("make", [
    lambda form: Edges(form(OFF), form(IDS)),
    lambda form: Lengths(form(OFF)[:3]),
    lambda form: Documents(form(IDS)),
    lambda form: Lengths(form(OFF)[:3]) & Documents(form(IDS).expand(3, 4)),
])  # fmt: skip
@pytest.mark.parametrize("score", [None, Additive(8, 8, 8)], ids=str)
def test_indices_that_do_not_lie_in_a_row(make, score):
    layer, x = Attention(score), torch.randn(3, 4, 8)
    found = layer(x, x, mask=make(lambda index: index)).context
    assert torch.equal(found, layer(x, x, mask=make(torch.clone)).context)
    at = torch.tensor([[0, 9], [1, 9], [2, 9]])[:, 0]
    found = layer(x, x, mask=Causal(), at=at).context
    assert torch.equal(found, layer(x, x, mask=Causal(), at=at.clone()).context)


PAIRS = torch.tensor([[1, 2, 0], [0, 0, 2]])


@pytest.mark.nohook
@pytest.mark.parametrize(("make", "said"), [
    (lambda: Edges.of(PAIRS.T, 3), r"pairs \(2, edge\), got \(3, 2\); pairs.T turns it round"),
    (lambda: Edges.of(PAIRS[:1], 3), r"got \(1, 3\); sources first, then targets"),
    (lambda: Edges.of(PAIRS.numpy(), 3), r"tensor of integers \(2, edge\), got ndarray; torch.as_"),
    (lambda: Edges.of(PAIRS.tolist(), 3), "got list; torch.as_tensor"),
    (lambda: Edges.of(PAIRS, -1), "nodes of 0 or more, got -1"),
    (lambda: Edges(OFF.numpy(), IDS), r"expected offsets as a tensor of integers \(Q \+ 1\)"),
    (lambda: Edges(OFF, IDS.float()), "expected sources as integers"),
    (lambda: Edges(OFF[:, None], IDS), r"got \(5, 1\) and \(4,\)"),
    (lambda: Edges.from_dense(PAIRS), r"bool matrix .* got int64 \(2, 3\); for an adjacency"),
    (lambda: Documents([0, 1]), "tensor of integers .* got list"),
    (lambda: Documents(IDS.float()), "got float32"),
    (lambda: Dense(torch.ones(4, 4)), "bool tensor .* got torch.float32"),
    (lambda: Window(1.5), "left as a whole number, got 1.5"),
    (lambda: Block("2"), "size as a whole number, got '2'"),
    (lambda: attend(IDS[:, None] * 1.0, IDS[:, None] * 1.0, at=1.5), "at, .* as an int.* got 1.5"),
    (lambda: attend(IDS[:, None] * 1.0, IDS[:, None] * 1.0, at=IDS * 1.0), "at, .* got float32"),
])  # fmt: skip
def test_masks_and_positions_of_other_kinds(make, said):
    with pytest.raises(RequestError, match=said):
        make()
