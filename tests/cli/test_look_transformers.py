"""`regard look hf:FOLDER`: folders of Hugging Face, without pickles, code or a network."""

import json
import shutil
import socket

import numpy as np
import pytest
import torch

from tests.cli.run import run

transformers = pytest.importorskip("transformers")
from tests.viewer.small_transformers import KINDS, WORDS, tokenizer, write  # noqa: E402

TEXT = "the cats sat."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    top = tmp_path_factory.mktemp("hf")
    return {kind: (top / kind, write(kind, top / kind)) for kind in KINDS}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **more):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def looked(capsys, folder, *words):
    ran = run(capsys, "look", f"hf:{folder}", *words, "--json", "--pieces", "--head", "2")
    assert ran.code == 0, ran.err
    return ran.result, np.array(ran.result["pictures"][0]["weights"])


def own(model, name, **inputs):
    """Head 2 of the last layer, as the model gives it itself."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**inputs, output_attentions=True)[name][-1][0, 1].numpy()


@pytest.mark.parametrize("kind", ["causal", "masked", "classes"])
def test_a_text_that_looks_at_itself(kind, capsys, folders):
    folder, model = folders[kind]
    result, weights = looked(capsys, folder, TEXT)
    assert result["rows"] == ["[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]"]
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    np.testing.assert_allclose(weights, own(model, "attentions", input_ids=ids), atol=2e-5)


def test_a_mask_is_filled(capsys, folders):
    folder, model = folders["masked"]
    result, _ = looked(capsys, folder, "the [MASK] sat")
    ids = tokenizer()("the [MASK] sat", return_tensors="pt")["input_ids"]
    assert result["output"].split()[1] == WORDS[int(model(input_ids=ids).logits[0, 2].argmax())]


def test_a_masked_model_without_a_mask_token_reads_the_text(capsys, folders, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(folders["masked"][0], bare)
    for path in bare.glob("*token*.json"):
        told = json.loads(path.read_text())
        told.pop("mask_token", None)
        path.write_text(json.dumps(told))
    ran = run(capsys, "look", f"hf:{bare}", TEXT, "--json", "--pieces", "--head", "2")
    assert (ran.code, "no mask token" in ran.err) == (0, True)
    whole, weights = looked(capsys, folders["masked"][0], TEXT)
    assert np.array_equal(ran.result["pictures"][0]["weights"], weights)
    assert ran.result["score"] == pytest.approx(whole["score"])


def test_a_text_is_written_on(capsys, folders):
    folder, model = folders["causal"]
    result, weights = looked(capsys, folder, TEXT, "--max", "3")
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    for _ in range(3):
        ids = torch.cat([ids, model(input_ids=ids).logits[:, -1].argmax(-1, keepdim=True)], 1)
        if ids[0, -1] == model.config.eos_token_id:
            break
    assert result["rows"] == tokenizer().convert_ids_to_tokens(ids[0])
    np.testing.assert_allclose(weights, own(model, "attentions", input_ids=ids), atol=2e-5)


@pytest.mark.parametrize("words", [("--max", "4"), ("--target", "Die Katze")])
def test_an_encoder_decoder(words, capsys, folders):
    folder, model = folders["both"]
    result, weights = looked(capsys, folder, TEXT, *words)
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    out = torch.tensor([[2]])
    if words[0] == "--max":
        for _ in range(4):
            logits = model(input_ids=ids, decoder_input_ids=out).logits[:, -1]
            out = torch.cat([out, logits.argmax(-1, keepdim=True)], 1)
    else:
        out = torch.tensor([[2, *tokenizer()("Die Katze")["input_ids"]]])
    assert result["rows"] == tokenizer().convert_ids_to_tokens(out[0, 1:])
    given = {"input_ids": ids, "decoder_input_ids": out[:, :-1]}
    np.testing.assert_allclose(weights, own(model, "cross_attentions", **given), atol=2e-5)


@pytest.mark.parametrize("ending", ["html", "seen", "png"])
def test_files(ending, capsys, folders, tmp_path):
    path = tmp_path / f"a.{ending}"
    assert run(capsys, "look", f"hf:{folders['both'][0]}", TEXT, "-o", str(path)).code == 0
    start = {"png": b"\x89PNG", "html": b"<!doctype html>"}.get(ending, b"")
    assert path.read_bytes()[:15].lower().startswith(start.lower())


def changed(folder, tmp_path, **config):
    """A folder with another config.json and, as weights, a pickle."""
    (tmp_path / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), **config})
    )
    return tmp_path


def test_pickles_are_refused(capsys, folders, tmp_path):
    folder = changed(folders["masked"][0], tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch trapped'\ntR.")
    ran = run(capsys, "look", f"hf:{folder}", TEXT)
    assert ran.code == 2
    assert "expected weights in model.safetensors, got pytorch_model.bin, a pickle" in ran.err


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"auto_map": {"AutoModel": "code.Model"}}, "code of its own, which is never run"),
        ({"architectures": ["T5EncoderX"], "model_type": "t5"}, "got T5EncoderX"),
        ({"architectures": None}, "got none"),
    ],
)
def test_other_kinds_are_refused(config, said, capsys, folders, tmp_path):
    folder = changed(folders["masked"][0], tmp_path, **config)
    (folder / "model.safetensors").write_bytes(
        (folders["masked"][0] / "model.safetensors").read_bytes()
    )
    ran = run(capsys, "look", f"hf:{folder}", TEXT)
    assert (ran.code, said in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("masked", (TEXT, "--max", "3"), "writes nothing"),
        ("masked", (TEXT, "--target", "the"), "target: no view of"),
        ("masked", (" ",), "the input is empty"),
        ("masked", ("the " * 40,), "has 32 places, the text has 42 tokens"),
        ("classes", (TEXT, "--measure", "norm"), "did you mean 'norms'"),
        ("causal", (TEXT, "--set", "beam_size=1"), "are for trained folders"),
    ],
)
def test_wrong_requests(kind, words, said, capsys, folders):
    ran = run(capsys, "look", f"hf:{folders[kind][0]}", *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_no_folder(capsys, tmp_path):
    ran = run(capsys, "look", f"hf:{tmp_path / 'nothing'}", TEXT)
    assert (ran.code, "with a config.json" in ran.err) == (2, True)
