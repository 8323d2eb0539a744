"""`regard export` and `regard convert` as a user meets them."""

import json

import pytest

from tests.cli.run import run
from tests.convert.test_checkpoints import fairseq, joeynmt
from tests.folder import toy

pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.fixture
def folder(tmp_path):
    return str(toy.make(tmp_path / "own"))


def test_export_says_what_it_wrote(capsys, tmp_path, folder):
    out = tmp_path / "made" / "onnx"
    ran = run(capsys, "export", folder, "--to", "onnx", "-o", str(out), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.result["files"] == ["README.md", "encoder.onnx", "step.onnx", "tokenizer.json"]
    assert ran.result["bytes"] == sum(file.stat().st_size for file in out.iterdir())
    assert [p.name for p in out.parent.iterdir()] == ["onnx"]
    ran = run(capsys, "export", folder, "--to", "huggingface", "-o", str(tmp_path / "hf"))
    assert (ran.code, ran.out) == (0, "")
    assert "7 files" in ran.err or "6 files" in ran.err
    assert "README.md says how" in ran.err


def test_export_refuses_in_one_sentence(capsys, tmp_path, folder):
    out = tmp_path / "out"
    out.mkdir()
    (out / "kept").touch()
    ran = run(capsys, "export", folder, "--to", "onnx", "-o", str(out))
    assert ran.code == 2
    assert ran.err.startswith("regard: ")
    assert "exists; --force writes over it" in ran.err
    assert [p.name for p in out.iterdir()] == ["kept"]
    ran = run(capsys, "export", folder, "--to", "onix", "-o", str(tmp_path / "x"))
    assert (ran.code, "did you mean 'onnx'?" in ran.err) == (2, True)
    ran = run(capsys, "export", folder, "--to", "onnx", "-o", "x", "--quantization", "int8")
    assert (ran.code, "onnx has no quantization" in ran.err) == (2, True)
    other = str(toy.make(tmp_path / "rnn", "rnnsearch"))
    ran = run(capsys, "export", other, "--to", "ctranslate2", "-o", str(tmp_path / "x"))
    assert ran.code == 2
    assert "only Transformers of plain multi-head attention" in ran.err
    assert "RNNsearch" in ran.err
    assert not (tmp_path / "x").exists()
    assert run(capsys, "export", folder, "--to", "onnx", "-o", str(out), "--force").code == 0
    assert not (out / "kept").exists()


def test_a_program_goes_into_the_folder_itself(capsys, tmp_path, folder):
    ran = run(capsys, "export", folder, "--to", "program", "--json")
    assert (ran.code, ran.result["files"]) == (0, ["program.json"])
    again = run(capsys, "export", folder, "--to", "program", "-o", str(tmp_path / "again"))
    assert again.code == 0
    assert (tmp_path / "again" / "program.json").is_file()
    refused = run(capsys, "export", "emoji-small", "--to", "program")
    assert (refused.code, "program: captioning has its own `" in refused.err) == (2, True)


def test_other_programs_need_a_folder(capsys, folder):
    ran = run(capsys, "export", folder, "--to", "onnx")
    assert (ran.code, "--to onnx: expected -o with the folder to make" in ran.err) == (2, True)
    ran = run(capsys, "export", folder, "--to", "program", "--quantization", "int8")
    assert (ran.code, "program has no quantization" in ran.err) == (2, True)
    ran = run(capsys, "export", folder, "--to", "onix")
    assert (ran.code, "did you mean 'onnx'?" in ran.err) == (2, True)


def test_convert_and_predict(capsys, tmp_path):
    (tmp_path / "peer").mkdir()
    fairseq(tmp_path / "peer")
    words = ("convert", str(tmp_path / "peer"), "--from", "fairseq", "-o", str(tmp_path / "own"))
    ran = run(capsys, *words, "--json")
    assert ran.code == 0
    assert ran.result["vocabulary"] == {"source": 14, "target": 12}
    ran = run(capsys, "predict", str(tmp_path / "own"), "w1 w2 nobody", "--json")
    assert ran.code == 0
    assert ran.result["input"] == "w1 w2 nobody"
    config = json.loads((tmp_path / "own/config.json").read_text())
    assert config["decode"]["patience"] == 1.0
    ran = run(capsys, *words)
    assert (ran.code, "exists; --force writes into it" in ran.err) == (2, True)
    assert run(capsys, *words, "--force").code == 0


def test_convert_refuses_in_one_sentence(capsys, tmp_path):
    joeynmt(tmp_path, type="recurrent")
    ran = run(capsys, "convert", str(tmp_path), "--from", "joeynmt", "-o", str(tmp_path / "own"))
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "not a transformer" in ran.err
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/config.json").write_text('{"model_type": "bert"}')
    ran = run(capsys, "predict", str(tmp_path / "hf"), "x")
    assert (ran.code, "model_type 'bert'" in ran.err) == (2, True)
    assert "valid: marian, pegasus" in ran.err
