import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.train.averaging import Average, Last, average
from regard.train.checkpoints import (
    load_weights,
    replace_file,
    save_weights,
    set_weights,
    weights_of,
)
from regard.train.random_state import random_state, set_random_state


class Tied(nn.Module):
    """Two names for one matrix, and a counter that is no float."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5, bias=False)
        self.output.weight = self.embedding.weight
        self.register_buffer("steps", torch.tensor(0))


def test_the_average_of_files_is_the_mean(tmp_path):
    values = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    files = []
    for number, value in enumerate(values):
        files.append(tmp_path / f"step-{number}.safetensors")
        weights = {"w": torch.from_numpy(value), "steps": torch.tensor(number)}
        save_weights(files[-1], weights)
    found = average(files)
    expected = values.astype(np.float64).mean(0).astype(np.float32)
    np.testing.assert_array_equal(found["w"].numpy(), expected)
    assert found["steps"] == 3  # of the last file


def test_the_average_of_copies_is_the_identity(tmp_path):
    model = Tied()
    last = Last(tmp_path, keep=3)
    for step in (10, 20, 30, 40):
        last.save(model, step)
    last.prune(40)
    assert [f.stem[-2:] for f in last.files()] == ["20", "30", "40"]
    assert [f.stem[-2:] for f in last.files(until=30)] == ["20", "30"]
    for name, tensor in average(last.files()).items():
        torch.testing.assert_close(tensor, weights_of(model)[name], rtol=0, atol=0)


def test_the_moving_average_is_its_sum():
    model, decay = Tied(), 0.7
    history = [model.embedding.weight.detach().double().clone()]
    moving = Average(model, decay)
    for step in range(1, 5):
        with torch.no_grad():
            model.embedding.weight.add_(torch.randn(5, 3))
            model.steps.fill_(step)
        moving.update(model)
        history.append(model.embedding.weight.detach().double().clone())
    # d^n w_0 + (1 - d) sum_k d^(n-k) w_k, in float64
    n = len(history) - 1
    expected = decay**n * history[0]
    for k in range(1, n + 1):
        expected = expected + (1 - decay) * decay ** (n - k) * history[k]
    torch.testing.assert_close(
        moving.weights["embedding.weight"].double(), expected, rtol=1e-5, atol=1e-6
    )
    assert moving.weights["steps"] == 4


def test_tied_weights_are_saved_once_and_stay_tied(tmp_path):
    model, other = Tied(), Tied()
    save_weights(tmp_path / "w.safetensors", weights_of(model))
    loaded = load_weights(tmp_path / "w.safetensors")
    assert sorted(loaded) == ["embedding.weight", "steps"]
    set_weights(other, loaded)
    assert other.output.weight is other.embedding.weight
    assert torch.equal(other.output.weight, model.embedding.weight)


def test_random_numbers_go_on_where_they_were():
    import random

    def draw() -> list[float]:
        return [random.random(), np.random.random(), float(torch.rand(()))]  # noqa: NPY002

    kept = random_state()
    first = draw()
    assert draw() != first
    set_random_state(kept)
    assert draw() == first


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def half(beside):
        beside.write_text("ne")
        raise OSError("disk full")

    with pytest.raises(RegardError, match="file: could not be written: disk full"):
        replace_file(path, half)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
