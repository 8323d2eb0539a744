"""The mixture of experts' translator: its attention, its penalty, its size."""

import numpy as np
import pytest
import torch

from regard import tasks
from regard.attention import watch
from regard.errors import RequestError
from regard.models.moe import MoE
from tests.contract.battery import build, mixed
from tests.models import slow
from tests.tasks.test_risk import batch_of

SIZES = {
    "dim": 4,
    "hidden": 6,
    "experts": 4,
    "k": 2,
    "expert_hidden": 5,
    "align": 3,
    "dropout": 0.0,
}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(MoE(12, 13, **{**SIZES, **changes}))


def test_its_attention_is_the_papers_product():
    """A(x, y) = Σ_d V_d tanh(x U)_d tanh(y W)_d."""
    net = model()
    source, lengths, target = slow.ragged()
    states = net.encode(source, lengths).states.detach().numpy()
    with watch(net) as seen:
        decoding = net.start(net.encode(source, lengths))
        for t in range(3):
            asking = decoding.carried["h"][:, 0, 0].detach().numpy()
            _, decoding = net.step(target[:, t : t + 1], decoding)
            p = slow.numbers(net)
            for row, n in enumerate(lengths.tolist()):
                y = np.tanh(p["query.weight"] @ asking[row])
                energy = []
                for x in states[row, :n]:
                    u = np.tanh(p["key.weight"] @ x)
                    energy.append(sum(p["v"][d] * u[d] * y[d] for d in range(3)))
                found = seen["attention"].steps[t][row, 0, :n].detach()
                np.testing.assert_allclose(found, slow.softmax(np.array(energy)), atol=1e-10)


def test_every_layer_adds_to_its_input():
    """Layers that say nothing leave a word as it is, up to the experts' sigmoid of 0."""
    net = model()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if "weight_hr" in name or name.endswith("experts.out"):
                weight.zero_()
    source, lengths, _ = slow.ragged()
    found = net.encode(source, lengths).states
    torch.testing.assert_close(found[0], net.embed_source(source)[0] + 0.5)


def test_the_penalty_counts_while_training_alone():
    model, batch = build("moe"), batch_of(mixed())
    task = tasks.load("translation")()
    assert not model(batch.source, batch.target_in).extra
    _, count = task.loss(model, batch)
    model.train()
    torch.manual_seed(5)
    output = model(batch.source, batch.target_in, batch.source_lengths)
    torch.manual_seed(5)
    total, _ = task.training_loss(model, batch, 0)
    torch.manual_seed(5)
    without, _ = task.loss(model, batch)
    penalty = float(output.extra["penalty"])
    assert penalty > 0
    assert float(total) == pytest.approx(float(without) + penalty * count)


def test_the_papers_sizes_come_to_its_8_7_billion_parameters():
    found = slow.count(MoE, 32_000, 32_000)
    assert found == pytest.approx(8.7e9, rel=0.01)
    small = slow.count(MoE, 32_000, 32_000, experts=4)
    assert found - small == 2 * 2044 * (2 * 512 * 2048 + 2 * 512)


def test_fewer_cells_than_features_are_refused():
    with pytest.raises(RequestError, match="dim=4 cells or more, got 3"):
        MoE(12, 13, **{**SIZES, "hidden": 3})
