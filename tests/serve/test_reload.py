"""A folder that changes is loaded again beside what is served; a broken one changes nothing."""

import shutil
import threading
import time

import httpx
import pytest

import regard
from regard.errors import RequestError
from regard.serve.settings import named
from tests.folder import toy
from tests.serve.running import application, live

TEXT = "das Fenster wird geschlossen ."


@pytest.fixture
def folder(tmp_path):
    return toy.make(tmp_path / "one", "rnnsearch", seed=0)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def state(address):
    (found,) = httpx.get(f"{address}/models").json()["models"]
    return found


def test_a_changed_folder_is_served_without_a_lost_request(folder, tmp_path):
    other = toy.make(tmp_path / "two", "rnnsearch", seed=5)
    outputs = [regard.load(one).predict([TEXT])[0].output for one in (folder, other)]
    assert outputs[0] != outputs[1]
    answers, over = [], threading.Event()

    def ask(address):
        with httpx.Client(base_url=address, timeout=30) as client:
            while not over.is_set():
                answers.append(client.post("/predict", json={"inputs": TEXT}))

    with live(application(str(folder), reload=0.05)) as address:
        asking = threading.Thread(target=ask, args=(address,))
        asking.start()
        wait_for(lambda: len(answers) > 3)
        toy.make(folder, "rnnsearch", seed=5)
        wait_for(lambda: state(address)["revision"] == 2)
        seen = len(answers)
        wait_for(lambda: len(answers) > seen + 5)
        over.set()
        asking.join()
        text = httpx.get(f"{address}/metrics").text
    assert 'regard_reloads_total{model="one"} 1.0' in text
    assert {one.status_code for one in answers} == {200}
    found = [one.json()["predictions"][0]["output"] for one in answers]
    assert found[0] == outputs[0]
    assert found[-1] == outputs[1]
    assert set(found) == set(outputs)
    turn = found.index(outputs[1])
    assert found[turn:] == [outputs[1]] * (len(found) - turn)


def test_a_broken_folder_keeps_the_old_model_and_says_so(folder):
    expected = regard.load(folder).predict([TEXT])[0].output
    with live(application(str(folder), reload=0.05)) as address:
        for break_it, said in (
            (lambda: (folder / "config.json").write_text("{"), "config.json"),
            (lambda: (folder / "model.safetensors").write_bytes(b"no weights"), "config.json"),
            (lambda: shutil.rmtree(folder), "no model folder"),
        ):
            break_it()
            wait_for(lambda said=said: said in (state(address)["error"] or ""))
            answer = httpx.post(f"{address}/predict", json={"inputs": TEXT})
            assert answer.json()["predictions"][0]["output"] == expected
        assert state(address)["revision"] == 1
        toy.make(folder, "rnnsearch", seed=5)
        wait_for(lambda: state(address)["revision"] == 2)
        assert state(address)["error"] is None


def test_names_of_folders(folder, tmp_path):
    (pair,) = named([str(folder)])
    assert pair == ("one", str(folder))
    assert named([f"mine={folder}", "de-en-small"]) == (
        ("mine", str(folder)), ("de-en-small", "de-en-small"),
    )  # fmt: skip
    with pytest.raises(RequestError, match="both be called 'one'"):
        named([str(folder), str(tmp_path / "x" / "one")])
    with pytest.raises(RequestError, match="expected a folder"):
        named([])
