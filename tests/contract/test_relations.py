"""What every classifier of relations keeps to: padding, neighbors, learning, copies, bf16."""

import copy
import io
import pickle

import pytest
import torch
from torch.nn import functional as F

from regard import catalog, watch
from regard.protocols import PAD, Inputs, RelationClassifier
from tests.contract.battery import SIZE, attentions, check_constructor
from tests.contract.test_watch import check_sums, select_of

RELATIONS, NAMES = 3, 5
CASES = {
    **{name: (name, {}) for name in catalog.names("relations")},
    "bran, multihead": ("bran", {"attention": "multihead"}),
    "bran, no attention": ("bran", {"attention": "none"}),
    "bran, as released": ("bran", {"connection": "none", "dim": 16}),
    "bran, told of pairs": (
        "bran",
        {"num_features": 4, "num_cues": 9, "distances": 3, "embed": 5, "cue_dropout": 0.0},
    ),
}
every = pytest.mark.parametrize(("kind", "settings"), CASES.values(), ids=CASES.keys())
by_heart = pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if case[1] else ())
        for name, case in CASES.items()
    ],
)


def build(kind, settings, dtype=torch.float64, seed=1, **changes):
    torch.manual_seed(seed)
    tiny = {**catalog.entry(kind).tiny, **settings, **changes}
    return catalog.load(kind)(SIZE, RELATIONS, NAMES, **tiny).to(dtype).eval()


def documents(lengths=(9, 4, 1, 12), seed=4):
    """Documents whose concept k has the places k and k + 3, as far as there are some."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, SIZE, (len(lengths), max(lengths)), generator=generator)
    sizes = torch.tensor(lengths)
    ids = ids.masked_fill(torch.arange(ids.shape[1]) >= sizes[:, None], PAD)
    places = torch.arange(6).expand(len(lengths), -1)
    there = places < sizes[:, None]
    entities = (places % 3).masked_fill(~there, -1)
    pairs = torch.tensor([[0, 1], [2, 1]]).expand(len(lengths), -1, 2)
    pairs = pairs.masked_fill((sizes < 4)[:, None, None], -1)
    extras = {"places": places.masked_fill(~there, -1), "entities": entities, "pairs": pairs}
    extras["features"] = torch.randn(len(lengths), 2, 4, generator=generator)
    extras["cues"] = torch.randint(-1, 9, (len(lengths), 2, 12), generator=generator)
    return Inputs(ids, sizes, extras)


def loss_of(model, given):
    output = model(given)
    labels = torch.arange(len(output.logits)) % RELATIONS
    names = output.extra["names"]
    inside = torch.arange(names.shape[1]) < given.lengths[:, None]
    tags = given.values % NAMES
    return F.cross_entropy(output.logits.float(), labels) + F.cross_entropy(
        names[inside].float(), tags[inside]
    )


@every
def test_shapes_and_protocol(kind, settings):
    model, given = build(kind, settings), documents()
    check_constructor(kind, ["vocab_size", "num_relations", "num_names"])
    assert isinstance(model, RelationClassifier)
    output = model(given)
    assert output.logits.shape == (6, RELATIONS)
    assert output.extra["names"].shape == (4, 12, NAMES)
    assert output.logits.dtype == torch.float64


@every
def test_gradients_reach_every_parameter(kind, settings):
    model = build(kind, settings, max_length=12).train()
    loss_of(model, documents()).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path
    assert not model.embed.weight.grad[PAD].any()


@every
def test_padding_and_neighbors_change_nothing(kind, settings):
    model, given = build(kind, settings), documents()
    expected = model(given)
    wide = F.pad(given.values, (0, 3))
    rubbish = wide.masked_fill(torch.arange(15) >= given.lengths[:, None], 7)
    more = {
        "places": F.pad(given.extras["places"], (0, 2), value=-1),
        "entities": F.pad(given.extras["entities"], (0, 2), value=-1),
        "pairs": F.pad(given.extras["pairs"], (0, 0, 0, 2), value=-1),
        "features": F.pad(given.extras["features"], (0, 0, 0, 2), value=3.0),
        "cues": F.pad(given.extras["cues"], (0, 3, 0, 2), value=-1),
    }
    for ids, extras in ((wide, given.extras), (rubbish, given.extras), (rubbish, more)):
        found = model(Inputs(ids, given.lengths, extras))
        assert torch.allclose(found.logits, expected.logits, atol=1e-12, rtol=0)
    parts = []
    for row, size in enumerate(given.lengths.tolist()):
        alone = given.rows(torch.tensor([row]))
        found = model(Inputs(alone.values[:, :size], alone.lengths, alone.extras))
        parts.append(found.logits)
        names = expected.extra["names"][row, :size]
        assert torch.allclose(found.extra["names"][0], names, atol=1e-12, rtol=0)
    assert torch.allclose(torch.cat(parts), expected.logits, atol=1e-12, rtol=0)


@every
def test_the_order_of_places_and_of_pairs_changes_nothing(kind, settings):
    model, given = build(kind, settings), documents()
    expected = model(given).logits
    turned = {name: tensor.flip(1) for name, tensor in given.extras.items()}
    found = model(Inputs(given.values, given.lengths, turned)).logits
    assert torch.allclose(found.view(3, 2, -1).flip(1).flatten(0, 1), expected, atol=1e-12, rtol=0)


@every
def test_a_pair_sees_the_whole_document_through_attention(kind, settings):
    model, given = build(kind, settings), documents()
    expected = model(given).logits[-2:]
    ids = given.values.clone()
    ids[3, 11] = 4 + (ids[3, 11] - 3) % (SIZE - 4)
    changed = (model(Inputs(ids, given.lengths, given.extras)).logits[-2:] != expected).any()
    assert bool(changed) == (settings.get("attention") != "none")


@by_heart
def test_it_learns_documents_by_heart(kind, settings):
    model, given = build(kind, settings, torch.float32).train(), documents((9, 8, 7, 12))
    optimizer = torch.optim.Adam(model.parameters(), 0.01, fused=True)
    for _ in range(400):
        loss = loss_of(model, given)
        if loss.item() < 0.1:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@every
def test_copies_are_whole(kind, settings):
    model, given = build(kind, settings), documents()
    expected = model(given).logits
    assert torch.equal(copy.deepcopy(model)(given).logits, expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(given).logits, expected)
    other, buffer = build(kind, settings, seed=2), io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(other(given).logits, expected)


@every
def test_bf16(kind, settings):
    model, given = build(kind, settings, torch.float32), documents()
    exact = model(given).logits
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(given).logits
        loss_of(model.train(), given).backward()
    assert torch.allclose(rough.float(), exact, atol=0.1, rtol=0.1)
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@every
def test_watching_changes_nothing_and_weights_add_up(kind, settings):
    model, given = build(kind, settings), documents()
    expected = model(given).logits
    layers = attentions(model)
    with watch(model) as seen:
        found = model(given).logits
    assert torch.allclose(found, expected, atol=1e-12, rtol=0)
    assert set(seen) == set(layers)
    for path, record in seen.items():
        assert record.role == "self"
        check_sums(record.weights, select_of(layers[path]).sums)
        for row, size in enumerate(given.lengths.tolist()):
            assert not record.weights[row, ..., size:].any()
