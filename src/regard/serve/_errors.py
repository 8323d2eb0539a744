"""What a request is refused with: a status, one sentence, and when to come again."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regard.errors import RegardError, RequestError, nearest

__all__ = ["Refusal", "ServerError", "busy", "explained", "sentence_of"]


class Refusal(RegardError):
    """A request is not answered.

    Args:
        status: of HTTP.
        sentence: what was expected and what came.
        retry: seconds after which it may come again.
    """

    def __init__(self, status: int, sentence: str, retry: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry = status, retry

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` and the scheme of keys, where they belong."""
        found = {} if self.retry is None else {"Retry-After": str(self.retry)}
        return {**found, "WWW-Authenticate": "Bearer"} if self.status == 401 else found

    @property
    def body(self) -> dict[str, str]:
        """As JSON."""
        return {"error": str(self)}


class ServerError(RegardError):
    """The server refused: its sentence, the `status` of HTTP, the seconds to wait (`retry`)."""

    def __init__(self, status: int, sentence: str, retry: str | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry = status, None if retry is None else float(retry)


def busy(sentence: str, seconds: float = 1.0) -> Refusal:
    """429: come again after this many seconds."""
    return Refusal(429, sentence, max(1, round(seconds)))


def explained(error: BaseException) -> Refusal:
    """Any failure as a refusal; the particulars of what was not foreseen stay in the log."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestError):
        return Refusal(422, str(error))
    if isinstance(error, TimeoutError):
        return Refusal(504, "the time for a request is over; send less at once, or ask again", 1)
    if isinstance(error, MemoryError):
        return Refusal(413, "there is not enough memory for this request; send less at once")
    if isinstance(error, RegardError):
        return Refusal(500, str(error))
    return Refusal(500, "something went wrong in the server; its log has the particulars")


def sentence_of(error: ValidationError, known: Mapping[str, Any]) -> str:
    """The first thing that is wrong with a request, and how many more there are.

    Args:
        known: the keys that the request may have.
    """
    found = error.errors(include_url=False, include_context=False)
    found.sort(key=lambda one: one["type"] != "extra_forbidden")  # a wrong name explains the rest
    same = [one for one in found if one["loc"][:1] == found[0]["loc"][:1]]
    # Of several kinds that a value may have, what got furthest was meant.
    first, more = max(same, key=lambda one: len(one["loc"])), len({e["loc"][:1] for e in found}) - 1
    where = _place(first["loc"])
    said = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "json_invalid":
        return f"the body is no JSON: {said.removeprefix('invalid JSON: ')}"
    if first["type"] == "extra_forbidden":
        last = str(first["loc"][-1])
        return f"there is no key {where!r}: {nearest(last, known)}"
    if first["type"] == "missing":
        sentence = f"{where} is missing"
    elif not where:
        sentence = f"the body: {said}"
    else:
        sentence = f"{where}: {said}, got {_short(first['input'])}"
    return sentence + (f" (and {more} more)" if more > 0 else "")


def _place(loc: tuple[int | str, ...]) -> str:
    """`pairs[3].output`; the kinds of a union, which pydantic names too, are left out."""
    place = ""
    for part in loc:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part.isidentifier() and part not in ("str", "int", "float", "bool"):
            place += f".{part}" if place else part
    return place[:80]


def _short(value: Any) -> str:
    found = repr(value)
    return found if len(found) <= 60 else f"{found[:50]}…"
