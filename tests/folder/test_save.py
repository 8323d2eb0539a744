"""What is written: whole or not at all, plain data, each weight once."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file

from regard import loading, recipe
from regard.errors import RegardError, RequestError
from regard.folder import card, reading
from tests.folder import toy


def test_a_folder_has_what_it_needs_and_no_more(tmp_path):
    toy.make(tmp_path / "one")
    names = {"README.md", "config.json", "metrics.json", "model.safetensors", "recipe.yaml"}
    assert {p.name for p in (tmp_path / "one").iterdir()} == names | {"tokenizer.json"}
    toy.make(tmp_path / "two", "rnnsearch")
    both = {"tokenizer.source.json", "tokenizer.target.json"}
    assert {p.name for p in (tmp_path / "two").iterdir()} == names | both


def test_a_dtype_says_how_large_the_file_is_and_all_are_read_back_as_float32(tmp_path):
    words = toy.tokenizers(shared=False)
    model = toy.model_of("luong", words)
    folders = {
        d: toy.make(tmp_path / d, "luong", model=model, dtype=d) for d in reading.weights.DTYPES
    }
    files = {d: (f / "model.safetensors").read_bytes() for d, f in folders.items()}
    sizes = {d: len(c) - 8 - int.from_bytes(c[:8], "little") for d, c in files.items()}  # no header
    count = sum(tensor.numel() for tensor in model.state_dict().values())
    matrices = [tensor for tensor in model.state_dict().values() if tensor.dim() > 1]
    rows, entries = sum(map(len, matrices)), sum(tensor.numel() for tensor in matrices)
    assert sizes["float32"] == 4 * count
    assert sizes["float16"] == 2 * count
    assert sizes["int8"] == entries + 4 * rows + 4 * (count - entries)
    assert sizes["int6"] == sizes["int7"] == sizes["int8"]
    for dtype in reading.weights.DTYPES:
        assert reading.weights.saved_size(model, dtype) == sizes[dtype]
    for dtype, folder in folders.items():
        loaded = loading.load(folder).model.state_dict()
        for name, tensor in model.state_dict().items():
            assert loaded[name].dtype == torch.float32
            assert torch.equal(loaded[name], slow_rounded(tensor, dtype)), (dtype, name)


def slow_rounded(tensor, dtype):
    """A row at a time."""
    if dtype not in ("int8", "int7", "int6"):
        return tensor.to(getattr(torch, dtype)).float()
    if tensor.dim() < 2:
        return tensor
    rows = []
    for row in tensor:
        step = row.abs().max().clamp_min(1e-30) / {"int8": 127, "int7": 63, "int6": 31}[dtype]
        rows.append((row / step).round() * step)
    return torch.stack(rows)


def test_bytes_are_within_half_a_step_of_the_weights(tmp_path):
    words = toy.tokenizers(shared=True)
    model = toy.model_of("transformer", words)
    with torch.no_grad():
        model.encoder[0].feedforward.into.weight[0] = 0  # a row without any
        model.encoder[0].feedforward.into.weight[1] *= 1e-3
    loaded = loading.load(toy.make(tmp_path / "model", model=model, dtype="int8")).model
    for name, tensor in model.state_dict().items():
        found = loaded.state_dict()[name]
        if tensor.dim() > 1:
            step = tensor.flatten(1).abs().amax(1) / 127
            off = (found - tensor).flatten(1).abs().amax(1)
            assert (off <= 0.5001 * step).all(), name
            assert off.max() > 0, name
        else:
            assert torch.equal(found, tensor), name
    assert loaded.output.weight is loaded.embed_target.weight is loaded.embed_source.weight


def test_rounding_in_place_is_what_is_read_back(tmp_path):
    words = toy.tokenizers(shared=True)
    for dtype in reading.weights.DTYPES:
        model = toy.model_of("transformer", words)
        saved = loading.load(toy.make(tmp_path / dtype, model=model, dtype=dtype)).model
        reading.weights.round_as(model, dtype)
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, saved.state_dict()[name]), (dtype, name)


def test_tied_weights_are_saved_once_and_stay_tied(tmp_path):
    folder = toy.make(tmp_path / "model")
    saved = load_file(folder / "model.safetensors")
    words = toy.tokenizers(shared=True)
    embeddings = [t for t in saved.values() if t.shape == (len(words["source"]), 16)]
    assert len(embeddings) == 1
    model = loading.load(folder).model
    assert model.output.weight is model.embed_target.weight is model.embed_source.weight


def test_weights_beyond_float16_are_refused(tmp_path):
    words = toy.tokenizers(shared=True)
    model = toy.model_of("transformer", words)
    with torch.no_grad():
        model.encoder[0].feedforward.into.weight[0, 0] = 1e6
    with pytest.raises(RequestError, match="float16 cannot hold; save as float32"):
        toy.make(tmp_path / "model", model=model, dtype="float16")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_weights_without_a_step_are_refused(tmp_path, value):
    model = toy.model_of("transformer", toy.tokenizers(shared=True))
    with torch.no_grad():
        model.encoder[0].feedforward.into.weight[0, 0] = value
    with pytest.raises(RequestError, match=r"into\.weight has values that int8 cannot hold"):
        toy.make(tmp_path / "model", model=model, dtype="int8")


def test_an_unknown_dtype_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(RequestError, match="did you mean 'float16'"):
        toy.make(tmp_path / "model", dtype="float1")


def test_a_failed_save_leaves_the_old_model_whole(tmp_path, monkeypatch):
    folder = toy.make(tmp_path / "model", seed=1)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RegardError, match="no space left"):
        toy.make(folder, seed=2)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_save_killed_between_two_files_is_finished_by_who_loads_it(tmp_path, monkeypatch):
    folder = toy.make(tmp_path / "model", seed=1)
    move, moved = os.replace, []

    def killed(source, target):
        if moved:
            raise KeyboardInterrupt
        moved.append(target)
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            toy.make(folder, seed=2)
    assert moved[0].name == "model.safetensors"
    whole = toy.make(tmp_path / "other" / "model", seed=2)
    half = shutil.copytree(folder, tmp_path / "half")
    shutil.rmtree(half / ".ready")  # copied without what is hidden: found out
    with pytest.raises(RequestError, match=r"damaged or belongs to another config\.json"):
        loading.load(half)
    loading.load(folder)
    files = [{p.name: p.read_bytes() for p in f.iterdir()} for f in (folder, whole)]
    assert files[0] == files[1]


def test_other_files_stay_and_old_tokenizers_go(tmp_path):
    folder = toy.make(tmp_path / "model", "rnnsearch")
    (folder / "log.jsonl").write_text("{}\n")
    toy.make(folder)
    assert (folder / "log.jsonl").read_text() == "{}\n"
    assert sorted(p.name for p in folder.glob("tokenizer*")) == ["tokenizer.json"]
    assert not list(folder.glob(".saving*"))


def test_the_same_model_gives_the_same_bytes(tmp_path):
    one, two = toy.make(tmp_path / "a" / "model"), toy.make(tmp_path / "b" / "model")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


def test_metrics_that_are_not_numbers_are_valid_json(tmp_path):
    metrics = {"metrics": {"bleu": torch.tensor(3.5), "loss": float("nan")}, "runs": (1, 2)}
    folder = toy.make(tmp_path / "model", metrics=metrics)
    read = json.loads((folder / "metrics.json").read_text())
    assert read == {"metrics": {"bleu": 3.5, "loss": None}, "runs": [1, 2]}


def test_only_plain_data_is_taken(tmp_path):
    with pytest.raises(RequestError, match="plain data, got a Tokenizer"):
        toy.make(tmp_path / "model", metrics={"x": toy.tokenizers(shared=True)["source"]})


def test_the_recipe_in_the_folder_is_a_recipe(tmp_path):
    folder = toy.make(tmp_path / "model")
    read, plan = recipe.load(folder / "recipe.yaml"), toy.recipe("transformer")
    assert {name: read.section(name) for name in plan} == plan


def test_the_card_says_where_it_comes_from_and_how_good_it_is(tmp_path):
    metrics = {"metrics": {"bleu": 12.345}, "signature": {"bleu": "nrefs:1|version:2.6.0"}}
    words = {"data": "Three sentences.", "licence": "CC0."}
    text = (toy.make(tmp_path / "toy", metrics=metrics, card=words) / "README.md").read_text()
    wanted = [
        "# toy", "Attention Is All You Need", "https://arxiv.org/abs/1706.03762",
        "Three sentences.",         f"| bleu | {12.345:.2f} | `nrefs:1|version:2.6.0` |",
        "ffn_dim: 16", "## Limits", "CC0.", f"PyTorch {torch.__version__}",
    ]  # fmt: skip
    for words_of_it in wanted:
        assert words_of_it in text


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("translation", 'print(model.translate("..."))'),
        ("tagging", 'print(model.predict(["..."])[0].output)'),
        ("speech", 'print(model.predict(["recording.wav"])[0].output)'),
    ],
)
def test_the_card_uses_a_model_as_its_task_is_used(task, line):
    config = {
        "task": {"name": task},
        "weights": {"dtype": "float32"},
        "model": {"name": "rnnsearch"},
    }
    assert line in card.text("toy", config, {}, {}, torch.nn.Linear(1, 1), {}).split("\n")
