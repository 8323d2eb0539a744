"""Content types of requests, and values as answers have them. Imports nothing heavy."""

import json
from typing import Any

from starlette.requests import Request

from regard.serve._errors import Refusal
from regard.system.plain_json import plain_value

__all__ = ["as_json", "check_writable", "kind_of"]

LINES = frozenset({"application/x-ndjson", "application/jsonl", "application/ndjson"})
BYTES = frozenset({"application/octet-stream"})


def kind_of(request: Request) -> str:
    """Its content type without parameters: "json", "lines", "form" or "bytes".

    Raises:
        Refusal: 415, another one.
    """
    given = request.headers.get("content-type", "application/json")
    kind = given.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return "json"
    if kind in LINES:
        return "lines"
    if kind == "multipart/form-data":
        return "form"
    if kind in BYTES or kind.startswith(("image/", "audio/")):
        return "bytes"
    raise Refusal(
        415,
        f"content type {kind[:60]!r}: expected application/json, application/x-ndjson,"
        " multipart/form-data, image/*, audio/* or application/octet-stream",
    )


def as_json(value: Any) -> bytes:
    """Plain values, without NaN."""
    return json.dumps(plain_value(value), ensure_ascii=False).encode()


def check_writable(text: str, where: str) -> None:
    """Refuse text that no file can hold.

    Raises:
        Refusal: 422, with half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start])
        raise Refusal(422, f"{where}: text with half of a surrogate pair, {half}") from None
