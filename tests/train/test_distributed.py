"""Several processes see what one sees that accumulates as much: the same loss curve."""

import math

import pytest

from tests.train.runs import losses, recipe, run


def test_two_gloo_processes_give_the_losses_of_one(tmp_path):
    """DDP under torchrun, fp32, no dropout; losses are divided by the tokens of the whole step."""
    alone = tmp_path / "alone"
    run(recipe(tmp_path, dropout=0.0, steps=40, accumulate=4), alone)
    together = tmp_path / "together"
    run(recipe(tmp_path, dropout=0.0, steps=40, accumulate=2), together, processes=2)
    one, two = losses(alone), losses(together)
    assert sorted(one) == sorted(two) == list(range(1, 41))
    for step in one:
        assert math.isclose(one[step], two[step], rel_tol=1e-5), step
    assert one[40] < one[1] - 0.5  # and it learns
    assert (together / "model.safetensors").is_file()


@pytest.mark.slow
def test_fsdp_gives_the_losses_of_one(tmp_path):
    """Sharded weights, two gloo processes on the CPU."""
    alone = tmp_path / "alone"
    run(recipe(tmp_path, dropout=0.0, steps=20, accumulate=2), alone)
    path = recipe(tmp_path, dropout=0.0, steps=20)
    path.write_text(path.read_text().replace("log: 1", "log: 1\n  strategy: fsdp"))
    together = tmp_path / "together"
    run(path, together, processes=2)
    one, two = losses(alone), losses(together)
    for step in one:
        assert math.isclose(one[step], two[step], rel_tol=1e-5), step
