"""Connections that send nothing, half of something, or nonsense: others notice nothing of them."""

import gc
import logging
import os
import resource
import socket
import struct
import sys
import time
import weakref
from itertools import cycle, islice
from types import SimpleNamespace

import httpx
import pytest

from regard.serve._connections import FEW, OWN, Keeper, room
from tests.serve.running import Command

HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def sized(content):
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content


BAD = {
    "silent": b"",
    "half a head": HEAD[:40],
    "half a body": HEAD + b'Content-Length: 100\r\n\r\n{"inputs":',
    "vanished": HEAD[:20],
    "no JSON": sized(b'{"inputs": ['),
    "no UTF-8": sized(b'{"inputs": "\xff\xfe"}'),
    "too large": HEAD + b"Content-Length: 99999999999\r\n\r\n{",
    "no HTTP": b"\x16\x03\x01 \x00\r\n\r\n",
    "never read": sized(b'{"inputs": ""}'),
}
STATUS = {"no JSON": 422, "no UTF-8": 422, "too large": 413, "no HTTP": 400}


class Transport:
    def __init__(self, closing=False):
        self.closing, self.aborted = closing, False

    def is_closing(self):
        return self.closing

    def abort(self):
        self.aborted = True


class Connection:
    """As uvicorn has it; `cycle` is the last request, None: there was none."""

    def __init__(self, complete=None, closing=False):
        self.transport = Transport(closing)
        self.cycle = None if complete is None else SimpleNamespace(response_complete=complete)

    @property
    def ended(self):
        return self.transport.aborted


def test_who_only_waits_is_ended_in_time():
    silent, answered = Connection(), Connection(complete=True)
    busy, unread = Connection(complete=False), Connection(complete=False, closing=True)
    every = {silent, answered, busy, unread}
    keeper = Keeper(every, most=10, seconds=5.0)
    assert keeper.look(100.0) == 0
    assert keeper.look(104.9) == 0
    answered.cycle = SimpleNamespace(response_complete=True)  # it has asked again meanwhile
    assert keeper.look(105.0) == 2
    assert silent.ended
    assert unread.ended
    every -= {silent, unread}
    busy.cycle.response_complete = True
    assert keeper.look(106.0) == 0
    assert keeper.look(110.0) == 1
    assert answered.ended
    assert not busy.ended
    every.discard(answered)
    assert keeper.look(111.0) == 1
    assert keeper.ended == 4


def test_a_connection_that_is_gone_is_let_go():
    one = Connection(complete=True)
    one.cycle.protocol = one  # as uvicorn's requests know theirs
    every, gone = {one}, weakref.ref(one)
    keeper = Keeper(every, most=10, seconds=5.0)
    assert keeper.look(1.0) == 0
    every.clear()
    del one
    assert keeper.look(2.0) == 0
    gc.collect()
    assert gone() is None


def test_a_connection_that_was_reset_has_no_timer():
    class Protocol:
        timeout_keep_alive_task = None
        lost = None

        def connection_lost(self, error):
            self.lost = error

    one = Keeper(set(), most=10, seconds=5.0).counted(Protocol)()
    one.connection_lost(None)
    cancelled = []
    one.timeout_keep_alive_task = SimpleNamespace(cancel=lambda: cancelled.append(1))
    one.connection_lost(error := ConnectionResetError())
    assert one.lost is error
    assert cancelled


def test_who_waits_longest_makes_room(caplog):
    old, new = [Connection() for _ in range(3)], [Connection() for _ in range(2)]
    busy = [Connection(complete=False) for _ in range(4)]
    every = {*old, *busy}
    keeper = Keeper(every, most=6, seconds=60.0)
    with caplog.at_level(logging.WARNING, logger="regard"):
        assert keeper.look(1.0) == 1  # seven, and six have room
        every -= {one for one in old if one.ended}
        every.update(new)
        assert keeper.look(2.0) == 2
    assert all(one.ended for one in old)
    assert not any(one.ended for one in [*busy, *new])
    assert "more than 6 came" in caplog.text


@pytest.mark.parametrize(("soft", "hard"), [(256, 4096), (256, 300), (64, 64)])
def test_the_limit_of_files_is_raised_or_said(monkeypatch, caplog, soft, hard):
    now = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, given: now.__setitem__(0, given[0]))
    with caplog.at_level(logging.WARNING, logger="regard"):
        found = room()
    assert now[0] == hard
    assert 0 < found <= hard
    assert found == max(hard - OWN, hard // 4)
    assert bool(caplog.messages) == (found < FEW)
    if caplog.messages:
        assert f"{hard} files may be open at once (ulimit -n)" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_three_hundred_bad_connections_and_room_for_seventy():
    server = Command("movie-reviews-small", "--max-concurrency", "1000", files=200)
    place = server.address.removeprefix("http://").split(":")
    told = {"inputs": "A wonderful film."}
    opened = []
    try:
        with httpx.Client(base_url=server.address, timeout=120) as client:
            assert client.post("/predict", json=told).status_code == 200
            before = files(server)
            for number, kind in enumerate(islice(cycle(BAD), 300)):
                made = socket.create_connection(place, timeout=60)
                opened.append((kind, made))
                try:
                    made.sendall(BAD[kind])
                    if kind == "vanished":  # a reset instead of an end
                        linger = struct.pack("ii", 1, 0)
                        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        made.close()
                    elif kind in STATUS:  # answered as long as its connection has room
                        assert made.recv(4096)[9:12] == str(STATUS[kind]).encode()
                except ConnectionError:
                    pass
                if number % 10 == 0:
                    assert client.post("/predict", json=told).status_code == 200
                    assert files(server) <= 200
            for _, made in opened:
                made.close()
            for _ in range(600):
                if files(server) <= before + 2:
                    break
                time.sleep(0.1)
            assert files(server) <= before + 2
            assert client.post("/predict", json=told).status_code == 200
        assert server.process.poll() is None
        said = [one["message"] for one in server.records]
        assert any("200 files may be open at once" in one for one in said)
        assert any("more than 72 came" in one for one in said)
        assert not any("Too many open files" in line for line in server.lines)
    finally:
        assert server.end(15) == 0


def files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))
