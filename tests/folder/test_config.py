"""Folders of an earlier format give the answers that they gave."""

import inspect
import json
import shutil
from pathlib import Path

import pytest
import torch

from regard import catalog, loading
from regard.decode import Beam
from regard.errors import RequestError
from regard.folder import places, reading, writing
from regard.folder.config import _STEPS, upgrade
from regard.models.transformer import PositionSettings, Transformer
from tests.folder import toy

pytestmark = pytest.mark.usefixtures("steps_by_pytorch")


def config(**model):
    return {"format": 1, "model": model, "task": {"name": "x"}, "decode": {}, "weights": {}}


def test_there_is_a_step_for_every_earlier_format():
    assert len(_STEPS) == reading.FORMAT - 1


@pytest.mark.parametrize("name", ["aoa", "as-reader"])
def test_readers_had_their_reset_gate_behind_the_product(name):
    assert upgrade(config(name=name))["model"]["reset"] == "after"
    assert upgrade(config(name=name, reset="before"))["model"]["reset"] == "before"
    today = {**config(name=name), "format": reading.FORMAT}
    assert upgrade(today) is today


def test_an_even_window_had_one_place_more():
    """Vaswani et al. (2017), section 4: r positions. It was r / 2 on either side, and the own."""
    for said in (4, 5):
        found = upgrade(config(name="transformer", window=said))["model"]
        assert found == {"name": "transformer", "attention": {"window": 5}}
    assert upgrade(config(name="transformer"))["model"] == {"name": "transformer"}
    torch.manual_seed(0)
    layer = Transformer(9, 9, dim=8, heads=2, layers=1, ffn_dim=8, attention={"window": 5}).encoder[
        0
    ]
    mask = layer.self_attention.attention.mask
    assert mask.dense(9, 9, at=0, device=torch.device("cpu"))[4].sum() == 5


def test_a_folder_of_the_first_format_is_read(tmp_path):
    folder = toy.make(tmp_path / "old")
    assert json.loads((folder / "config.json").read_text())["format"] == reading.FORMAT
    expected = loading.load(folder).predict(["a dog"])[0].output
    for made in (1, None):
        toy.edit(folder, format=made)
        assert loading.load(folder).predict(["a dog"])[0].output == expected
    for wrong in (0, reading.FORMAT + 1, "2", True):
        toy.edit(folder, format=wrong)
        with pytest.raises(RequestError, match=f"has format {wrong}"):
            loading.load(folder)


LATER = {
    "abs",
    "lstmn-lm",
    "bran",
    "arsg",
    "show-attend-tell",
    "temporal",
    "ctc",
    *catalog.names("classification"),
    *catalog.names("images"),
    *catalog.names("entailment"),
    *catalog.names("tagging"),
}
"""Models that no folder of format 2 has."""


@pytest.mark.parametrize("name", [name for name in catalog.names() if name not in LATER])
def test_every_model_had_a_source_and_a_target(name):
    model = {"name": name, "source": 9, "target": 9, **catalog.entry(name).tiny}
    found = upgrade({**config(**model), "format": 2})["model"]
    count = 1 if name == "memn2n-lm" else 2
    sizes = list(inspect.signature(catalog.load(name)).parameters)[:count]
    assert {"source", "target"} & set(found) == set()
    assert [found[size] for size in sizes] == [9] * len(sizes)
    del found["name"]
    assert catalog.load(name)(**found) is not None


def test_a_shipped_folder_of_the_first_format_is_read(tmp_path):
    """`format_1.json` is what the translator's `config.json` was; it keeps the names of its day."""
    folder = shutil.copytree(places.find("de-en-small"), tmp_path / "old")
    own = json.loads((folder / "config.json").read_text())
    plain = json.loads((Path(__file__).parent / "format_1.json").read_text())
    (folder / "config.json").write_text(json.dumps({**plain, "weights": own["weights"]}))
    assert plain["format"] == 1
    assert (plain["model"]["hidden"], plain["model"]["source"]) == (768, 8000)
    loaded = loading.load(folder)
    today = loaded.config["model"]
    assert (today["ffn_dim"], today["source_vocab_size"]) == (768, 8000)
    assert not {"hidden", "source", "target"} & set(today)
    assert plain["decode"] == {"name": "beam", "size": 5, "length": 1.0}
    assert loaded.config["decode"] == {"name": "beam", "beam_size": 5, "length_penalty": 1.0}
    assert loaded.decoder == Beam(5, length_penalty=1.0)
    assert plain["data"]["tokenizer"]["size"] == 8000
    assert loaded.config["data"]["tokenizer"] == {"kind": "bpe", "vocab_size": 8000, "shared": True}
    assert loaded.model.encoder[0].feedforward.into.out_features == 768
    text = "Die Datei wird gespeichert."
    assert loaded.translate(text) == loading.load("de-en-small").translate(text)


def test_a_folder_of_format_3_has_the_settings_of_a_transformer_in_one_section(tmp_path):
    """Its weights and answers are the same; `follow` was a switch."""
    changes = {"position": {"kind": "shaw", "clip": 3}, "attention": {"window": 4, "dropout": 0.1}}
    name, words = "following-transformer", toy.tokenizers(shared=True)
    model = toy.model_of(name, words, **changes)
    folder = writing.save_pretrained(
        tmp_path / "old", model, task={"name": "parsing"}, fields=words,
        recipe=toy.recipe(name, **changes),
    )  # fmt: skip
    expected = loading.load(folder)
    config = expected.config["model"]
    old = {k: v for k, v in config.items() if k not in changes} | {"name": "transformer"}
    old |= {"positions": "shaw", "clip": 3, "window": 4, "attention_dropout": 0.1, "follow": True}
    toy.edit(folder, format=3, model=old)
    found = loading.load(folder)
    assert found.config["model"] == config
    assert type(found.model) is type(expected.model)
    assert found.predict(["a dog"])[0].as_json() == expected.predict(["a dog"])[0].as_json()


def test_keywords_of_earlier_versions_are_taken_and_named_anew():
    with pytest.warns(DeprecationWarning, match=r"clip is now called position\.clip"):
        old = Transformer(9, 9, dim=8, heads=2, layers=1, ffn_dim=8, clip=3, positions="shaw")
    assert old.encoder[0].self_attention.attention.score.table.shape[1] == 7
    with pytest.raises(RequestError, match=r"clip is now position\.clip, and there is a position"):
        Transformer(9, 9, dim=8, heads=2, clip=3, position=PositionSettings(kind="shaw"))


@pytest.mark.parametrize("name", ["transformer", "rnnsearch"])
def test_a_folder_with_the_names_of_format_2_gives_the_same_answers(name, tmp_path):
    folder = toy.make(tmp_path / "old", name)
    expected = loading.load(folder).predict(["a dog"])[0].as_json()
    path = folder / "config.json"
    old = json.loads(path.read_text())
    was = {"source_vocab_size": "source", "target_vocab_size": "target", "ffn_dim": "hidden"}
    old["model"] = {was.get(key, key): value for key, value in old["model"].items()}
    old["decode"] = {"name": "beam", "size": 3, "max_length": 8}
    old["data"]["tokenizer"] = {"source": {"size": 80}, "target": {"size": 70}}
    path.write_text(json.dumps({**old, "format": 2}))
    sides = {"source": {"vocab_size": 80}, "target": {"vocab_size": 70}}
    assert loading.load(folder).config["data"]["tokenizer"] == sides
    assert loading.load(folder).predict(["a dog"])[0].as_json() == expected


def test_a_folder_without_data_is_read_and_one_with_a_list_refused(tmp_path):
    folder = toy.make(tmp_path / "made")
    toy.edit(folder, data=None)
    assert loading.load(folder).predict(["a dog"])
    toy.edit(folder, data=[1])
    with pytest.raises(
        RequestError, match=r"config\.json: expected an object under 'data', got \[1\]"
    ):
        loading.load(folder)
