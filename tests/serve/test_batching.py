"""Texts of many requests are answered together, and nobody can tell; who leaves costs nothing."""

import asyncio
import socket
import threading
import time

import httpx
import pytest

from regard.decode.decoder import ASKING
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.request import DecodingRequest
from regard.models.transformer import Transformer
from regard.serve._batcher import Batcher
from regard.serve._errors import Refusal
from regard.serve._job import Job
from regard.serve._operations import Predicting
from tests.serve.running import application, live

WORDS = ["das", "Fenster", "wird", "geschlossen", "Datei", "öffnen", "und", "speichern", "nicht"]


class Noted:
    """Work that says what came together; the first batch waits until it may go on."""

    alone = False

    def __init__(self):
        self.batches, self.free = [], threading.Event()

    def running(self, sample):
        return None

    def __call__(self, jobs, over):
        self.batches.append([job.size for job in jobs])
        assert self.free.wait(20)
        return [job.text.upper() for job in jobs]


def jobs_of(work, sizes, seconds=30.0):
    return [
        Job(f"text {n}", size, work, time.monotonic() + seconds) for n, size in enumerate(sizes)
    ]


def busy_batcher(work, **more):
    """A batcher whose thread is in a first batch."""
    made = Batcher(wait=0.0, **more)
    made.submit(jobs_of(work, [1]))
    while not work.batches:
        time.sleep(0.001)
    return made


def test_like_lengths_come_together_within_the_budget():
    work = Noted()
    batcher = busy_batcher(work, tokens=40)
    jobs = jobs_of(work, [10, 2, 11, 30, 2, 9, 100, 3])
    batcher.submit(jobs)
    work.free.set()
    assert [job.answer.result(10) for job in jobs] == [f"TEXT {n}" for n in range(8)]
    batcher.close()
    together = work.batches[1:]
    assert sorted(size for batch in together for size in batch) == [2, 2, 3, 9, 10, 11, 30, 100]
    assert together[0] == [9, 10, 11]  # the oldest and those nearest to it
    for batch in together:
        assert batch == sorted(batch)
        assert len(batch) == 1 or len(batch) * max(batch) <= 40


def test_the_first_waits_for_others_a_moment():
    work = Noted()
    work.free.set()
    batcher = Batcher(wait=0.3)
    first, second = jobs_of(work, [1, 2])
    batcher.submit([first])
    time.sleep(0.02)
    batcher.submit([second])
    second.answer.result(10)
    batcher.close()
    assert work.batches == [[1, 2]]


def test_a_full_batch_does_not_wait():
    work = Noted()
    work.free.set()
    batcher = Batcher(tokens=4, wait=60.0)
    jobs = jobs_of(work, [2, 2])
    batcher.submit(jobs)
    assert jobs[1].answer.result(10)
    batcher.close()


def test_who_left_is_not_computed():
    work = Noted()
    batcher = busy_batcher(work)
    jobs = jobs_of(work, [5, 6, 7])
    batcher.submit(jobs)
    jobs[1].answer.cancel()
    work.free.set()
    assert jobs[2].answer.result(10)
    batcher.close()
    assert work.batches[1:] == [[5, 7]]
    assert len(batcher) == 0


def test_whose_time_is_over_is_told():
    work = Noted()
    batcher = busy_batcher(work)
    (job,) = jobs_of(work, [5], seconds=0.01)
    batcher.submit([job])
    time.sleep(0.05)
    work.free.set()
    with pytest.raises(TimeoutError):
        job.answer.result(10)
    batcher.close()
    assert work.batches == [[1]]


def test_a_full_queue_refuses_all_or_none():
    work = Noted()
    batcher = busy_batcher(work, queue=3)
    kept = jobs_of(work, [1, 1])
    batcher.submit(kept)
    with pytest.raises(Refusal, match="2 texts are waiting, and at most 3 may") as told:
        batcher.submit(jobs_of(work, [1, 1]))
    assert told.value.status == 429
    assert int(told.value.headers["Retry-After"]) >= 1
    assert len(batcher) == 2
    work.free.set()
    batcher.close()
    assert kept[1].answer.result(10) == "TEXT 1"
    with pytest.raises(Refusal):
        batcher.submit(kept)


def test_a_wait_that_would_be_too_long_is_refused():
    work = Noted()
    batcher = busy_batcher(work, backlog=1.0)
    batcher.pace.token = 0.4  # seconds
    kept = jobs_of(work, [1] * 3)
    batcher.submit(kept)  # many at once may come where little waits
    with pytest.raises(Refusal, match=r"about 1\.2 seconds, and at most 1 may") as told:
        batcher.submit(jobs_of(work, [1]))
    assert told.value.status == 429
    work.free.set()
    batcher.close()
    assert kept[2].answer.result(10)


def test_one_that_fails_does_not_fail_the_others():
    class Picky(Noted):
        def __call__(self, jobs, over):
            if any(job.size == 6 for job in jobs):
                raise ValueError("not this one")
            return [job.text for job in jobs]

    work = Picky()
    batcher = Batcher(wait=0.05)
    jobs = jobs_of(work, [5, 6, 7])
    batcher.submit(jobs)
    assert jobs[2].answer.result(10) == "text 2"
    assert jobs[0].answer.result(10) == "text 0"
    with pytest.raises(ValueError, match="not this one"):
        jobs[1].answer.result(10)
    batcher.close()


def counted(monkeypatch, also=lambda: None):
    """The sentences of each step of a Transformer's decoder, from now on."""
    rows = []

    def counting(own):
        def step(self, tokens, *rest):
            rows.append(len(tokens))
            also()
            return own(self, tokens, *rest)

        return step

    def searching(own):
        def search(self, tokens, *rest):
            found = own(self, tokens, *rest)
            for _ in () if found is None else found.tokens:
                rows.append(len(tokens))
                also()
            return found

        return search

    for kind, name in (
        (RecordedDecoder, "_stepped"), (Transformer, "step"),
    ):  # fmt: skip
        monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    monkeypatch.setattr(RecordedDecoder, "search", searching(RecordedDecoder.search))
    return rows


def texts(count):
    """Texts of many lengths."""
    return [" ".join(WORDS[(n * k) % 9] for k in range(1 + n * 3 % 7)) for n in range(count)]


def test_an_answer_does_not_depend_on_its_batch(models, translator):
    own = application("de-en-small", "movie-reviews-small", models=models, batch_tokens=256)
    given = texts(30)
    expected = {text: translator.predict([text], n_best=2)[0] for text in set(given)}

    async def ask(address):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            bodies = [{"model": "de-en-small", "inputs": text, "n_best": 2} for text in given]
            return await asyncio.gather(*(client.post("/predict", json=b) for b in bodies))

    with live(own) as address:
        answers = asyncio.run(ask(address))
    sizes = own.state.service.metrics.batches.collect()[0].samples
    counted = {s.labels.get("le", s.name): s.value for s in sizes}
    together = counted["regard_batch_texts_sum"] / counted["regard_batch_texts_count"]
    assert together > 3
    for text, answer in zip(given, answers, strict=True):
        (found,) = answer.json()["predictions"]
        assert found["input"] == text
        assert found["output"] == expected[text].output
        assert found["score"] == pytest.approx(expected[text].score, abs=1e-4)
        others = [one["output"] for one in found["alternatives"]]
        assert others == [one.output for one in expected[text].alternatives]


def test_decoding_ends_between_steps_when_nobody_waits(models, monkeypatch):
    served = models["de-en-small"]
    work = Predicting(served, decode=(("max_length", 400), ("min_length", 400)))
    steps = 0

    def over():
        nonlocal steps
        steps += 1
        return steps >= 5

    rows = counted(monkeypatch)
    job = Job("Guten Morgen.", 3, work, time.monotonic() + 60)
    (found,) = work([job], over)
    assert steps == 5
    assert len(rows) == 1 + 4 * ASKING  # a beam's first step is by itself
    assert len(found["tokens"]) <= len(rows)


def test_who_is_done_is_answered_before_the_batch(models):
    served = models["de-en-small"]
    work = Predicting(served, n_best=2, wishes=frozenset({"prefix"}))
    every = [
        Job(text, 9, work, time.monotonic() + 60, DecodingRequest())
        for text in ("Guten Morgen.", "", "Das Fenster wird geschlossen und die Datei geöffnet.")
    ]
    seen = []

    def over():
        seen.append([job.answer.done() for job in every])
        return False

    found = work(every, over)
    assert seen[0] == [False, False, False]
    assert [True, False, False] in seen  # the short one, while the long one goes on
    assert every[0].answer.result(0) == found[0]
    assert every[2].answer.result(0) == found[2]
    assert not every[1].answer.done()  # nothing was decoded for it


@pytest.mark.parametrize(
    ("name", "expected"),
    [("beam", [3] * 5 + [2] * 4 + [1] * 21), ("greedy", [3] * 8 + [2] * 4 + [1] * 18)],
)
def test_who_leaves_a_batch_is_not_decoded_further(models, monkeypatch, name, expected):
    """Asked after each call of C, of four steps."""
    served = models["de-en-small"]
    work = Predicting(served, decode=(("max_length", 30), ("min_length", 30), ("name", name)))
    every = [Job("Guten Morgen.", 3, work, time.monotonic() + 60) for _ in range(3)]

    def leaving():
        if len(rows) == 5:
            every[1].answer.cancel()
        if len(rows) == 9:
            every[0].answer.cancel()

    rows = counted(monkeypatch, leaving)
    found = work(every, lambda: False)
    assert rows == expected
    alone = work([Job("Guten Morgen.", 3, work, time.monotonic() + 60)], lambda: False)
    assert found[2]["output"] == alone[0]["output"]


def test_a_client_that_leaves_frees_the_thread(models, monkeypatch):
    own = application("de-en-small", models=models)
    endless = {"model": "de-en-small", "decode": {"min_length": 1000}}
    quick = {"model": "de-en-small", "inputs": "Guten Tag."}
    # Steps are counted: what goes on for nobody makes a thousand. None is over before 10 ms, so
    # that a slow machine has 10 seconds to see that somebody has left.
    steps = counted(monkeypatch, lambda: time.sleep(0.01))
    with live(own) as address, httpx.Client(base_url=address) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/predict", json={**endless, "inputs": "Guten Morgen."}, timeout=0.5)
        assert client.post("/predict", json=quick, timeout=60).status_code == 200
        assert len(steps) < 1000
        steps.clear()
        told = {**endless, "input": "Guten Morgen."}
        with client.stream("POST", "/stream", json=told, timeout=30) as answer:
            assert next(answer.iter_bytes()).startswith(b"event: step")
        for _ in range(3000):
            if not (own.state.service.gate.active or own.state.service.streams.count):
                break
            time.sleep(0.02)
        assert not own.state.service.gate.active
        assert not own.state.service.streams.count
        assert len(steps) < 1000


def test_out_of_time(models):
    own = application("de-en-small", models=models, limits={"seconds": 0.3})
    told = {"model": "de-en-small", "inputs": "Guten Morgen.", "decode": {"min_length": 1000}}
    with live(own) as address:
        answer = httpx.post(f"{address}/predict", json=told, timeout=30)
        assert answer.status_code == 504
        assert "time" in answer.json()["error"]
        body = {**told, "input": told["inputs"]}
        del body["inputs"]
        text = httpx.post(f"{address}/stream", json=body, timeout=30).text
        assert '"truncated": true' in text
        # a body that never comes to its end
        with socket.create_connection(address.removeprefix("http://").split(":")) as slow:
            slow.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
            slow.settimeout(10)
            assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_too_many_at_once(models):
    limits = {"concurrency": 2, "streams": 1, "queue": 1}
    own = application("de-en-small", models=models, limits=limits)
    endless = {"model": "de-en-small", "decode": {"min_length": 1000}}

    async def ask(address):
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            one = asyncio.create_task(
                client.post("/predict", json={**endless, "inputs": "Guten Morgen."})
            )
            await asyncio.sleep(0.2)
            async with client.stream("POST", "/stream", json={**endless, "input": "a"}) as answer:
                assert answer.status_code == 200
                third = await client.post("/predict", json={**endless, "inputs": "b"})
                healthy = await client.get("/health")
            one.cancel()
            return third, healthy

    with live(own) as address:
        third, healthy = asyncio.run(ask(address))
    assert third.status_code == 429
    assert "2 requests of this client" in third.json()["error"]
    assert third.headers["retry-after"] == "1"
    assert healthy.status_code == 200
