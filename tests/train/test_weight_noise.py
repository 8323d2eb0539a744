"""Noise on weights, fixed and learned, and limits of columns."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import RequestError
from regard.layers.embed import Embed
from regard.recipe.train_section import NoiseSettings
from regard.train import engine
from regard.train.checkpoints import load_checkpoint, weights_of
from regard.train.micro_batches import Micro, Place
from regard.train.weight_noise import limit_columns
from tests.train.test_parts import Micros, Scores, _work

LEARNED = NoiseSettings(deviation=0.3, cost=0.1, lr=0.1)


class Kept(Scores):
    """Notes the weights of every validation."""

    def __init__(self, count):
        super().__init__([1.0] * count)
        self.seen = []

    def __call__(self, model, device, precision):
        self.seen.append(model.weight.detach().clone())
        return super().__call__(model, device, precision)


def run(folder, steps=6, kept=None, task=None, **settings):
    given = {} if task is None else {"task": task}
    work = _work(folder, steps=steps, **given, **settings)
    work.validation = kept
    engine.run(work, Micros(work))
    work.log.close()
    return work


def test_a_step_reads_noisy_weights_and_changes_clean_ones(tmp_path):
    """The gradient of w² at w + ε is 2 (w + ε): the update says what the noise was."""
    seen = []

    def loss(model, batch):
        seen.append(model.weight.detach().clone())
        return (model.weight**2).sum(), 1

    plain = _work(tmp_path / "a", steps=1)
    plain.log.close()
    clean = plain.model.weight.detach().clone()
    work = run(tmp_path / "b", 1, task=loss, weight_noise=NoiseSettings(deviation=0.5))
    assert (seen[0] - clean).abs().min() > 1e-3
    np.testing.assert_allclose(
        work.model.weight.detach(), clean - 0.1 * 2 * seen[0], rtol=1e-5, atol=1e-6
    )


def test_noise_has_its_size(tmp_path):
    seen = []

    def loss(model, batch):
        seen.append(model.weight.detach().clone())
        return 0 * model(batch).sum(), 1

    work = run(tmp_path, 150, task=loss, weight_noise=NoiseSettings(deviation=0.5), log=0)
    drawn = torch.stack(seen) - work.model.weight.detach()
    assert float(drawn.std()) == pytest.approx(0.5, rel=0.12)
    assert abs(float(drawn.mean())) < 0.1


@pytest.mark.parametrize("noise", [NoiseSettings(deviation=0.2), LEARNED])
def test_what_is_validated_and_saved_is_clean_and_resuming_is_exact(tmp_path, noise):
    kept = Kept(3)
    whole = run(tmp_path / "whole", kept=kept, weight_noise=noise)
    file = load_checkpoint(tmp_path / "whole" / "checkpoints" / "last.ckpt")
    assert torch.equal(file["model"]["weight"], whole.model.weight)
    assert torch.equal(kept.seen[-1], whole.model.weight)
    run(tmp_path / "parts", 4, kept=Kept(2), weight_noise=noise)
    parts = run(tmp_path / "parts", kept=Kept(1), weight_noise=noise)
    for name, value in weights_of(whole.model).items():
        assert torch.equal(value, weights_of(parts.model)[name])
    for name, log in whole.noise.logs.items():
        assert torch.equal(log, parts.noise.logs[name])
    assert bool(whole.noise.logs) == (noise is LEARNED)


def test_learned_deviations_follow_the_divergence_from_the_best_prior(tmp_path):
    """Without a loss, gradients are those of c/N KL(N(μ, σ²) || N(mean μ, …)) by autograd."""
    work = _work(tmp_path, steps=1, weight_noise=LEARNED)
    work.log.close()
    noise, model = work.noise, work.model
    micro = Micro(torch.ones(1, 2), 4, Place(0, 1), 0.0, 0.25)
    with torch.no_grad():
        noise.logs["weight"].copy_(torch.tensor([[-1.0, -2.0]]))
    means = torch.cat([w.detach().flatten() for w in weights_of(model).values()]).double()
    logs = torch.cat([log.detach().flatten() for log in noise.logs.values()]).double()
    means, logs = means.requires_grad_(), logs.requires_grad_()
    spread = (2 * logs).exp() + (means - means.mean()) ** 2
    prior = spread.mean().detach()  # the best one: its own gradient is zero
    cost = (0.5 * prior.log() - logs + (spread - prior) / (2 * prior)).sum() * LEARNED.cost / 16
    cost.backward()
    noise.put(model, 0, micro)
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
    noise.take(model)
    found = torch.cat([w.grad.flatten() for w in weights_of(model).values()])
    np.testing.assert_allclose(found, means.grad, rtol=1e-4, atol=1e-8)
    found = torch.cat([log.grad.flatten() for log in noise.logs.values()])
    np.testing.assert_allclose(found, logs.grad, rtol=1e-4, atol=1e-8)


def test_a_weight_that_matters_learns_less_noise(tmp_path):
    def loss(model, batch):
        weight = model.weight[0]
        return 100 * (weight[0] - 1) ** 2 + 0 * weight[1], 1

    settings = {"optimizer": {"name": "sgd", "lr": 1e-3}, "log": 0}
    work = run(tmp_path, 150, task=loss, weight_noise=LEARNED, **settings)
    matters, idle = work.noise.logs["weight"].detach()[0].exp().tolist()
    assert matters < 0.2 * idle


def test_a_cost_needs_a_deviation_to_start_from(tmp_path):
    with pytest.raises(RequestError, match=r"deviation above 0"):
        _work(tmp_path, steps=1, weight_noise=NoiseSettings(cost=0.1))


def test_columns_are_limited_and_word_vectors_are_not(tmp_path):
    model = nn.Sequential(Embed(5, 4), nn.Linear(4, 3), nn.Conv1d(1, 2, 7))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(20)
        model[1].weight[0] = torch.tensor([0.1, 0.2, 0.0, 0.3])
    before = {n: w.detach().numpy().copy() for n, w in model.named_parameters()}
    limit_columns(model, 1.5)
    for name, now in model.named_parameters():
        was, limited = before[name], name in ("1.weight", "2.weight")
        if limited:
            norms = np.sqrt((was.reshape(len(was), -1) ** 2).sum(1))
            was = was * np.minimum(1, 1.5 / norms).reshape(-1, *[1] * (was.ndim - 1))
            assert norms.max() > 1.5
        np.testing.assert_allclose(now.detach(), was, rtol=1e-5)
    work = run(tmp_path, max_column_norm=0.1)
    assert float(work.model.weight.detach().norm()) <= 0.1 * (1 + 1e-5)
