"""Folders of an earlier format give the answers that they gave."""

import json

import pytest
import torch

from regard import store
from regard._upgrade import _STEPS, upgrade
from regard.errors import RequestError
from regard.models.transformer import Transformer
from tests.store import toy


def config(**model):
    return {"format": 1, "model": model, "task": {"name": "x"}, "decode": {}, "weights": {}}


def test_there_is_a_step_for_every_earlier_format():
    assert len(_STEPS) == store.FORMAT - 1


@pytest.mark.parametrize("name", ["aoa", "as-reader"])
def test_readers_had_their_reset_gate_behind_the_product(name):
    assert upgrade(config(name=name))["model"]["reset"] == "after"
    assert upgrade(config(name=name, reset="before"))["model"]["reset"] == "before"
    today = {**config(name=name), "format": store.FORMAT}
    assert upgrade(today) is today


def test_an_even_window_had_one_place_more():
    """Vaswani et al. (2017), section 4: r positions. It was r / 2 on either side, and the own."""
    assert upgrade(config(name="transformer", window=4))["model"]["window"] == 5
    assert upgrade(config(name="transformer", window=5))["model"]["window"] == 5
    assert "window" not in upgrade(config(name="transformer"))["model"]
    torch.manual_seed(0)
    layer = Transformer(9, 9, dim=8, heads=2, layers=1, hidden=8, window=5).encoder[0]
    mask = layer.self_attention.attention.mask
    assert mask.dense(9, 9, at=0, device=torch.device("cpu"))[4].sum() == 5


def test_a_folder_of_the_first_format_is_read(tmp_path):
    folder = toy.make(tmp_path / "old")
    assert json.loads((folder / "config.json").read_text())["format"] == store.FORMAT
    expected = store.load(folder).predict(["a dog"])[0].output
    for made in (1, None):
        toy.edit(folder, format=made)
        assert store.load(folder).predict(["a dog"])[0].output == expected
    for wrong in (0, store.FORMAT + 1, "2", True):
        toy.edit(folder, format=wrong)
        with pytest.raises(RequestError, match=f"has format {wrong}"):
            store.load(folder)
