"""Sharded weights: the gradients of whole ones, and everything whole where it is saved."""

import copy

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from regard import catalog
from regard.optim import optimizers
from regard.train import sharding
from regard.train.averaging import Average
from regard.train.checkpoints import weights_of


@pytest.fixture
def mesh():
    """One process that is a group: everything happens but the talking."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def tiny(name):
    torch.manual_seed(1)
    return catalog.load(name)(11, 11, **catalog.entry(name).tiny).eval()


def step(model, optimizer):
    source, target = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 4], [1, 9]])
    loss = model(source, target).logits.square().mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item(), sharding.whole(norm).item()


ALIKE = {
    "luong",
    "rnn-encoder-decoder",
    "marian",
    "gnmt",
    "deep-att",
    "lstm-a",
    "pointer-generator",
    "conditional-gru",
    "paulus",
}
"""Made of the layers of other models: slow tests."""


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")  # nothing works in place on logits
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ())
        for name in catalog.names("translation")
    ],
)
def test_every_model_can_be_sharded_and_learns_the_same(mesh, name):
    model, plain = tiny(name), tiny(name)
    section = {"name": "adam", "lr": 0.01}
    of_plain = optimizers.build(section, plain.parameters())
    optimizer = optimizers.build(section, model.parameters())
    for one, its in ((plain, of_plain), (model, optimizer)):  # so there are moments to cut up
        step(one, its)
    trained = sharding.sharded(model, optimizer, mesh)
    assert all(isinstance(p, DTensor) for p in trained.parameters())
    for _ in range(3):
        assert step(trained, optimizer) == pytest.approx(step(plain, of_plain), rel=1e-5)
    sharding.copy_weights(trained, model)
    for key, tensor in weights_of(plain).items():
        assert not isinstance(weights_of(model)[key], DTensor)
        if key.endswith("key.bias"):
            continue  # a softmax does not see it: Adam divides its rounding by itself
        torch.testing.assert_close(weights_of(model)[key], tensor, rtol=1e-4, atol=1e-6)
    # The state of the optimizer is as if nothing had been sharded.
    expected, got = of_plain.state_dict(), sharding.whole(optimizer.state_dict())
    assert expected["param_groups"] == got["param_groups"]
    for key, values in expected["state"].items():
        for part, tensor in values.items():
            assert not isinstance(got["state"][key][part], DTensor)
            torch.testing.assert_close(got["state"][key][part], tensor, rtol=1e-3, atol=1e-7)


def test_layers_are_let_go_one_by_one(mesh):
    model = tiny("transformer")
    trained = sharding.sharded(model, optimizers.build({"lr": 0.1}, model.parameters()), mesh)
    kinds = {type(layer).__name__ for layer in (*trained.encoder, *trained.decoder, trained)}
    assert kinds == {"FSDPEncoderLayer", "FSDPDecoderLayer", "FSDPTransformer"}
    assert type(model).__name__ == "Transformer"


def test_a_moving_average_of_shards(mesh):
    model = tiny("transformer")
    before = {key: tensor.clone() for key, tensor in weights_of(model).items()}
    average = Average(model, 0.9)
    trained = sharding.sharded(model, optimizers.build({"lr": 0.1}, model.parameters()), mesh)
    now = weights_of(trained)
    average.weights = {key: sharding.like(t, now[key]) for key, t in average.weights.items()}
    with torch.no_grad():
        for tensor in trained.parameters():
            tensor.add_(1.0)
    average.update(trained)
    for key, tensor in sharding.whole(average.weights).items():
        torch.testing.assert_close(tensor, before[key] + 0.1)


def test_whole_leaves_alone_what_is_whole_and_can_be_told_to_keep_nothing(mesh):
    plain = torch.arange(3.0)
    tree = {"a": [plain, 1], "b": ("x", sharding.distribute_tensor(plain, mesh))}
    assert sharding.whole(tree)["a"][0] is plain
    assert sharding.whole(tree)["b"][1].tolist() == [0.0, 1.0, 2.0]
    assert sharding.whole(copy.copy(tree), keep=False)["b"] == ("x", None)
