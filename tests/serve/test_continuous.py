"""Texts join what is being decoded; both kinds of work take turns; how long it takes is known."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import regard
from regard import native
from regard.inference.continuous_texts import running_texts
from regard.serve import _continuous
from regard.serve._batcher import Batcher
from regard.serve._errors import Refusal
from regard.serve._estimates import Pace
from regard.serve._job import Job
from regard.serve._operations import Predicting
from tests.serve.test_batching import Noted, counted, jobs_of, texts

LONG = "Das Fenster wird automatisch geschlossen, wenn die Datei nicht gespeichert werden kann."


class Walking:
    """Texts that each take as many steps as their size; a step waits until it is let."""

    def __init__(self, width=1, fails_at=None):
        self.left, self.seen, self.width = {}, [], width
        self.free, self.fails_at, self.dropped = threading.Semaphore(0), fails_at, []

    @property
    def steps(self):
        return len(self.seen)

    def add(self, names, texts):
        self.left |= {n: int(text) for n, text in zip(names, texts, strict=True) if int(text)}
        return {n: "at once" for n, text in zip(names, texts, strict=True) if not int(text)}

    def drop(self, names):
        self.dropped += names
        for name in names:
            del self.left[name]

    def step(self):
        assert self.free.acquire(timeout=20)
        self.seen.append(len(self.left))
        if len(self.seen) == self.fails_at:
            raise ValueError("this step")
        self.left = {name: steps - 1 for name, steps in self.left.items()}
        done = [name for name, steps in self.left.items() if not steps]
        for name in done:
            del self.left[name]
        return dict.fromkeys(done, "walked")


class Going:
    """Work whose texts join."""

    alone = False

    def __init__(self, **more):
        self.texts, self.alone_calls = Walking(**more), []

    def running(self, sample):
        return self.texts

    def __call__(self, jobs, over):
        self.alone_calls.append([job.text for job in jobs])
        return ["by itself" for _ in jobs]


def walks(work, *steps, seconds=30.0):
    return [Job(str(n), n, work, time.monotonic() + seconds) for n in steps]


def until(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_who_comes_later_joins_and_leaves_before():
    work = Going()
    batcher = Batcher()
    (long,) = walks(work, 6)
    batcher.submit([long])
    work.texts.free.release(2)
    until(lambda: len(work.texts.seen) == 2)
    short, empty = walks(work, 2, 0)
    batcher.submit([short, empty])
    work.texts.free.release(3)  # one step may have begun before they came
    assert short.answer.result(10) == "walked"
    assert empty.answer.result(10) == "at once"
    assert not long.answer.done()
    work.texts.free.release(10)
    assert long.answer.result(10) == "walked"
    batcher.close()
    assert work.texts.seen in ([1, 1, 2, 2, 1, 1], [1, 1, 1, 2, 2, 1])
    assert not work.alone_calls


def test_texts_gather_where_reading_takes_longer_than_steps(monkeypatch):
    """Reading takes 5 s and a step 1 s: 4 steps come between two times that texts are read."""
    now = [0.0]
    monkeypatch.setattr(_continuous, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(_continuous, "SAVED", 1.0)

    class Slow(Walking):
        def add(self, names, texts):
            now[0] += 5
            return super().add(names, texts)

        def step(self):
            now[0] += 1
            return super().step()

    texts = Slow()
    texts.free.release(100)
    going = _continuous.Going(texts, Pace())
    assert going.open
    going.add(walks(Going(), 20))
    steps = 0
    while not going.open:
        going.step()
        steps += 1
    assert steps == 5
    for _ in range(9):
        going.step()
    going.add(walks(Going(), 20))  # what was saved is one step
    closed = 0
    while not going.open:
        going.step()
        closed += 1
    assert closed == 4


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize(("ratio", "joins"), [(9.0, True), (2.0, False)])
def test_short_outputs_of_a_program_are_decoded_by_batches(ratio, joins):
    loaded = regard.load("pronunciation-small")
    decoder = replace(loaded.decoder, max_ratio=ratio)
    found = running_texts(loaded.task, loaded.model, decoder, loaded.fields, "reading")
    assert (found is not None) is joins
    if found is not None:
        expected = loaded.task.predict(
            loaded.model, ["attend", "look"], decoder=decoder, fields=loaded.fields
        )
        given = found.add([0, 1], ["attend", "look"])
        while len(found):
            given |= found.step()
        assert [given[n].output for n in range(2)] == [one.output for one in expected]


def test_there_is_room_for_so_many():
    work = Going(width=40)
    batcher = Batcher(tokens=1000)
    jobs = walks(work, *[3] * 9)
    batcher.submit(jobs)
    work.texts.free.release(100)
    assert [job.answer.result(10) for job in jobs] == ["walked"] * 9
    batcher.close()
    assert max(work.texts.seen) == 8  # 320 hypotheses
    assert sum(work.texts.seen) == 27


def test_tokens_are_limited_but_one_text_always_fits():
    work = Going()
    batcher = Batcher(tokens=5)
    jobs = walks(work, 3, 2, 9, 1)
    batcher.submit(jobs)
    work.texts.free.release(100)
    assert [job.answer.result(10) for job in jobs] == ["walked"] * 4
    batcher.close()
    assert work.texts.seen == [2, 2, 1, *[1] * 9, 1]


def test_who_leaves_is_not_decoded_further():
    work = Going()
    batcher = Batcher()
    one, two = walks(work, 4, 4)
    batcher.submit([one, two])
    work.texts.free.release(1)
    until(lambda: len(work.texts.seen) == 1)
    one.answer.cancel()
    work.texts.free.release(10)
    assert two.answer.result(10) == "walked"
    (late,) = walks(work, 99, seconds=0.05)
    batcher.submit([late])
    time.sleep(0.1)
    work.texts.free.release(9)
    with pytest.raises(TimeoutError):
        late.answer.result(10)
    batcher.close()
    assert len(work.texts.dropped) == 2


def test_a_step_that_fails_leaves_each_to_itself():
    work = Going(fails_at=2)
    batcher = Batcher()
    jobs = walks(work, 1, 5, 6)
    batcher.submit(jobs)
    work.texts.free.release(10)
    assert [job.answer.result(10) for job in jobs] == ["walked", "by itself", "by itself"]
    batcher.close()
    assert work.alone_calls == [["5"], ["6"]]


def test_batches_and_what_is_going_take_turns():
    going, batched = Going(), Noted()
    batched.free.set()
    batcher = Batcher(wait=0.0)
    (walk,) = walks(going, 50)
    batcher.submit([walk])
    going.texts.free.release(3)
    until(lambda: len(going.texts.seen) == 3)
    jobs = jobs_of(batched, [5, 6])
    batcher.submit(jobs)
    going.texts.free.release(1)
    assert jobs[1].answer.result(10) == "TEXT 1"
    assert not walk.answer.done()
    going.texts.free.release(50)
    assert walk.answer.result(10) == "walked"
    batcher.close()
    assert batched.batches == [[5, 6]]


def test_closing_finishes_what_is_going():
    work = Going()
    batcher = Batcher()
    jobs = walks(work, 3, 5)
    batcher.submit(jobs)
    work.texts.free.release(20)
    batcher.close()
    assert [job.answer.result(0) for job in jobs] == ["walked"] * 2


def test_a_translation_joins_another(models, translator, monkeypatch):
    work = Predicting(models["de-en-small"], n_best=2)
    given = [LONG, *texts(6)]
    expected = [translator.predict([text], n_best=2)[0] for text in given]
    batcher = Batcher()
    jobs = [Job(text, 9, work, time.monotonic() + 60) for text in given]
    rows = counted(monkeypatch, lambda: time.sleep(0.002))
    batcher.submit(jobs[:1])
    until(lambda: len(rows) > 3)
    batcher.submit(jobs[1:])
    answers = [job.answer.result(60) for job in jobs]
    batcher.close()
    assert rows[:3] == [1, 1, 1]
    assert max(rows) == 7 - sum(not text.strip() for text in given)
    for answer, one in zip(answers, expected, strict=True):
        assert answer["output"] == one.output
        assert [a["output"] for a in answer["alternatives"]] == [a.output for a in one.alternatives]
        if one.output:
            assert answer["score"] == pytest.approx(one.score, abs=1e-6)


def test_the_line_through_the_steps():
    pace = Pace()
    for n in (1, 5, 2, 30, 8, 16, 3) * 9:
        pace.step(n, 0.004 + 0.001 * n)
    assert pace.more() == pytest.approx(0.001, rel=1e-3)
    same = Pace()
    for _ in range(50):
        same.step(4, 0.02)
    assert same.more() == pytest.approx(0.005)  # nothing is known of a line
    for n in (1, 2) * 50:
        same.step(n, 0.02 / n)  # a line that goes down
    assert 0 < same.more() < 0.005
    for _ in range(300):
        pace.ended(15)
    assert pace.steps == pytest.approx(15, abs=0.1)
    assert pace.lost(4) == pytest.approx(15 * 4 * pace.more(), rel=0.01)


def test_what_is_under_way_is_counted_by_what_it_takes_from_a_whole_text():
    """However far those are: others take their places."""
    work = Going()
    batcher = Batcher(backlog=1.0)
    for n in (1, 2, 3) * 20:
        batcher.pace.step(n, 0.3 + 0.1 * n)
    batcher.pace.steps = 3.0
    first = walks(work, 4, 4)
    batcher.submit(first)
    work.texts.free.release(1)
    until(lambda: len(work.texts.seen) == 1)
    assert batcher.expected() == pytest.approx(0.6, rel=0.2)  # three steps of two texts
    batcher.submit(walks(work, 4, 4))  # to wait for a step counts as to be in it
    assert batcher.expected() == pytest.approx(1.2, rel=0.2)
    with pytest.raises(Refusal, match="at most 1 may"):
        batcher.submit(walks(work, 4))
    work.texts.free.release(20)
    batcher.close()
