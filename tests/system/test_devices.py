"""`--device`: where evaluate, predict and serve compute."""

import json
import subprocess
import sys

import pytest
import torch

from regard.bulk import Order
from regard.errors import RequestError
from regard.serve._models import Models
from regard.serve.settings import Settings
from regard.system.devices import device_named
from tests.cli.run import run
from tests.cli.toy import folder, loaded

__all__ = ["folder", "loaded"]

TEXTS = ["die Datei wird", "ein Hund läuft"]


def data_of(tmp_path, loaded):
    path = tmp_path / "data.jsonl"
    rows = zip(TEXTS, loaded.translate(TEXTS), strict=True)
    path.write_text("".join(json.dumps({"de": a, "en": b}) + "\n" for a, b in rows))
    return path


@pytest.mark.parametrize(
    "words", [("predict",), ("serve", "--port", "0"), ("evaluate",)], ids=lambda words: words[0]
)
@pytest.mark.parametrize("name", ["tpu", "cuda"])
def test_a_device_that_is_not_there(words, name, capsys, folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    command, *rest = words
    ran = run(capsys, command, folder, *rest, "--device", name)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    expected = "cpu, cuda or auto, got 'tpu'" if name == "tpu" else "PyTorch finds none here"
    assert expected in ran.err


def test_auto_is_the_cpu_where_there_is_no_gpu(capsys, folder, loaded, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ran = run(capsys, "predict", folder, *TEXTS, "--device", "auto")
    assert (ran.code, ran.out.splitlines()) == (0, loaded.translate(TEXTS))


def test_auto_is_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [device_named(name) for name in ("cpu", "cuda", "auto")] == ["cpu", "cuda", "cuda"]


def test_the_cpu_is_named_without_torch():
    """A server's first process stays small: its workers import what computes."""
    code = "import sys, regard.cli.serve as s; s.device_named('cpu')"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_one_process_serves_on_a_gpu(capsys, folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    ran = run(capsys, "serve", folder, "--port", "0", "--device", "cuda", "--workers", "2")
    assert ran.code == 2
    assert "--workers 2: on a GPU one process serves" in ran.err


def test_another_device_goes_on_with_the_same_files():
    assert Order("x", device="cuda").settings() == Order("x").settings()
    with pytest.raises(RequestError, match="got 'gpu'"):
        device_named("gpu")


@pytest.mark.gpu
def test_a_gpu_gives_what_the_cpu_gives(capsys, folder, loaded, tmp_path):
    expected, data = loaded.translate(TEXTS), str(data_of(tmp_path, loaded))
    ran = run(capsys, "predict", folder, *TEXTS, "--device", "cuda")
    assert ran.out.splitlines() == expected
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    asked = ("-i", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out"), "--workers", "0")
    assert run(capsys, "predict", folder, *asked, "--device", "cuda").code == 0
    assert (tmp_path / "out" / "in.txt").read_text().splitlines() == expected
    asked = ("evaluate", folder, "--data", data, "--columns", "source=de,target=en", "--json")
    here = run(capsys, *asked).result["metrics"]
    assert run(capsys, *asked, "--device", "cuda").result["metrics"] == here
    served = Models(Settings(models=(("toy", folder),), device="cuda"))["toy"]
    assert next(served.loaded.model.parameters()).is_cuda
    assert served.loaded.translate(TEXTS) == expected
