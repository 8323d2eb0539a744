"""A server's queue and its model without HTTP, on a clock of CPU time.

    python benchmarks/serve_queue.py [--wait 0.5 --seconds 30 --turns 2]

The clock of the queue is the CPU time of the thread that computes, and jumps to the next text where
nothing is to be done: what else the machine does delays nobody. First, how many texts a second
there are with 64 clients that each wait for their answer, also with one text at a time
(`--batch-tokens 1`); then latencies of texts that come at a constant rate, at shares of that, and
how many are refused. Each turn measures all of it again.
"""

import argparse
import gc
import heapq
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from regard.serve import _batcher, _job
from regard.serve._batcher import Batcher
from regard.serve._errors import Refusal
from regard.serve._job import Job
from regard.serve._models import Models
from regard.serve._operations import Predicting
from regard.serve.settings import Settings, named
from serve import say, texts_of


class Clock:
    """CPU time of this thread, and the jumps over time in which there is nothing to do."""

    def __init__(self) -> None:
        self.jumped = -time.thread_time()

    def monotonic(self) -> float:
        return self.jumped + time.thread_time()

    def jump(self, until: float) -> None:
        self.jumped += max(0.0, until - self.monotonic())


class Queue:
    """A batcher that this thread drives."""

    def __init__(self, served: Any, clock: Clock, **settings: Any) -> None:
        self.served, self.clock = served, clock
        with patch.object(threading.Thread, "start", lambda self: None):
            self.batcher = Batcher(wait=0.0, **settings)
        self.work = Predicting(served)

    def submit(self, text: str, due: float, done: Callable[[float], None]) -> bool:
        """Whether it was taken."""
        job = Job(text, self.served.size(text), self.work, due + 1e6, queued=due)
        try:
            self.batcher.submit([job])
        except Refusal:
            return False
        job.answer.add_done_callback(lambda _: done(self.clock.monotonic()))
        return True

    def turn(self) -> None:
        """Compute what is next."""
        batcher = self.batcher
        batch = batcher._next()
        if not batch:
            batcher._step()
        elif (going := batcher._going.get(batch[0].work)) is not None:
            batcher._join(going, batch)
        else:
            batcher._answer(batch)


def closed(queue: Queue, texts: Iterator[str], clients: int, seconds: float) -> float:
    """Texts a second of clients that each wait for their answer."""
    answered = [queue.clock.monotonic()]
    began, free = answered[0], clients

    def done(now: float) -> None:
        nonlocal free
        answered.append(now)
        free += 1

    while free < clients or queue.clock.monotonic() < began + seconds:
        while free and queue.clock.monotonic() < began + seconds:
            free -= 1
            queue.submit(next(texts), queue.clock.monotonic(), done)
        if free < clients:
            queue.turn()
    return (len(answered) - 1) / (answered[-1] - began)


def opened(queue: Queue, texts: Iterator[str], rate: float, seconds: float) -> dict[str, Any]:
    """Latencies of texts that come at a constant rate."""
    clock, took = queue.clock, list[float]()
    began = clock.monotonic()
    due = [began + number / rate for number in range(round(rate * seconds))]
    heapq.heapify(due)
    asked, refused, open_ = len(due), 0, 0

    while due or open_:
        while due and due[0] <= clock.monotonic():
            moment = heapq.heappop(due)

            def done(now: float, moment: float = moment) -> None:
                nonlocal open_
                took.append(now - moment)
                open_ -= 1

            open_ += 1
            if not queue.submit(next(texts), moment, done):
                open_, refused = open_ - 1, refused + 1
        if open_:
            queue.turn()
        elif due:
            clock.jump(due[0])
    found = np.percentile(took, [50, 95, 99]) * 1000
    made = {f"p{p}_ms": round(float(v)) for p, v in zip((50, 95, 99), found, strict=True)}
    return {"asked": asked, "refused": refused, **made,
            "served_per_s": round(len(took) / (clock.monotonic() - began), 1)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--data", default="mt/de-en/test.tsv.gz")
    parser.add_argument("--column", default="other")
    parser.add_argument("--seconds", type=float, default=30.0, help="of CPU time, each rate")
    parser.add_argument("--wait", type=float, default=0.5, help="--max-wait at 50, 80, 120 %%")
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    served = Models(Settings(models=named([options.model])))[None]
    texts = cycle(texts_of(options.data, options.column, 400))
    gc.collect()
    gc.freeze()
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock.monotonic)
    from regard.serve import _continuous

    with patch.object(_batcher, "time", fake), patch.object(_job, "time", fake), patch.object(
        _continuous, "time", fake
    ):  # fmt: skip
        closed(Queue(served, clock), texts, 8, 1.0)
        for _ in range(options.turns):
            single = closed(Queue(served, clock, tokens=1), texts, 64, options.seconds / 4)
            rate = closed(Queue(served, clock), texts, 64, options.seconds / 2)
            say(what="capacity", texts_per_s=round(rate, 1), one_at_a_time=round(single, 1),
                ratio=round(rate / single, 2))  # fmt: skip
            for share in (0.5, 0.8, 1.2):
                queue = Queue(served, clock, backlog=options.wait)
                closed(queue, texts, 4, 0.5)
                found = opened(queue, texts, share * rate, options.seconds)
                say(what="latency", share=share, rate=round(share * rate, 1), **found)


if __name__ == "__main__":
    main()
