"""SIGTERM finishes what was accepted; several processes share their weights and one address."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
import uvicorn

from regard.serve.server import Server
from regard.serve.settings import bound
from regard.system.extras import install
from tests.cli.run import run, run_alone
from tests.folder import toy
from tests.serve.running import Command, application, settings

TEXT = "das Fenster wird geschlossen ."
SLOW = {"model": "de-en-small", "inputs": "Guten Morgen.", "decode": {"min_length": 150}}


def test_draining_answers_what_was_taken_and_refuses_the_rest(models):
    told = {"models": models, "grace": 0.3}
    own = application("de-en-small", "movie-reviews-small", **told)
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(own, log_config=None, lifespan="on")
    plan = settings("de-en-small", "movie-reviews-small", grace=0.3)
    server = Server(config, plan, own.state.service.gate)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()

    async def ask():
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            assert (await client.get("/ready")).status_code == 200
            taken = [asyncio.create_task(client.post("/predict", json=SLOW)) for _ in range(3)]
            while own.state.service.gate.active < 3:
                await asyncio.sleep(0.01)
            server.handle_exit(signal.SIGTERM, None)
            ready = await client.get("/ready")
            late = await client.post("/predict", json=SLOW)
            healthy = await client.get("/health")
            return ready, late, healthy, await asyncio.gather(*taken)

    while not server.started:
        time.sleep(0.01)
    ready, late, healthy, taken = asyncio.run(ask())
    thread.join(30)
    assert not thread.is_alive()
    assert ready.status_code == late.status_code == 503
    assert late.headers["retry-after"] == "1"
    assert healthy.status_code == 200
    assert [one.status_code for one in taken] == [200] * 3
    assert len(taken[0].json()["predictions"][0]["tokens"]) >= 150
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")
    listening.close()


def test_the_command_says_what_is_wrong(capsys, tmp_path):
    for words, said in (
        (["none"], "no model folder 'none'"),
        (["de-en-small", "de-en-small"], "both be called"),
        (["de-en-small", "--keys", str(tmp_path / "none")], "no such file"),
        (["de-en-small", "--host", "999.1.1.1"], "999.1.1.1:8000"),
        (["de-en-small", "--port", "70000"], "port"),
    ):
        ran = run(capsys, "serve", *words)
        assert ran.code == 2, words
        assert said in ran.err
        assert "Traceback" not in ran.err
    (tmp_path / "keys").write_text("short\n")
    assert "8 or more" in run(capsys, "serve", "de-en-small", "--keys", str(tmp_path / "keys")).err


def test_without_the_extra_one_sentence(capsys, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "fastapi" else found(name, *more),
    )
    ran = run(capsys, "serve", "de-en-small")
    assert ran.code == 2
    assert install("serve") in ran.err


def test_the_client_needs_neither_torch_nor_fastapi():
    code = "import sys, regard.serve; print(*{'torch', 'fastapi', 'uvicorn'} & set(sys.modules))"
    path = str(run_alone.__globals__["SOURCE"])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "")


def test_who_is_told_that_it_is_ready_can_connect(models):
    own, found = application("de-en-small", models=models), []
    with bound(settings("de-en-small", port=0)) as listening:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listening.getsockname())

        def ready():
            socket.create_connection(listening.getsockname()).close()
            found.append("connected")
            server.should_exit = True

        config = uvicorn.Config(own, log_config=None, lifespan="on")
        server = Server(config, settings("de-en-small"), own.state.service.gate, ready)
        running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        running.start()  # a browser of other tests may have a loop in this thread
        running.join(60)
    assert found == ["connected"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_address_is_printed_when_it_answers(workers):
    command = Command("de-en-small", "--workers", workers, wait="(Ctrl-C ends it)")
    assert httpx.get(f"{command.address}/ready", timeout=60).status_code == 200
    assert command.end(signal.SIGTERM) == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_loses_nothing(workers):
    command = Command("de-en-small", "--workers", workers, "--grace", "0.5")

    async def ask():
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(base_url=command.address, timeout=60, limits=limits) as client:
            tasks = [asyncio.create_task(client.post("/predict", json=SLOW)) for _ in range(12)]
            await asyncio.sleep(1.0)
            command.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*tasks)

    answers = asyncio.run(ask())
    assert command.end() == 0
    assert [one.status_code for one in answers] == [200] * 12
    ended = [one["status"] for one in command.records if one["message"] == "request"]
    assert ended == [200] * 12


@pytest.mark.slow
def test_workers_share_and_one_that_dies_is_replaced(tmp_path):
    folder = toy.make(tmp_path / "toy", "rnnsearch", seed=0)
    command = Command(str(folder), "--workers", "2", "--reload", "0.2")
    with httpx.Client(base_url=command.address, timeout=30) as client:

        def ask():
            return client.post("/predict", json={"inputs": TEXT}, headers={"connection": "close"})

        first = ask().json()["predictions"][0]["output"]
        served = {one["process"] for one in command.records if one["message"] == "serving"}
        end = time.monotonic() + 20
        while len(served) < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
            served = {one["process"] for one in command.records if one["message"] == "serving"}
        import os

        os.kill(min(served), signal.SIGKILL)
        while len(served) < 3:
            assert time.monotonic() < end + 20
            time.sleep(0.1)
            served = {one["process"] for one in command.records if one["message"] == "serving"}
        assert {ask().json()["predictions"][0]["output"] for _ in range(10)} == {first}
        toy.make(folder, "rnnsearch", seed=5)
        while {
            m["revision"]
            for _ in range(6)
            for m in client.get("/models", headers={"connection": "close"}).json()["models"]
        } != {2}:
            assert time.monotonic() < end + 40
            time.sleep(0.2)
        assert {ask().json()["predictions"][0]["output"] for _ in range(10)} != {first}
        text = client.get("/metrics").text
    assert 'route="/predict",status="200"} 21.0' in text
    assert command.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_log_that_nobody_reads_does_not_stop_the_end(toys):
    server = Command(str(toys))
    reading = server.process.stderr.fileno()
    hole = os.open(os.devnull, os.O_RDONLY)
    os.dup2(hole, reading)  # the last reader of the pipe is gone
    os.close(hole)
    assert httpx.get(f"{server.address}/models", timeout=60).status_code == 200
    assert server.end(signal.SIGTERM) == 0
