"""The routes: what HTTP asks, handed to the service, and its answers as HTTP gives them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from regard import __version__
from regard.errors import RequestError
from regard.serve import _playground
from regard.serve import _schemas as shapes
from regard.serve._content import kind_of
from regard.serve._docs_page import docs_page
from regard.serve._errors import Refusal, explained
from regard.serve._guard import Guard
from regard.serve._job import Job
from regard.serve._metrics import KIND
from regard.serve._models import Models
from regard.serve._operations import plain
from regard.serve._request_bodies import lines_of, read
from regard.serve._responses import AnswerLines, JsonResponse, check_lines, check_tokens, failed
from regard.serve._sample_inputs import as_input
from regard.serve._service import Service, abandon, events
from regard.serve.settings import Settings

__all__ = ["build"]

log = logging.getLogger(__name__)

LONG = 20_000
"""Letters of a request that are cut into tokens beside the loop, not in it."""

FILES = ("multipart/form-data", "application/octet-stream", "image/*", "audio/*")
ERROR = {
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}},
                "required": ["error"],
            },
            "example": {"error": "no model is called 'de-em': did you mean 'de-en'?"},
        }
    }
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"description": "No known key", **ERROR},
    404: {"description": "No such model", **ERROR},
    408: {"description": "The body came too slowly", **ERROR},
    413: {"description": "Too much at once", **ERROR},
    415: {"description": "Another content type", **ERROR},
    421: {"description": "Another host's name", **ERROR},
    422: {"description": "A wrong request", **ERROR},
    429: {"description": "Busy; see Retry-After", **ERROR},
    503: {"description": "Stopping; see Retry-After", **ERROR},
    504: {"description": "Out of time", **ERROR},
}


def _answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Refusals, and an answer of these content types."""
    schema = {"schema": {"type": "string"}}
    whole = {"schema": {"type": "object"}}
    # Of a stream of events, the schema is that of an event.
    objects = ("application/json", "text/event-stream")
    content = {kind: whole if kind in objects else schema for kind in kinds}
    return {200: {"description": "The answer", "content": content}, **REFUSALS}


def build(settings: Settings, models: Models | None = None) -> FastAPI:
    """The application: an ASGI app that any server of ASGI can run.

    Args:
        models: that were loaded before.

    Raises:
        RequestError: a folder cannot be loaded.
    """
    service = Service(settings, models or Models(settings))

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(service))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title="regard",
        version=__version__,
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        description="Models with attention: answers, scores, alignments, and what they looked at.",
    )
    app.state.service = service
    app.add_middleware(
        Guard, settings=settings, gate=service.gate, metrics=service.metrics
    )  # the outermost: what it refuses reaches nothing else
    for kind in (Refusal, RequestError, TimeoutError, HTTPException):
        app.add_exception_handler(kind, failed)
    _add_pages(app, service)
    _add_state(app, service)
    _add_predict(app, service)
    _add_others(app, service)
    return app


def _add_pages(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def front(request: Request) -> HTMLResponse:
        if "frame" in request.query_params:
            return HTMLResponse(_playground.frame(), headers=_playground.frame_headers())
        known = None if service.settings.keys else [one.as_json() for one in service.models]
        return HTMLResponse(_playground.page(known), headers=_playground.headers())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/models", summary="What is served", responses={401: REFUSALS[401]})
    async def models() -> Response:
        """What is served: task, architecture, inputs, options, and whether a reload failed."""
        return JsonResponse({"models": [one.as_json() for one in service.models]})

    @app.get("/health", summary="The process answers")
    async def health() -> Response:
        """The process answers."""
        return JsonResponse({"status": "ok"})

    @app.get("/ready", summary="Requests are taken", responses={503: REFUSALS[503]})
    async def ready() -> Response:
        """Requests are taken; 503 while the server stops."""
        if service.gate.draining:
            raise Refusal(503, "the server is stopping", 1)
        return JsonResponse({"status": "ready"})

    @app.get(
        "/metrics",
        summary="For Prometheus",
        response_class=PlainTextResponse,
        responses={401: REFUSALS[401]},
    )
    async def metrics() -> Response:
        """Counts, times and sizes, for Prometheus."""
        return Response(service.metrics.text(), media_type=KIND)


def _tried(service: Service, writes: bool = False) -> dict[str, list[str]]:
    """The examples of each model; names of models are for those with a key alone.

    Args:
        writes: of those alone that write text.
    """
    every = [] if service.settings.keys else [*service.models]
    return {
        one.name: [as_input(one.loaded.task.name, cells) for cells in one.examples]
        for one in every
        if one.examples and (one.writes or not writes)
    }


def _add_predict(app: FastAPI, service: Service) -> None:
    described = shapes.request_body(
        shapes.PredictBody, "application/x-ndjson", *FILES, inputs=_tried(service)
    )

    @app.post(
        "/predict",
        summary="Answer inputs",
        responses=_answers("application/json", "application/x-ndjson"),
        openapi_extra={"requestBody": described},
    )
    async def predict(request: Request) -> Response:
        """The outputs for one or several inputs, in order."""
        if kind_of(request) == "lines":
            return await _lines(service, request)
        asked = await read(request, shapes.PredictBody, service.settings.limits, "inputs")
        served = service.served(request, asked.model)
        texts = [asked.inputs] if isinstance(asked.inputs, str) else asked.inputs
        jobs = await _off(
            texts, lambda: service.predicting(served, asked, texts, align=asked.align)
        )
        found = await service.answers(request, jobs)
        return JsonResponse({"model": served.name, "predictions": found})

    streamed = shapes.request_body(shapes.StreamBody, *FILES, inputs=_tried(service, writes=True))

    @app.post(
        "/stream",
        summary="Answer an input step by step",
        responses=_answers("text/event-stream"),
        response_class=StreamingResponse,
        openapi_extra={"requestBody": streamed},
    )
    async def stream(request: Request) -> Response:
        """The output so far after each step of the decoder, as server-sent events."""
        began = time.monotonic()
        asked = await read(request, shapes.StreamBody, service.settings.limits, "input")
        steps = service.streaming(request, asked)
        first = await anext(steps, None)  # what is wrong with a request has a status of its own
        made = _events(service, asked, steps, first, began)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(made, media_type="text/event-stream", headers=headers)


def _add_others(app: FastAPI, service: Service) -> None:
    @app.post(
        "/score",
        summary="Judge outputs",
        responses=REFUSALS,
        openapi_extra={"requestBody": shapes.request_body(shapes.ScoreBody)},
    )
    async def score(request: Request) -> Response:
        """How likely given outputs are."""
        asked = await read(request, shapes.ScoreBody, service.settings.limits)
        served = service.served(request, asked.model)
        texts = [text for pair in asked.pairs for text in (pair.input, pair.output)]
        jobs = await _off(texts, lambda: service.scoring(served, asked.pairs))
        return JsonResponse({"model": served.name, "scores": await service.answers(request, jobs)})

    @app.post(
        "/align",
        summary="Align words",
        responses=REFUSALS,
        openapi_extra={"requestBody": shapes.request_body(shapes.AlignBody)},
    )
    async def align(request: Request) -> Response:
        """Which input word each output word comes from."""
        asked = await read(request, shapes.AlignBody, service.settings.limits)
        served = service.served(request, asked.model)
        if (asked.inputs is None) == (asked.pairs is None):
            raise Refusal(422, "expected exactly one of inputs and pairs of inputs and outputs")
        named = {"align": True, "attention": asked.attention, "head": asked.head}
        if asked.pairs is not None:
            pairs = asked.pairs
            texts = [text for pair in pairs for text in (pair.input, pair.output)]
            jobs = await _off(texts, lambda: service.scoring(served, pairs, **named))
        else:
            given = asked.inputs or []
            texts = [given] if isinstance(given, str) else given
            jobs = await _off(texts, lambda: service.predicting(served, asked, texts, **named))
        return JsonResponse(
            {"model": served.name, "predictions": await service.answers(request, jobs)}
        )

    looked = shapes.request_body(shapes.LookBody, *FILES, inputs=_tried(service))

    @app.post(
        "/look",
        summary="See what a model looked at",
        responses=_answers("application/json", "image/svg+xml", "text/html"),
        openapi_extra={"requestBody": looked},
    )
    async def look(request: Request) -> Response:
        """What a model looked at: JSON, SVG, or the viewer's page."""
        asked = await read(request, shapes.LookBody, service.settings.limits, "input")
        served = service.served(request, asked.model)
        jobs = await _off([asked.input], lambda: service.looking(served, asked))
        (found,) = await service.answers(request, jobs)
        if asked.format == "svg":
            return Response(found, media_type="image/svg+xml")
        if asked.format == "html":
            return HTMLResponse(found)
        return JsonResponse({"model": served.name, **found})


async def _off(texts: list[str], make: Any) -> list[Job]:
    """Cut into tokens; much of it beside the loop, which others wait for."""
    if sum(map(len, texts)) < LONG:
        made: list[Job] = make()
        return made
    return await asyncio.to_thread(make)


async def _lines(service: Service, request: Request) -> Response:
    served = service.served(request, request.query_params.get("model"))
    given = lines_of(await request.body(), request, shapes.LineBody)
    check_lines(given, service.settings.limits.texts)

    def jobs_of() -> list[Job | Refusal]:
        made: list[Job | Refusal] = []
        for one in given:
            try:
                if isinstance(one, Refusal):
                    raise one
                if one.model is not None and one.model != served.name:
                    raise Refusal(422, "model: it stands in the address, as ?model=NAME")
                made += service.predicting(served, one, [one.input], align=one.align)
            except (Refusal, RequestError) as error:
                made.append(explained(error))
        return made

    made = await asyncio.to_thread(jobs_of)
    jobs = [one for one in made if isinstance(one, Job)]
    check_tokens(sum(job.size for job in jobs), service.settings.limits.tokens)
    service.submit(request, jobs)

    async def answer(job: Job) -> Any:
        rest = max(job.deadline - time.monotonic(), 0.001)
        return await asyncio.wait_for(asyncio.wrap_future(job.answer), rest)

    return AnswerLines(made, answer, partial(abandon, jobs))


async def _events(
    service: Service, asked: shapes.StreamBody, steps: Any, first: Any, began: float
) -> AsyncIterator[bytes]:
    served, last, number = service.models[asked.model], first, 1
    try:
        if first is not None:
            yield _step(first, number)
        async for last in steps:
            number += 1
            yield _step(last, number)
        if last is not None:
            found = plain(served, last)
            if time.monotonic() - began >= service.settings.limits.seconds:
                found["truncated"] = True
            yield events("done", {"model": served.name, "prediction": found})
    except Exception as error:
        log.exception("a stream failed")
        yield events("error", explained(error).body)
    finally:
        await steps.aclose()


def _step(found: Any, number: int) -> bytes:
    told = found.as_json()
    kept = {key: told[key] for key in ("output", "score", "tokens", "alternatives")}
    return events("step", {"step": number, **kept})


async def _watch(service: Service) -> None:
    """Load folders that have changed, beside what is served."""
    while service.settings.reload > 0:
        await asyncio.sleep(service.settings.reload)
        try:
            for name in await asyncio.to_thread(service.models.refresh):
                service.metrics.reloads.labels(name).inc()
        except Exception:
            log.exception("the folders could not be looked at")
