"""Folders in ONNX: the code of their pages gives what the model gives, without torch."""

import runpy

import numpy as np
import pytest
import torch

import regard
from regard.convert import export
from regard.convert.recorded import write
from regard.errors import RegardError, RequestError
from regard.folder import writing
from regard.models.pointer_generator import PointerGenerator
from regard.protocols import Inputs
from regard.tasks.generation.summarization import Summarization
from tests.convert.folders import code_of
from tests.folder import toy
from tests.tasks import labeled

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

WORDS = ["hello", "attention", "knight", "machine"]


def page(folder, given, monkeypatch):
    """What the code of a folder's page defines."""
    monkeypatch.chdir(folder.parent)
    (folder.parent / "page.py").write_text(code_of(folder, given), "utf-8")
    return runpy.run_path("page.py")


def test_a_recurrent_model_writes_what_it_wrote(tmp_path, monkeypatch, capsys):
    files = export("pronunciation-small", "onnx", tmp_path / "out")
    assert {"README.md", "encoder.onnx", "step.onnx"} < set(files)
    loaded = regard.load("pronunciation-small")
    with pytest.raises(RequestError, match=r"out was written by `regard export` for another"):
        regard.load(tmp_path / "out")
    code = page(tmp_path / "out", WORDS[0], monkeypatch)
    greedy = loaded.translate(WORDS, name="greedy")
    assert capsys.readouterr().out.strip() == greedy[0]
    assert [code["write"](word) for word in WORDS] == greedy
    beam = loaded.translate(WORDS, name="beam", beam_size=4, length_penalty=1.0)
    assert [code["write"](word, beam=4) for word in WORDS] == beam
    assert code["write"](WORDS[1], longest=1).count(" ") == 0


def test_a_restricted_transformer_is_recorded(tmp_path, monkeypatch):
    folder, words = tmp_path / "own", toy.tokenizers(shared=True)
    plan = toy.recipe("transformer", attention={"window": 3})
    model = toy.model_of("transformer", words, seed=4, attention={"window": 3})
    writing.save_pretrained(folder, model, task=plan["task"], fields=words, recipe=plan)
    export(folder, "onnx", tmp_path / "out")
    code = page(tmp_path / "out", "ein Hund", monkeypatch)
    texts = ["das Fenster wird geschlossen", "die Datei"]
    expected = regard.load(folder).translate(texts, name="greedy", max_length=8)
    assert [code["write"](text, longest=8) for text in texts] == expected


def test_words_of_the_source_are_copied(tmp_path, monkeypatch):
    task = Summarization()
    file = tmp_path / "train.tsv"
    file.write_text("source\ttarget\na tool is a tool\ta tool\n", encoding="utf-8")
    data = task.data({"train": str(file), "tokenizer": {"lowercase": True}}, splits=["train"])
    torch.manual_seed(2)
    settings = {"embed": 6, "hidden": 6, "align": 6}
    model = PointerGenerator(**task.model_arguments(data.fields), **settings).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.5 * torch.randn_like(p))
    plan = {"model": {"name": "pointer-generator", **settings}, "task": {"name": "summarization"}}
    writing.save_pretrained(
        tmp_path / "own", model, task=plan["task"], fields=data.fields, recipe=plan
    )
    export(tmp_path / "own", "onnx", tmp_path / "out")
    text = "Foozle 3.11 is a tool of Foozle"
    code = page(tmp_path / "out", text, monkeypatch)
    expected = regard.load(tmp_path / "own").translate([text], name="greedy", max_length=9)
    assert code["write"](text, longest=9).lower() == expected[0].lower()


def test_sounds_and_pictures_are_arrays(tmp_path, monkeypatch):
    for name, lengths in (("digits-small", (10, 29)), ("emoji-small", (1,))):
        out = tmp_path / f"{name}-onnx"
        export(name, "onnx", out)
        loaded = regard.load(name)
        for length in lengths:
            field = loaded.fields["source"]
            shape = (
                (length, loaded.model.source_dim)
                if name == "digits-small"
                else (field.channels, *field.size)
            )
            values = torch.randn(1, *shape, generator=torch.Generator().manual_seed(length))
            np.save(tmp_path / "source.npy", values.numpy())
            code = page(out, "source.npy", monkeypatch)
            lengths_of = torch.tensor([length]) if name == "digits-small" else None
            (found,) = regard.decode.Greedy(max_length=20)(loaded.model, Inputs(values, lengths_of))
            expected = loaded.tokenizers["target"].decode(found[0].tokens)
            assert code["write"](values.numpy(), longest=20) == expected


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    root = tmp_path_factory.mktemp("classifier")
    data = labeled.write(root / "data")
    model = {"name": "self-attentive", "embed": 8, "hidden": 6, "hops": 2}
    labeled.fitted(root, data, model, {"name": "classification"}, epochs=1)
    return root / "run"


def test_labels_are_the_model_s(classifier, tmp_path, monkeypatch):
    assert set(export(classifier, "onnx", tmp_path / "out")) == {
        "README.md",
        "labels.json",
        "model.onnx",
        "tokenizer.json",
    }
    texts = ["The film is lovely.", "The plot is dull. We saw it.", "Unseen words"]
    code = page(tmp_path / "out", texts[0], monkeypatch)
    for text, expected in zip(texts, regard.load(classifier).predict(texts), strict=True):
        label, likely = code["label"](text)
        assert label == expected.output
        assert likely == pytest.approx(expected.probability, abs=1e-5)


def test_a_graph_that_differs_is_not_written(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "OFF", -1.0)
    with pytest.raises(RegardError, match=r"model\.onnx differs from the model by"):
        export(classifier, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_onnxruntime_it_says_that_nothing_was_compared(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(write, "find_spec", lambda name: None)
    export("pronunciation-small", "onnx", tmp_path / "out")
    assert "without onnxruntime the graphs are not compared with the model" in caplog.text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("movie-reviews-small", r"onnx: models with task\.sentences have no form there yet"),
        (
            "handwriting-small",
            "expected a model that writes, tags or labels texts, got one for images",
        ),
        ("stories-small", "expected a model that writes, tags or labels texts, got one for memory"),
    ],
)
def test_what_has_no_graph_is_refused(name, why, tmp_path):
    with pytest.raises(RequestError, match=why):
        export(name, "onnx", tmp_path / "out")
