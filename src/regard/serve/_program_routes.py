"""The routes of a server without PyTorch: `/predict` by NumPy, and what says how it is.

It needs Starlette and uvicorn, neither FastAPI nor what counts for Prometheus. One thread computes,
a text at a time. What needs PyTorch is answered with 501 and a sentence.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from regard import __version__
from regard.errors import RequestError
from regard.runtime.answer import PlainPrediction
from regard.runtime.stored_program import BeyondProgram
from regard.serve._content import kind_of
from regard.serve._docs_page import docs_page
from regard.serve._errors import Refusal, busy, explained
from regard.serve._guard import Gate, Guard, noting
from regard.serve._program_models import ProgramModels, ServedProgram
from regard.serve._program_requests import ProgramRequest, asked_in, needs_torch, object_of
from regard.serve._responses import AnswerLines, JsonResponse, check_lines, check_tokens, failed
from regard.serve.settings import Settings

__all__ = ["build"]

log = logging.getLogger(__name__)

LACKING = ("/stream", "/score", "/align", "/look")
"""Routes that need PyTorch."""
EXAMPLE = {"inputs": ["Das Fenster wird geschlossen."]}


class _Uncounted:
    """In the place of counters and histograms: they are for Prometheus, whose client is heavy."""

    def __getattr__(self, name: str) -> "_Uncounted":
        return self

    def __call__(self, *values: object) -> "_Uncounted":
        return self


class _Answers:
    """The models, and the thread that computes."""

    def __init__(self, settings: Settings, models: ProgramModels) -> None:
        self.settings, self.models, self.gate = settings, models, Gate()
        self.pool = ThreadPoolExecutor(1, "regard-programs")
        self.waiting = 0

    def submit(
        self, request: Request, served: ServedProgram, asked: Sequence[ProgramRequest]
    ) -> list[asyncio.Future[dict[str, Any]]]:
        """Let texts wait for their answers.

        Raises:
            Refusal: there are none or too many, too much waits, or PyTorch is needed.
            RequestError: see `ProgramRequest.program`.
        """
        limits = self.settings.limits
        each = [(one.program(served, limits), text) for one in asked for text in one.texts]
        texts = [text for _, text in each]
        if not texts:
            raise Refusal(422, "inputs: expected one or more, got none")
        if len(texts) > limits.texts:
            raise Refusal(413, f"{len(texts)} inputs at once, at most {limits.texts}; send fewer")
        tokens = sum(map(served.size, texts))
        check_tokens(tokens, limits.tokens)
        if self.waiting + len(texts) > limits.queue:
            raise busy(
                f"{self.waiting} texts are waiting, and at most {limits.queue} may: come again soon"
            )
        about: dict[str, Any] = {"model": served.name, "texts": len(texts), "tokens": tokens}
        if self.settings.log_texts:
            about["inputs"] = [text[:2000] for text in texts]
        noting(request.scope, **about)
        loop, end = asyncio.get_running_loop(), time.monotonic() + limits.seconds
        made = []
        for program, text in each:
            self.waiting += 1
            one = loop.run_in_executor(self.pool, partial(_answer, program, text, end))
            one.add_done_callback(self._done)
            made.append(one)
        return made

    def _done(self, one: Any) -> None:
        self.waiting -= 1

    async def watch(self) -> None:
        """Load folders that have changed, beside what is served."""
        while self.settings.reload > 0:
            await asyncio.sleep(self.settings.reload)
            try:
                await asyncio.to_thread(self.models.refresh)
            except Exception:
                log.exception("the folders could not be looked at")


def _answer(program: Any, text: str, end: float) -> dict[str, Any]:
    """The answer to a text, in the thread that computes."""
    if time.monotonic() > end:
        raise TimeoutError
    try:
        found: PlainPrediction = program.predict([text])[0]
    except BeyondProgram as error:
        raise needs_torch(f"{text[:40]!r}: {error}; this") from None
    made = found.as_json()
    return {**made, "refused": found.refused} if found.refused else made


def build(settings: Settings, models: ProgramModels | None = None) -> Starlette:
    """The application: an ASGI app that any server of ASGI can run.

    Args:
        models: that were loaded before.

    Raises:
        RequestError: a folder has no program that can be used.
    """
    answers = _Answers(settings, models or ProgramModels(settings))

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(answers.watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await asyncio.to_thread(answers.pool.shutdown)

    guard = Middleware(Guard, settings=settings, gate=answers.gate, metrics=_Uncounted())  # type: ignore[arg-type]
    kinds = (Refusal, RequestError, TimeoutError, HTTPException)
    app = Starlette(
        routes=_routes(answers),
        middleware=[guard],
        exception_handlers=dict.fromkeys(kinds, failed),
        lifespan=running,
    )
    app.state.service = answers
    return app


def _routes(answers: _Answers) -> list[Route]:
    async def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(OPENAPI))

    async def openapi(request: Request) -> Response:
        return JsonResponse(OPENAPI)

    async def models(request: Request) -> Response:
        return JsonResponse({"models": [one.as_json() for one in answers.models]})

    async def health(request: Request) -> Response:
        return JsonResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if answers.gate.draining:
            raise Refusal(503, "the server is stopping", 1)
        return JsonResponse({"status": "ready"})

    async def predict(request: Request) -> Response:
        kind = kind_of(request)
        if kind == "lines":
            return await _lines(answers, request)
        if kind != "json":
            raise needs_torch("a model that reads files")
        asked = asked_in(object_of(await request.body()), "inputs")
        served = answers.models[asked.model]
        waiting = answers.submit(request, served, [asked])
        try:
            async with asyncio.timeout(answers.settings.limits.seconds):
                found = await asyncio.gather(*waiting)
        finally:
            for one in waiting:
                one.cancel()
        return JsonResponse({"model": served.name, "predictions": found})

    async def lacking(request: Request) -> Response:
        raise needs_torch(request.url.path)

    async def metrics(request: Request) -> Response:
        raise needs_torch("/metrics")

    return [
        Route("/", docs),
        Route("/docs", docs),
        Route("/openapi.json", openapi),
        Route("/models", models),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        Route("/predict", predict, methods=["POST"]),
        *(Route(path, lacking, methods=["POST"]) for path in LACKING),
    ]


async def _lines(answers: _Answers, request: Request) -> Response:
    """An answer for each line, a text in JSON or an object, in order."""
    served = answers.models[request.query_params.get("model")]
    if others := [key for key in request.query_params if key != "model"]:
        raise needs_torch(f"{others[0][:60]} in the address")
    lines = [line for line in (await request.body()).split(b"\n") if line.strip()]
    check_lines(lines, answers.settings.limits.texts)
    waiting: list[Any] = []
    for line in lines:
        try:
            value = object_of(line)
            asked = asked_in({"input": value} if isinstance(value, str) else value, "input")
            if asked.model is not None and asked.model != served.name:
                raise Refusal(422, "model: it stands in the address, as ?model=NAME")
            waiting += answers.submit(request, served, [asked])
        except (Refusal, RequestError) as error:
            waiting.append(explained(error))

    async def answer(one: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        return await one

    def leave() -> None:
        for one in waiting:
            if not isinstance(one, Refusal):
                one.cancel()

    return AnswerLines(waiting, answer, leave)


def _route(method: str, said: str, **more: Any) -> dict[str, Any]:
    return {method: {"summary": said, "responses": {"200": {"description": "The answer"}}, **more}}


OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "regard, without PyTorch", "version": __version__},
    "paths": {
        "/models": _route("get", "What is served: task, architecture and inputs."),
        "/health": _route("get", "The process answers."),
        "/ready": _route("get", "Requests are taken; 503 while the server stops."),
        "/predict": _route(
            "post",
            "The outputs for one or several inputs, in order; keys are model, inputs, n_best and "
            "decode. Lines of JSON, too.",
            requestBody={"content": {"application/json": {"example": EXAMPLE}}},
        ),
        **{path: _route("post", "501: this needs PyTorch.") for path in LACKING},
    },
}
"""What there is, as `/docs` shows it."""
