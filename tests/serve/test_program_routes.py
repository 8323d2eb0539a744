"""A server without PyTorch: its answers are those of the whole one, and what it lacks it says."""

import importlib.util
import json
import os
import shutil
import signal

import httpx
import pytest

from regard.convert import add_program
from regard.errors import RequestError
from regard.folder.places import find
from regard.serve import _program_routes
from regard.serve._program_models import ProgramModels
from regard.serve._routes import build
from tests.alike import alike
from tests.cli.run import run
from tests.serve.running import SOURCE, Command, Direct, settings
from tests.serve.test_wrong_program_requests import NAMES

ABSENT = ("torch", "fastapi", "prometheus_client", "python_multipart", "jaxtyping")
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def light():
    return Direct(_program_routes.build(settings(*NAMES)))


@pytest.fixture(scope="module")
def whole():
    return Direct(build(settings(*NAMES)))


ASKED = {
    "a text": {"model": "pronunciation-small", "inputs": "attention"},
    "several, one empty": {"model": "pronunciation-small", "inputs": ["window", "", "a b"]},
    "alternatives": {"model": "pronunciation-small", "inputs": "read", "n_best": 3},
    "a setting": {
        "model": "pronunciation-small", "inputs": "read", "decode": {"beam_size": 2},
    },
    "what asks for nothing": {
        "model": "pronunciation-small", "inputs": "read", "prefix": None, "keep": [],
        "align": False, "bad_words": [], "force_words": [], "decode": {},
    },
    "tags": {"model": "aspects-small", "inputs": ["The sushi was great ."]},
    "refused": {"model": "relations-small", "inputs": ["no marks"]},
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED)
def test_answers_are_those_of_the_whole_server(case, light, whole):
    found, expected = (one.post("/predict", ASKED[case]) for one in (light, whole))
    assert found.status_code == expected.status_code == 200
    alike(found.json(), expected.json())


def test_lines_are_answered_in_order(light, whole):
    asked = b'"read"\n\n{"input": "window", "n_best": 2}\n{"input": 3}\n[]\nno\n{"model": "x"}\n'
    path = "/predict?model=pronunciation-small"
    found, expected = (
        one.request("POST", path, content=asked, headers=LINES) for one in (light, whole)
    )
    assert found.headers["content-type"] == expected.headers["content-type"]
    ours, theirs = (list(map(json.loads, one.text.splitlines())) for one in (found, expected))
    alike(ours[:2], theirs[:2])
    assert [list(one) for one in ours[2:]] == [["error"]] * 4 == [list(one) for one in theirs[2:]]


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_it_says_how_it_is_as_the_whole_one_does(path, light, whole):
    assert light.get(path).json() == whole.get(path).json()


def test_models_are_told_of_with_what_is_known(light, whole):
    found, expected = (one.get("/models").json()["models"] for one in (light, whole))
    unknown = {"parameters": None, "options": [], "examples": []}
    assert [list(one) for one in found] == [list(one) for one in expected]
    assert found == [{**one, **unknown} for one in expected]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_page_names_every_route(path, light):
    page = light.get(path)
    assert page.headers["content-type"].startswith("text/html")
    for route in ("/predict", "/models", "/health", "/ready", "/look"):
        assert f" {route}</code>" in page.text
    assert "/predict" in light.get("/openapi.json").json()["paths"]


def test_a_folder_that_changes_is_loaded_again(tmp_path):
    folder = shutil.copytree(find("pronunciation-small"), tmp_path / "own")
    models = ProgramModels(settings(str(folder)))
    config = json.loads((folder / "config.json").read_text())
    config["decode"]["beam_size"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    assert models.refresh() == []  # it may still be written
    assert models.refresh() == []  # the program is of the files before
    assert "export the program again" in models["own"].error
    assert models["own"].program.settings.beam_size != 2
    add_program(folder)
    assert models.refresh() == []
    assert models.refresh() == ["own"]
    own = models["own"]
    assert (own.error, own.revision, own.program.settings.beam_size) == ("", 2, 2)


def test_settings_of_the_command_hold_for_all_that_write():
    models = ProgramModels(settings(*NAMES, changes=("decode.beam_size=2",)))
    assert models["pronunciation-small"].program.settings.beam_size == 2
    with pytest.raises(RequestError, match=r"cannot be served without PyTorch.* coverage_penalty"):
        ProgramModels(settings(*NAMES, changes=("coverage_penalty=0.1",)))


def test_a_folder_without_a_program_is_refused(tmp_path):
    folder = shutil.copytree(find("pronunciation-small"), tmp_path / "own")
    (folder / "program.json").unlink()
    with pytest.raises(
        RequestError, match=r"own cannot be served without PyTorch.*export --to pro"
    ):
        ProgramModels(settings(str(folder)))


@pytest.mark.parametrize(
    "option", [("--workers", "2"), ("--batch-tokens", "64"), ("--no-join",), ("--max-streams", "2")]
)
def test_options_of_the_whole_server_are_refused(option, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else found(name)
    )
    ran = run(capsys, "serve", "pronunciation-small", *option)
    assert ran.code == 2
    assert f"{option[0]}: without PyTorch one process answers on the CPU" in ran.err


@pytest.mark.nohook
def test_the_command_serves_where_pytorch_is_not_installed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({ABSENT!r}))\n"
    )
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    server = Command("pronunciation-small", PYTHONPATH=path)
    try:
        asked = {"inputs": "attention"}
        found = httpx.post(f"{server.address}/predict", json=asked, timeout=60)
        assert found.json()["predictions"][0]["output"]
        said = httpx.post(f"{server.address}/look", json={"input": "a"}, timeout=60)
        assert (said.status_code, "needs PyTorch" in said.json()["error"]) == (501, True)
        assert server.end(signal.SIGTERM) == 0
        routes = {one["route"]: one["status"] for one in server.records if "route" in one}
        assert routes == {"/predict": 200, "/look": 501}
    finally:
        server.end()
