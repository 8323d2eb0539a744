"""What every model of nodes must do, whatever the paper."""

import copy
import pickle

import pytest
import torch
from torch.nn import functional as F

from regard import catalog, watch
from regard.attention import Edges
from regard.protocols import NodeClassifier

NODES, FEATURES, CLASSES = 9, 6, 3
every = pytest.mark.parametrize(
    "kind", [name for name in catalog.names() if "graphs" in catalog.entry(name).tasks]
)


def build(kind, dtype=torch.float64):
    torch.manual_seed(3)
    model = catalog.load(kind)(FEATURES, CLASSES, **catalog.entry(kind).tiny)
    return model.to(dtype).eval()


def graph():
    """A ring, and a node 8 that nobody knows."""
    torch.manual_seed(4)
    around = torch.arange(8)
    pairs = torch.stack([torch.cat([around, around]), torch.cat([(around + 1) % 8, around - 1])])
    return torch.randn(NODES, FEATURES).double(), Edges.of(pairs % 8, NODES, loops=True)


@every
def test_shapes_and_protocol(kind):
    model, (features, edges) = build(kind), graph()
    assert isinstance(model, NodeClassifier)
    logits = model(features, edges).logits
    assert logits.shape == (NODES, CLASSES)
    assert torch.isfinite(logits).all()


@every
def test_gradients_reach_every_parameter(kind):
    model, (features, edges) = build(kind), graph()
    model(features, edges).logits.square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@every
def test_a_node_sees_so_far_and_no_farther(kind):
    model, (features, edges) = build(kind), graph()
    expected = model(features, edges).logits
    far = (model.depth + 1) % 8
    assert far == model.depth + 1  # on the ring: one edge beyond what node 0 sees
    changed = features.clone()
    changed[far] += 1.0
    found = model(changed, edges).logits
    assert torch.allclose(found[0], expected[0])
    assert not torch.allclose(found[far], expected[far])
    assert torch.allclose(found[8], expected[8])


@every
def test_nine_nodes_are_learned_by_heart(kind):
    model, (features, edges) = build(kind).train(), graph()
    labels = torch.arange(NODES) % CLASSES
    optimizer = torch.optim.Adam(model.parameters(), 0.05, fused=True)
    for module in model.modules():
        for rate in ("dropout", "attention_dropout", "p"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features, edges).logits, labels)
        if loss.item() < 0.4:
            break
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.4


@every
def test_copies_and_saved_weights(kind):
    model, (features, edges) = build(kind), graph()
    expected = model(features, edges).logits
    assert torch.equal(copy.deepcopy(model)(features, edges).logits, expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(features, edges).logits, expected)
    other = catalog.load(kind)(FEATURES, CLASSES, **catalog.entry(kind).tiny).double().eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(features, edges).logits, expected)


@every
def test_bf16(kind):
    model, (features, edges) = build(kind, torch.float32), graph()
    exact = model(features.float(), edges).logits
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(features.float(), edges).logits
    assert torch.allclose(rough.float(), exact, atol=0.2, rtol=0.2)


@every
def test_watching_changes_nothing_and_weights_add_up(kind):
    model, (features, edges) = build(kind), graph()
    expected = model(features, edges).logits
    with watch(model) as seen:
        found = model(features, edges).logits
    assert torch.equal(found, expected)
    degrees = edges.offsets.diff()
    for record in seen.values():
        weights = record.steps[-1].reshape(-1, record.steps[-1].shape[-1])
        sums = torch.stack([row.sum() for row in weights[0].split(degrees.tolist())])
        assert torch.allclose(sums, torch.ones(NODES, dtype=sums.dtype))


@every
def test_bf16_trains(kind):
    model, (features, edges) = build(kind, torch.float32), graph()
    with torch.autocast("cpu", torch.bfloat16):
        model(features.float(), edges).logits.float().square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
