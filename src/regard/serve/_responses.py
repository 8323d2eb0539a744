"""Answers as HTTP gives them, with PyTorch and without. Imports nothing heavy."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from regard.serve._content import as_json
from regard.serve._errors import Refusal, explained

__all__ = ["AnswerLines", "JsonResponse", "check_lines", "check_tokens", "failed"]

log = logging.getLogger(__name__)


class JsonResponse(Response):
    """Plain values, without NaN."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return as_json(content)


class AnswerLines(StreamingResponse):
    """An answer for each line of a request, in order; one that fails costs itself alone.

    Args:
        waiting: what is waited for, or why it is refused.
        answer: waits for one of them.
        leave: is called at the end, also where the client has gone.
    """

    def __init__(
        self,
        waiting: Sequence[Any],
        answer: Callable[[Any], Awaitable[Any]],
        leave: Callable[[], None],
    ) -> None:
        async def lines() -> AsyncIterator[bytes]:
            try:
                for one in waiting:
                    try:
                        if isinstance(one, Refusal):
                            raise one
                        found = await answer(one)
                    except Exception as error:
                        found = explained(error).body
                    yield as_json(found) + b"\n"
            finally:
                leave()

        super().__init__(lines(), media_type="application/x-ndjson")


def check_lines(lines: Sequence[Any], most: int) -> None:
    """Refuse no line at all, and too many.

    Raises:
        Refusal: 422 or 413.
    """
    if not lines:
        raise Refusal(422, "expected lines of JSON, got none")
    if len(lines) > most:
        raise Refusal(413, f"{len(lines)} lines at once, at most {most}; send fewer")


def check_tokens(tokens: int, most: int, where: str = "") -> None:
    """Refuse too many tokens.

    Args:
        where: stands before the sentence.

    Raises:
        Refusal: 413.
    """
    if tokens > most:
        raise Refusal(413, f"{where}{tokens:,} tokens at once, at most {most:,}; send fewer")


async def failed(request: Request, error: Exception) -> Response:
    """What a request gets that failed."""
    if isinstance(error, HTTPException):
        said = {404: "there is no such route; see /docs", 405: "this route has another method"}
        sentence = said.get(error.status_code, str(error.detail))
        found = Refusal(error.status_code, sentence)
        return JsonResponse(found.body, found.status, {**(error.headers or {}), **found.headers})
    found = explained(error)
    if found.status == 500:
        log.error("a request failed", exc_info=error)
    return JsonResponse(found.body, found.status, found.headers)
