"""From what is asked to jobs and their answers; everything that routes have in common."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import torch
from starlette.requests import Request

from regard.data.addresses import URL
from regard.decode.request import DecodingRequest, by_name
from regard.errors import RequestError
from regard.inference.placeholders import signs
from regard.serve import _schemas as shapes
from regard.serve._batcher import Batcher
from regard.serve._content import as_json, check_writable
from regard.serve._errors import Refusal
from regard.serve._guard import Gate, noting
from regard.serve._job import Job, TextWork
from regard.serve._metrics import Metrics
from regard.serve._models import Models, Served
from regard.serve._operations import Looking, Predicting, Scoring, check_decode
from regard.serve._responses import check_tokens
from regard.serve._streams import Streams
from regard.serve.settings import Settings

__all__ = ["Service", "abandon", "events"]


async def left(request: Request) -> None:
    """Return when the client has gone; its body was read to the end before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Service:
    """Models, the queue, streams and numbers of one process."""

    def __init__(self, settings: Settings, models: Models) -> None:
        self.settings, self.models = settings, models
        self.gate, self.metrics = Gate(), Metrics()
        limits = settings.limits
        self.batcher = Batcher(
            settings.batch_tokens,
            settings.wait,
            limits.queue,
            limits.wait,
            settings.join,
            prepare=self._prepare,
            noted=self._note,
        )
        self.streams = Streams(limits.streams, self._prepare)

    def _note(self, jobs: Sequence[Job], seconds: float, together: int) -> None:
        self.metrics.answered(jobs, seconds, together)
        self.metrics.queue.set(len(self.batcher))

    def _prepare(self) -> None:
        torch.set_num_threads(self.settings.threads)  # counts for the thread that says it

    def close(self) -> None:
        """Finish what was taken."""
        self.batcher.close()
        self.streams.close()

    # -- what is asked

    def predicting(
        self, served: Served, asked: Any, texts: Sequence[str], **more: Any
    ) -> list[Job]:
        """A job for each text."""
        check_decode(served, asked.n_best, asked.decode, self.settings.limits)
        own = self._requests(served, asked, len(texts))
        align = bool(more.pop("align", False))
        keep = own[0].keep if own else ()
        if keep:
            signs(served.loaded.tokenizers)
            if align:
                raise RequestError("keep: expected without align")
        settings, names = tuple(sorted(asked.decode.items())), own[0].names if own else frozenset()
        more |= {"tokens": self.settings.batch_tokens, "keep": keep}
        work = Predicting(served, asked.n_best, settings, names, align, **more)
        return self._jobs(served, work, texts, own)

    def scoring(self, served: Served, pairs: Sequence[shapes.PairBody], **more: Any) -> list[Job]:
        """A job for each pair."""
        work = Scoring(served, tokens=self.settings.batch_tokens, **more)
        outputs = [pair.output for pair in pairs]
        for number, output in enumerate(outputs):
            check_writable(output, f"pairs[{number}].output")
        return self._jobs(served, work, [pair.input for pair in pairs], outputs, "pairs")

    def looking(self, served: Served, asked: shapes.LookBody) -> list[Job]:
        """A job for a picture."""
        more = asked.model_dump(exclude={"model", "input"})
        if asked.hypothesis > self.settings.limits.beam:
            raise RequestError(
                f"hypothesis: at most {self.settings.limits.beam} here, got {asked.hypothesis}"
            )
        if asked.target is not None:
            check_writable(asked.target, "target")
        return self._jobs(served, Looking(served, **more), [asked.input], [None], "input")

    def streaming(self, request: Request, asked: shapes.StreamBody) -> AsyncIterator[Any]:
        """The steps of an output."""
        served = self.served(request, asked.model)
        check_decode(served, asked.n_best, asked.decode, self.settings.limits)
        wanted = self._requests(served, asked, 1)
        self._jobs(served, Scoring(served), [asked.input], [None], "input")  # checks it
        own = {name: one for name, (one,) in by_name(wanted).items()}
        width = {"n_best": asked.n_best} if asked.n_best > 1 else {}
        told = {**own, **asked.decode, **width}
        return self.streams.open(served, asked.input, told, self.settings.limits.seconds)

    def served(self, request: Request, name: str | None) -> Served:
        """The model that is asked, and a note of it."""
        found = self.models[name]
        noting(request.scope, model=found.name)
        return found

    def _requests(self, served: Served, asked: Any, count: int) -> list[DecodingRequest]:
        """What is asked of each output."""
        prefix = asked.prefix
        if isinstance(prefix, list) and len(prefix) != count:
            raise Refusal(
                422, f"prefix: expected one for each of {count} inputs, got {len(prefix)}"
            )
        each = prefix if isinstance(prefix, list) else [prefix] * count
        common = {name: getattr(asked, name, None) for name in ("force_words", "bad_words", "keep")}
        made = [DecodingRequest.of({**common, "prefix": one}) for one in each]
        for name, own in {"prefix": each, **common}.items():
            for one in own or ():
                check_writable(one or "", name)
        task, names = served.loaded.task, frozenset().union(*(one.names for one in made))
        task.check_options(sorted(names - {"keep"} | ({"prefix"} if prefix is not None else set())))
        if "keep" in names:
            task.check_options(["keep"], decoding=True)
        return made

    def _jobs(
        self,
        served: Served,
        work: TextWork,
        texts: Sequence[str],
        own: Sequence[Any],
        key: str = "inputs",
    ) -> list[Job]:
        limits = self.settings.limits
        if not texts:
            raise Refusal(422, f"{key}: expected one or more, got none")
        if len(texts) > limits.texts:
            raise Refusal(413, f"{key}: {len(texts)} at once, at most {limits.texts}; send fewer")
        files = served.loaded.task.reads_files
        for number, text in enumerate(texts):
            check_writable(text, f"{key}[{number}]" if len(texts) > 1 else key)
            if files and text.strip() and not text.startswith(URL):
                raise Refusal(
                    422,
                    f"{served.name} reads files: expected their bytes, as an upload or as a data:"
                    " URL with base64",
                )
        sizes = [served.size(text) for text in texts]
        check_tokens(sum(sizes), limits.tokens, f"{key}: ")
        deadline = time.monotonic() + limits.seconds
        return [
            Job(
                text,
                max(size, served.size(one)) if isinstance(one, str) else size,
                work,
                deadline,
                one,
            )
            for text, size, one in zip(texts, sizes, own, strict=True)
        ]

    # -- answers

    async def answers(self, request: Request, jobs: Sequence[Job]) -> list[Any]:
        """The answers of all jobs.

        Raises:
            Refusal: the queue is full, the client has left, or one cannot be answered.
            TimeoutError: the time is over.
        """
        self.submit(request, jobs)
        every: asyncio.Future[list[Any]] = asyncio.gather(
            *(asyncio.wrap_future(job.answer) for job in jobs)
        )
        gone: asyncio.Future[None] = asyncio.ensure_future(left(request))
        waiting: set[asyncio.Future[Any]] = {every, gone}
        try:
            rest = jobs[0].deadline - time.monotonic()
            await asyncio.wait(waiting, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
            if every.done():
                return list(every.result())
            if gone.done():
                raise Refusal(499, "the client has left")
            raise TimeoutError
        finally:
            gone.cancel()
            every.cancel()
            abandon(jobs)

    def submit(self, request: Request, jobs: Sequence[Job]) -> None:
        """Let jobs wait, and note them."""
        about: dict[str, Any] = {"texts": len(jobs), "tokens": sum(job.size for job in jobs)}
        if self.settings.log_texts:
            about["inputs"] = [job.text[:2000] for job in jobs]
        noting(request.scope, **about)
        self.batcher.submit(jobs)
        self.metrics.queue.set(len(self.batcher))


def abandon(jobs: Sequence[Job]) -> None:
    """Nobody waits for what has no answer yet."""
    for job in jobs:
        job.answer.cancel()


def events(kind: str, value: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"event: " + kind.encode() + b"\ndata: " + as_json(value) + b"\n\n"
