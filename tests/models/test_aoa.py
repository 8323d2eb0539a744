"""Both readers against their equations in NumPy, and what makes attention over attention itself."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import Lengths, OverQueries, attend
from regard.attention.read import Pointer
from regard.attention.score import Dot
from regard.errors import RequestError
from regard.models.aoa import AoA
from regard.models.as_reader import ASReader
from tests.models.slow import numbers, shaken, sigmoid, softmax, thirds

V = 12


def gru(p, path, xs, reset):
    """The states of a GRU with the reset gate before or behind the product, one row."""
    w, b, u = p[f"{path}.input.weight"], p[f"{path}.input.bias"], p[f"{path}.recurrent.weight"]
    (wr, wz, wn), (br, bz, bn), (ur, uz, un) = thirds(w), np.split(b, 3), thirds(u)
    h, states = np.zeros(u.shape[1]), []
    for x in xs:
        r, z = sigmoid(wr @ x + br + ur @ h), sigmoid(wz @ x + bz + uz @ h)
        gated = un @ (r * h) if reset == "before" else r * (un @ h)
        h = z * h + (1 - z) * np.tanh(wn @ x + bn + gated)
        states.append(h)
    return np.array(states)


def both_ways(p, path, ids, reset):
    xs = p["embed.weight"][ids]
    ahead, back = gru(p, f"{path}.ahead", xs, reset), gru(p, f"{path}.back", xs[::-1], reset)[::-1]
    return np.concatenate([ahead, back], 1), np.concatenate([ahead[-1], back[0]])


def slow_aoa(d, q, summary):
    m = d @ q.T
    alpha = np.stack([softmax(m[:, j]) for j in range(len(q))], 1)
    beta = np.stack([softmax(m[i]) for i in range(len(d))])
    return alpha @ beta.mean(0)


def slow_as(d, q, summary):
    return softmax(d @ summary)


def batch():
    generator = torch.Generator().manual_seed(3)
    document = torch.randint(4, V, (3, 7), generator=generator)
    query = torch.randint(4, V, (3, 4), generator=generator)
    lengths, query_lengths = torch.tensor([7, 5, 1]), torch.tensor([2, 4, 1])
    for row in range(3):
        document[row, lengths[row] :] = 0
        query[row, query_lengths[row] :] = 0
    return document, query, lengths, query_lengths


@pytest.mark.parametrize(("made", "slow"), [(AoA, slow_aoa), (ASReader, slow_as)])
@pytest.mark.parametrize("pointers", [1, 2])
@pytest.mark.parametrize("reset", ["before", "after"])
def test_a_reader_is_its_equations(made, slow, pointers, reset):
    torch.manual_seed(1)
    settings = {} if reset == "before" else {"reset": reset}  # as printed by default
    model = shaken(made(V, pointers, embed=5, hidden=3, **settings))
    document, query, lengths, query_lengths = batch()
    found = model(document, query).logits.exp().detach().numpy().reshape(3, pointers, 7)
    p = numbers(model)
    for row in range(3):
        d, _ = both_ways(p, "document", document[row, : lengths[row]].numpy(), reset)
        q, summary = both_ways(p, "query", query[row, : query_lengths[row]].numpy(), reset)
        for k in range(pointers):
            keys = d @ p[f"pointers.{k}.project.weight"].T if pointers > 1 else d
            expected = slow(keys, q, summary)
            np.testing.assert_allclose(found[row, k, : lengths[row]], expected, atol=1e-12)
            assert not found[row, k, lengths[row] :].any()


def test_a_matrix_made_by_hand():
    """M = [[1, 0], [2, 3]], by hand: columns over the document, rows over the query."""
    m = torch.tensor([[[1.0, 0.0], [2.0, 3.0]]], dtype=torch.float64)
    query, key = torch.eye(2, dtype=torch.float64)[None], m
    alpha = attend(query, key, score=Dot(), read=Pointer(), need_weights=True).weights[0]
    beta = attend(query, key, score=Dot(), select=OverQueries(), need_weights=True).weights[0]
    e = np.exp
    a = np.array([[1 / (1 + e(1)), 1 / (1 + e(3))], [e(1) / (1 + e(1)), e(3) / (1 + e(3))]])
    b = np.array([[e(1) / (1 + e(1)), 1 / (1 + e(1))], [1 / (1 + e(1)), e(1) / (1 + e(1))]])
    np.testing.assert_allclose(alpha.numpy().T, a, atol=1e-6)
    np.testing.assert_allclose(beta.numpy().T, b, atol=1e-6)
    s = a @ b.mean(0)
    assert s.sum() == pytest.approx(1)
    from regard.models.aoa import attended

    words = torch.ones(1, 2, dtype=torch.bool)
    found = attended(alpha.log()[None], beta[None], torch.tensor([2]), words)
    np.testing.assert_allclose(found.exp()[0].numpy(), s, atol=1e-6)


def test_transposing_the_scores_swaps_the_two_attentions():
    torch.manual_seed(2)
    d, q = torch.randn(1, 5, 4).double(), torch.randn(1, 3, 4).double()
    over_document = attend(q, d, score=Dot(), read=Pointer(), need_weights=True).weights
    turned = attend(d, q, score=Dot(), select=OverQueries(), need_weights=True).weights
    assert torch.allclose(over_document, turned.mT)


def test_the_two_selections_cannot_be_swapped_unnoticed():
    """With the axes exchanged s still adds up to 1, but is another one."""
    torch.manual_seed(2)
    pointer = AoA(V, embed=5, hidden=3).pointers[0]
    d, q = torch.randn(1, 5, 4).double(), torch.randn(1, 3, 4).double()
    read = (d, q, torch.tensor([5]), torch.tensor([3]), q[:, 0])
    found = pointer(read).exp()[0].numpy()
    m = (d @ q.mT)[0].numpy()
    over_document = np.exp(m) / np.exp(m).sum(0)
    over_query = np.exp(m) / np.exp(m).sum(1, keepdims=True)
    np.testing.assert_allclose(found, over_document @ over_query.mean(0), atol=1e-12)
    swapped = over_query @ over_document.mean(0)
    assert np.abs(found - swapped / swapped.sum()).max() > 1e-3
    # What is watched is named after the axis it adds up along.
    with watch(pointer) as seen:
        pointer(read)
    np.testing.assert_allclose(seen["document"].weights[0].numpy().T, over_document, atol=1e-12)
    np.testing.assert_allclose(seen["query"].weights[0].numpy().T, over_query, atol=1e-12)


def test_recurrent_matrices_start_orthogonal_and_word_vectors_within_a_twentieth():
    model = AoA(V, embed=5, hidden=3)
    assert model.embed.weight.abs().max() <= 0.05
    for block in model.document.ahead.recurrent.weight.chunk(3):
        torch.testing.assert_close(block @ block.T, torch.eye(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("made", [AoA, ASReader])
def test_empty_documents_and_queries_are_harmless(made):
    torch.manual_seed(1)
    model = made(V, embed=5, hidden=3)
    document, query, _, _ = batch()
    document[1], query[2] = 0, 0
    logs = model(document, query).logits
    assert (logs[1] == -torch.inf).all()
    logs[logs.isfinite()].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_what_is_seen():
    """Both ways and the attended attention, and the last is the answer."""
    torch.manual_seed(1)
    model = AoA(V, embed=5, hidden=3).double().eval()
    document, query, lengths, query_lengths = batch()
    with watch(model) as seen:
        logs = model(document, query, lengths, query_lengths).logits
    alpha, beta, s = (seen[f"pointers.0.{k}"].weights for k in ("document", "query", "attended"))
    assert torch.allclose(s[:, 0], logs.exp())
    mean = beta.sum(-1) / lengths[:, None]
    assert torch.allclose((alpha * mean[..., None]).sum(1), s[:, 0])
    words = torch.arange(4) < query_lengths[:, None]
    assert not beta.masked_select(~words[..., None]).any()
    real = Lengths(lengths).dense(4, 7, at=0, device=s.device)
    assert torch.allclose(beta.sum(1), real[:, 0].double())


def test_how_many_parameters():
    """The fact sheet's 984,576 of a pair of directions at 384 and 256."""
    for made in (AoA, ASReader):
        model = made(20)
        for side in (model.document, model.query):
            assert sum(p.numel() for p in side.parameters()) == 984_576
        assert sum(p.numel() for p in model.parameters()) == 2 * 984_576 + 20 * 384
    assert sum(p.numel() for p in AoA(119_662).embed.parameters()) == 45_950_208
    assert len(list(AoA(20, shared=True).parameters())) < len(list(AoA(20).parameters()))


def test_a_reader_needs_a_pointer():
    with pytest.raises(RequestError, match="expected 1 pointer or more, got 0"):
        AoA(V, 0)


def triples(count, generator):
    """8 triples (entity, relation, filler); which entity has that relation?"""
    entity = torch.stack([torch.randperm(10, generator=generator)[:8] for _ in range(count)])
    relation = torch.stack([torch.randperm(10, generator=generator)[:8] for _ in range(count)])
    filler = torch.randint(24, 30, (count, 8), generator=generator)
    document = torch.stack([entity + 4, relation + 14, filler], 2).flatten(1)
    asked = torch.randint(8, (count, 1), generator=generator)
    noise = torch.randint(24, 30, (count, 2), generator=generator)
    blank = torch.full((count, 1), 30)
    query = torch.cat([noise[:, :1], blank, relation.gather(1, asked) + 14, noise[:, 1:]], 1)
    return document, query, 3 * asked[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("made", [AoA, ASReader])
def test_the_fact_sheets_small_check(made):
    """Near 100 % in 800 updates; with the axes of the two softmaxes exchanged, nothing is left.

    Which word of the query β trusts is not checked: a bidirectional GRU takes the relation to any.
    """
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model = made(31, embed=32, hidden=32, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(800):
        document, query, right = triples(64, generator)
        loss = -model(document, query).logits.gather(1, right[:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    document, query, right = triples(500, generator)
    with watch(model) as seen, torch.no_grad():
        logs = model.eval()(document, query).logits
    assert (logs.argmax(1) == right).double().mean() > 0.97
    if made is AoA:
        alpha, beta = (seen[f"pointers.0.{k}"].weights for k in ("document", "query"))
        flipped = (beta * alpha.mean(-1, keepdim=True)).sum(1)
        assert torch.allclose(flipped, torch.full_like(flipped, 1 / 24), atol=1e-5)
