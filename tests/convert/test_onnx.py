"""The two ONNX graphs under onnxruntime: every step's logits, and the loop that the page shows."""

import runpy

import numpy as np
import pytest
import torch

import regard
from regard.convert import export
from tests.convert.folders import FORMS, batch, code_of, make

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options)


@pytest.mark.parametrize("form", FORMS)
def test_steps_give_our_logits(tmp_path, form):
    loaded = make(tmp_path / "own", form)
    export(tmp_path / "own", "onnx", tmp_path / "out")
    source, lengths, target = batch(loaded)
    with torch.no_grad():
        ours = loaded.model(source, target, lengths).logits.numpy()
    encoder, step = session(tmp_path / "out/encoder.onnx"), session(tmp_path / "out/step.onnx")
    seen = lengths if form != "no end" else lengths - 1
    fixed = {"lengths": seen.numpy()}
    names = [output.name for output in encoder.get_outputs()]
    memories = encoder.run(None, {"source": source.numpy(), **fixed})
    fixed |= dict(zip(names, memories, strict=True))
    caches = {
        value.name: np.zeros((3, value.shape[1], 0, value.shape[3]), np.float32)
        for value in step.get_inputs()
        if value.name.startswith(("keys", "values"))
    }
    for t in range(target.shape[1]):
        given = {"tokens": target[:, t : t + 1].numpy(), "step": np.array(t), **fixed, **caches}
        names = [output.name for output in step.get_outputs()]
        found = dict(zip(names, step.run(None, given), strict=True))
        np.testing.assert_allclose(found.pop("logits"), ours[:, t], atol=2e-5, rtol=1e-5)
        caches = {name.removeprefix("next_"): value for name, value in found.items()}


def test_the_page_s_loop_translates_as_greedy_does(tmp_path, monkeypatch, capsys):
    export("de-en-small", "onnx", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    texts = ["Das Fenster wird geschlossen.", "Die Datei wurde gespeichert, ein Hund lief weg."]
    (tmp_path / "page.py").write_text(code_of(tmp_path / "out", texts[0]), "utf-8")
    greedy = runpy.run_path("page.py")["greedy"]
    expected = regard.load("de-en-small").translate(texts, name="greedy")
    assert capsys.readouterr().out.strip() == expected[0]
    assert greedy(texts[1]) == expected[1]
