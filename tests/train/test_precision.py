"""`train.precision: auto` is what is faster on the device of the training."""

import pytest
import torch

from regard import recipe as recipes
from regard.recipe.train_section import Training
from regard.train import engine
from regard.train.building import build
from tests.train.runs import recipe


@pytest.mark.parametrize(("fast", "taken"), [(True, "bf16"), (False, "fp32")])
def test_a_processor_that_multiplies_in_bfloat16_does(monkeypatch, fast, taken):
    monkeypatch.setattr(engine, "bf16_is_fast", lambda: fast)
    assert engine.precision_of(Training(precision="auto", device="cpu")) == taken
    assert engine.precision_of(Training(precision="bf16", device="cpu")) == "bf16"
    assert engine.precision_of(Training(device="cpu")) == "fp32"


def test_other_devices(monkeypatch):
    monkeypatch.setattr(engine, "bf16_is_fast", lambda: True)
    monkeypatch.setattr(engine, "device_of", lambda settings: torch.device("mps"))
    assert engine.precision_of(Training(precision="auto")) == "fp32"


def test_a_training_knows_which(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "bf16_is_fast", lambda: True)
    found = recipes.load(str(recipe(tmp_path, steps=1)), ["train.precision=auto"]).check()
    assert build(found.plan()).settings.precision == "bf16"
