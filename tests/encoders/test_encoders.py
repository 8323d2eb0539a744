"""Encoders of Hugging Face on our attention: the states of transformers, and folders refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.encoders import PieceStates, open_encoder, stamp, words_from
from regard.encoders.encoder import windows
from regard.encoders.kinds import KINDS
from regard.errors import RequestError
from tests.encoders.tiny import DIM, LAYERS, tiny_encoder

TEXTS = ["The cat sat on a mat.", "who?", "", "Dogs sitting, where the 2 cats is! é", "z" * 30]


@pytest.mark.parametrize("kind", [*KINDS])
def test_states_are_those_of_transformers(kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = tiny_encoder(tmp_path / kind, kind, embed=4 if kind == "electra" else DIM)
    ours = open_encoder(folder)
    theirs, told = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    assert {name for name in told["missing_keys"] if "pooler" not in name} == set()
    layers = [-1, 0, 2]
    for text, own in zip(TEXTS, ours.states(TEXTS, layers), strict=True):
        ids = torch.tensor([ours.tokenizer.encode(text).ids])
        with torch.no_grad():
            states = theirs.eval()(ids, output_hidden_states=True).hidden_states
        wanted = torch.stack([states[layer][0, 1:-1] for layer in layers], 1)
        torch.testing.assert_close(torch.from_numpy(own.states), wanted, atol=1e-5, rtol=1e-5)
        assert all(text[a:b] for a, b in own.offsets)


def test_long_texts_are_read_in_windows_each_piece_from_the_middle_of_one(tmp_path):
    encoder = open_encoder(tiny_encoder(tmp_path, positions=12))
    text = "the cat sat on a mat . " * 5
    (own,) = encoder.states([text])
    cut = encoder.tokenizer.encode(text, add_special_tokens=False)
    for start, end, low, high in windows(len(cut.ids), 10):
        part = text[cut.offsets[start][0] : cut.offsets[end - 1][1]]
        (alone,) = encoder.states([part])
        np.testing.assert_allclose(
            own.states[low:high], alone.states[low - start : high - start], atol=1e-5
        )


@pytest.mark.parametrize("count", [1, 9, 10, 11, 15, 16, 20, 39])
def test_windows_keep_each_piece_once_and_not_at_an_inner_edge(count):
    found = windows(count, 10)
    assert [i for *_, low, high in found for i in range(low, high)] == [*range(count)]
    for start, end, low, high in found:
        assert end - start <= 10
        assert start <= low < high <= end
        assert start == 0 or low - start >= 2
        assert end == count or end - high >= 2


@pytest.mark.parametrize("pool", ["first", "mean"])
def test_words_have_the_states_of_the_pieces_that_overlap_them(pool):
    rng = np.random.default_rng(0)
    pieces = np.array([[0, 3], [3, 5], [6, 7], [7, 8], [9, 12], [12, 12], [13, 15]])
    words = np.array([[0, 5], [5, 5], [6, 8], [7, 10], [15, 16]])
    states = rng.normal(size=(len(pieces), 2, 3)).astype(np.float32)
    found = words_from(PieceStates(states, pieces), words, pool)
    for (start, end), own in zip(words, found, strict=True):
        inside = [s for s, (a, b) in zip(states, pieces, strict=True) if a < end and b > start]
        wanted = np.zeros((2, 3)) if not inside else inside[0]
        if inside and pool == "mean":
            wanted = np.mean(inside, 0)
        np.testing.assert_allclose(own, wanted, atol=1e-6)
    assert not words_from(PieceStates(states[:0], pieces[:0]), words, pool).any()


def test_shards_and_names_of_larger_models_are_read(tmp_path):
    whole = tiny_encoder(tmp_path / "whole")
    tensors = load_file(whole / "model.safetensors")
    parts = tmp_path / "parts"
    shutil.copytree(whole, parts)
    (parts / "model.safetensors").unlink()
    named = {f"bert.{name}": own for name, own in tensors.items()}
    named = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): own for n, own in named.items()}
    half = len(named) // 2
    files = {"a.safetensors": [*named][:half], "b.safetensors": [*named][half:]}
    for file, names in files.items():
        save_file({name: named[name] for name in names}, parts / file)
    index = {name: file for file, names in files.items() for name in names}
    (parts / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    one, other = open_encoder(whole), open_encoder(parts)
    assert one.stamp != other.stamp
    assert one.licence == "mit"
    for a, b in zip(one.states(TEXTS), other.states(TEXTS), strict=True):
        np.testing.assert_array_equal(a.states, b.states)


def _config(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def _pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _damaged(folder):
    (folder / "model.safetensors").write_bytes(b"no tensors")


def _elsewhere(folder):
    index = {"weight_map": {"a": "../a.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shutil.rmtree, "there is no folder .*; expected one with config.json"),
        (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer.json; transformers'"),
        (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "is no file of the library"),
        (_pickled, "pytorch_model.bin, a pickle, which is never opened"),
        (_damaged, "model.safetensors cannot be read"),
        (_elsewhere, "expected a weight_map of files in the folder"),
        (_config(model_type="gpt2"), "model_type 'gpt2' is no encoder that is read here"),
        (_config(auto_map={"AutoModel": "code.py"}), "names code of the folder"),
        (_config(is_decoder=True), "this is a decoder"),
        (_config(position_embedding_type="relative_key"), "'relative_key'; encoders with"),
        (_config(hidden_size="8"), "dim: expected a number above 0, got '8'"),
        (_config(num_attention_heads=3), "3 heads do not divide states of 8"),
        (_config(hidden_act="cubic"), "no activation 'cubic' is known"),
        (_config(vocab_size=20), "pieces up to number .* vocab_size 20: .* different encoders"),
        (_config(vocab_size=500), r"expected embeddings.word_embeddings.weight of shape \(500, 8"),
        (_config(num_hidden_layers=4), "the weights have no encoder.layer.3"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_in_one_sentence(change, said, tmp_path):
    folder = tiny_encoder(tmp_path / "e")
    change(folder)
    with pytest.raises(RequestError, match=said) as error:
        open_encoder(folder)
    assert "\n" not in str(error.value)


def test_the_stamp_follows_the_files(tmp_path):
    folder = tiny_encoder(tmp_path / "a")
    same, other = tiny_encoder(tmp_path / "b"), tiny_encoder(tmp_path / "c", seed=1)
    assert stamp(folder) == stamp(same) == open_encoder(folder).stamp != stamp(other)
    (folder / "README.md").write_text("changed")
    assert stamp(folder) == stamp(same)
    assert open_encoder(folder).licence == ""


@pytest.mark.parametrize("layers", [[], [LAYERS + 1], [-LAYERS - 2]])
def test_layers_that_are_not_there_are_refused(layers, tmp_path):
    encoder = open_encoder(tiny_encoder(tmp_path))
    assert encoder.numbered([0, -1, LAYERS, -LAYERS - 1]) == [0, LAYERS, LAYERS, 0]
    with pytest.raises(RequestError, match=r"layers: .* has 3 layers; expected numbers from -4 to"):
        encoder.states(["a"], layers)


@pytest.mark.gpu
def test_states_of_a_gpu_are_those_of_the_cpu(tmp_path):
    encoder = open_encoder(tiny_encoder(tmp_path / "tiny"))
    texts = ["the cat sat on a mat.", "who is the dog?", "", "the " * 90]
    wanted = encoder.states(texts, (-1, 1))
    for own, other in zip(wanted, encoder.to("cuda").states(texts, (-1, 1)), strict=True):
        assert own.states == pytest.approx(other.states, abs=1e-5)
        assert (own.offsets == other.offsets).all()
