"""Texts of all requests that wait, answered together.

One thread computes. Texts that can be decoded while others come and go (`_going`) join at the next
step, the oldest first, as far as there is room. All others wait while something is computed; then
the oldest and those of the same work whose lengths are nearest to its own become one batch. Both
take turns. Where nothing is being computed, the first text of a batch waits for others for a
moment.
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from regard.serve._continuous import Going
from regard.serve._errors import Refusal, busy
from regard.serve._estimates import Pace
from regard.serve._job import Job, TextWork

__all__ = ["Batcher"]

log = logging.getLogger(__name__)

ROWS = 256
"""The most texts of a batch."""
HYPOTHESES = 320
"""The most that are decoded at once: more are hardly faster, and all take longer."""


class Batcher:
    """The queue and the thread that works it off.

    Args:
        tokens: of what is decoded at once, at most; of a batch, rows times the longest. A longer
            text is alone.
        wait: seconds that a text waits for others where nothing is being computed.
        queue: texts that may wait; more are refused with 429.
        backlog: seconds that a text may expect to wait for others, or to lose to them; where it is
            more, all are refused with 429.
        join: texts that can be decoded while others come and go join what is being decoded.
        prepare: called in the thread before anything else.
        noted: told of what has been answered: its jobs, the seconds it took, and how many texts
            were computed together.
    """

    def __init__(
        self,
        tokens: int = 4096,
        wait: float = 0.003,
        queue: int = 4096,
        backlog: float = math.inf,
        join: bool = True,
        *,
        prepare: Callable[[], None] = lambda: None,
        noted: Callable[[Sequence[Job], float, int], None] = lambda jobs, seconds, together: None,
    ) -> None:
        self.tokens, self.wait, self.most, self.backlog = tokens, wait, queue, backlog
        self.join, self.noted, self._prepare = join, noted, prepare
        self.pace = Pace()
        self._waiting: dict[TextWork, list[Job]] = {}
        self._sizes: Counter[TextWork] = Counter()  # tokens that wait
        self._going: dict[TextWork, Going] = {}
        self._batched: set[TextWork] = set()  # works that are known to come a batch at a time
        self._count, self._closed = 0, False
        self._turn = 0.0  # when the next batch may be computed while something is going
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="regard-batcher", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return self._count

    def expected(self) -> float:
        """How many seconds all that is there will take from a text that comes now.

        A text that can join waits for none of the others, but each of their steps makes its own
        longer.
        """
        texts, tokens = sum(map(len, [*self._going.values()])), 0
        for work, jobs in self._waiting.items():
            if work in self._going:
                texts += len(jobs)
            else:
                tokens += self._sizes[work]
        return self.pace.token * tokens + self.pace.lost(texts)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let these wait for their answers: all or none.

        Raises:
            Refusal: 429, the queue is full; 503, it is closed.
        """
        with self._changed:
            if self._closed:
                raise Refusal(503, "the server is stopping; ask again soon", 1)
            expected = self.expected()
            if self._count + len(jobs) > self.most:
                raise busy(
                    f"{self._count} texts are waiting, and at most {self.most} may: come again"
                    " soon, or send fewer at once",
                    expected,
                )
            if expected > self.backlog:
                raise busy(
                    f"what waits takes about {expected:.1f} seconds, and at most"
                    f" {self.backlog:g} may: come again soon",
                    expected,
                )
            for job in jobs:
                self._waiting.setdefault(job.work, []).append(job)
                self._sizes[job.work] += job.size
            self._count += len(jobs)
            self._changed.notify()

    def close(self) -> None:
        """Finish what waits, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        self._prepare()
        while (batch := self._next()) is not None:
            if not batch:
                self._step()
            elif (going := self._going.get(batch[0].work)) is not None:
                self._join(going, batch)
            else:
                started = time.monotonic()
                for job in batch:
                    job.began = started
                self._answer(batch)
                now = time.monotonic()
                self._turn = now + now - started
                self.pace.batch(sum(job.size for job in batch), now - started)
                self.noted(batch, now - started, len(batch))

    # -- what comes next

    def _next(self) -> list[Job] | None:
        """What may begin now; []: nothing, something is going; None: there is and will be none."""
        while True:
            with self._changed:
                work = self._choose()
                if work is None:
                    return [] if self._going else None
                known = work in self._going or work in self._batched
                if known:
                    batch = self._fitting(work) if work in self._going else self._batch(work)
                    self._take(work, batch)
                    return batch
            self._learn(work)

    def _choose(self) -> TextWork | None:
        """The work whose oldest text is next; None: none may begin now, or there is none."""
        while True:
            self._drop()
            now, soon = time.monotonic(), math.inf
            for work, jobs in sorted(self._waiting.items(), key=lambda own: own[1][0].queued):
                if work in self._going:
                    # Who is younger does not overtake who finds no room.
                    ready = self._going[work].open and self._room(work, jobs[0])
                    return work if ready else None
                if work not in self._batched:
                    return work
                if self._going:
                    if now >= self._turn:
                        return work
                    continue
                early = jobs[0].queued + self.wait - now
                full = self._sizes[work] >= self.tokens or len(jobs) >= ROWS
                if early <= 0 or work.alone or full or self._closed:
                    return work
                soon = min(soon, early)
            if self._going or (self._closed and not self._waiting):
                return None
            self._changed.wait(None if soon == math.inf else soon)

    def _learn(self, work: TextWork) -> None:
        """Find out whether texts of this work can be decoded while others come."""
        with self._changed:
            sample = next((job.text for job in self._waiting.get(work, ())), "")
        try:
            texts = None if work.alone or not self.join else work.running(sample)
        except Exception:  # whatever it is, it comes again where it can be told
            texts = None
        with self._changed:
            if texts is None:
                self._batched.add(work)
            else:
                self._going[work] = Going(texts, self.pace)

    def _room(self, work: TextWork, job: Job, more: Sequence[Job] = ()) -> bool:
        """Whether a text may join what is going and `more` of its work; one alone always may."""
        if not more and not any(map(len, self._going.values())):
            return True
        width = self._going[work].texts.width
        rows = sum(going.rows for going in self._going.values()) + width * (len(more) + 1)
        tokens = sum(going.tokens for going in self._going.values()) + job.size
        return rows <= HYPOTHESES and tokens + sum(one.size for one in more) <= self.tokens

    def _fitting(self, work: TextWork) -> list[Job]:
        """The oldest that have room, and are older than all of any other work."""
        others = (jobs[0].queued for own, jobs in self._waiting.items() if own is not work)
        until = min(others, default=math.inf)
        batch: list[Job] = []
        for job in self._waiting[work]:
            if batch and (job.queued > until or not self._room(work, job, batch)):
                break
            batch.append(job)
        return batch

    def _batch(self, work: TextWork) -> list[Job]:
        """The oldest and those nearest to it in length, sorted by length."""
        jobs = self._waiting[work]
        if work.alone:
            return jobs[:1]
        order = sorted(jobs, key=lambda job: job.size)
        low = high = order.index(jobs[0])
        while high - low + 1 < ROWS:
            longest, rows = order[high].size, high - low + 2
            below = low > 0 and rows * longest <= self.tokens
            above = high + 1 < len(order) and rows * order[high + 1].size <= self.tokens
            if below and above:
                oldest = jobs[0].size
                below = oldest - order[low - 1].size <= order[high + 1].size - oldest
            if below:
                low -= 1
            elif above:
                high += 1
            else:
                break
        return order[low : high + 1]

    def _take(self, work: TextWork, batch: Sequence[Job]) -> None:
        taken = set(map(id, batch))
        rest = [job for job in self._waiting[work] if id(job) not in taken]
        self._sizes[work] -= sum(job.size for job in batch)
        if rest:
            self._waiting[work] = rest
        else:
            del self._waiting[work], self._sizes[work]
            self._batched.discard(work)
        self._count -= len(batch)

    def _drop(self) -> None:
        """Forget those for whom nobody waits."""
        for work, jobs in [*self._waiting.items()]:
            left = [job for job in jobs if job.over()]
            for job in left:
                job.finish(TimeoutError())
            if left:
                self._take(work, left)

    # -- what is computed

    def _join(self, going: Going, batch: Sequence[Job]) -> None:
        """Let texts begin with the next step."""
        try:
            ended = going.add(batch)
        except Exception:  # each by itself: one may be what the others failed by
            self._answer(batch)
            ended = [*batch]
        if ended:
            self.noted(ended, 0.0, max(len(going), len(ended)))

    def _step(self) -> None:
        """One step of all that is going."""
        for work, going in [*self._going.items()]:
            together = max(1, len(going))
            try:
                ended = going.step()
            except Exception:
                ended = going.jobs
                going.forget()
                for job in ended:
                    self._answer([job])
            if ended:
                seconds, going.seconds = going.seconds, 0.0
                self.noted(ended, seconds, together)
            if not going:
                with self._changed:
                    del self._going[work]

    def _answer(self, batch: Sequence[Job]) -> None:
        try:
            made = batch[0].work(batch, lambda: all(job.settled() for job in batch))
            for job, found in zip(batch, made, strict=True):
                job.finish(TimeoutError() if job.over() else found)  # it may have been cut off
        except Exception as error:
            if len(batch) == 1:
                if not isinstance(error, ValueError):  # of what was asked: its author is told
                    log.exception("a text could not be answered")
                batch[0].finish(error)
                return
            for job in batch:  # one may be what the others failed by
                if not job.settled():
                    self._answer([job])
