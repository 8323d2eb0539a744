"""From the body of a request to what is asked: JSON, JSON lines, forms with files, bytes.

A file becomes a `data:` URL: its bytes, never its name or a place.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from regard.errors import nearest
from regard.serve._content import kind_of
from regard.serve._errors import Refusal
from regard.serve.settings import Limits

__all__ = ["lines_of", "one_of", "read"]

Shape = TypeVar("Shape", bound=BaseModel)

SEVERAL = frozenset({"force_words", "bad_words", "inputs", "keep"})
FIELDS = 64
"""Fields of a form that are no files."""


async def read(request: Request, shape: type[Shape], limits: Limits, file: str = "") -> Shape:
    """What is asked.

    Args:
        shape: of the request.
        file: the key that uploads stand for; "": there is none.

    Raises:
        Refusal: 415 for other content types, 422 for what is not of that shape.
    """
    kind = kind_of(request)
    if kind == "json":
        return one_of(await request.body(), shape)
    if not file or kind == "lines":
        raise Refusal(415, f"{request.url.path}: expected application/json")
    values = _of_query(request)
    if kind == "bytes":
        content = await request.body()
        files = [_url(content, request.headers.get("content-type", ""))] if content else []
    else:
        more, files = await _form(request, limits)
        values |= more
    if file in values:
        raise Refusal(422, f"{file}: with a file, leave it out")
    if not files:
        raise Refusal(422, "expected a file, as a part called file or as the body; got none")
    if file == "input" and len(files) > 1:
        raise Refusal(422, f"expected one file, got {len(files)}")
    values[file] = files if file == "inputs" else files[0]
    return _checked(values, shape)


def lines_of(content: bytes, request: Request, shape: type[Shape]) -> list[Shape | Refusal]:
    """What each line asks, or why it cannot be read; empty lines are left out.

    A line is a text in JSON, or an object; what the address says counts for all lines.
    """
    common = {k: v for k, v in _of_query(request).items() if k != "model"}
    found: list[Shape | Refusal] = []
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            found.append(_line(line, common, shape))
        except Refusal as refusal:
            found.append(refusal)
    return found


def one_of(content: bytes, shape: type[Shape]) -> Shape:
    """A request of JSON.

    Raises:
        Refusal: 422, it has another shape.
    """
    try:
        return shape.model_validate_json(content or b" ", strict=True)
    except ValidationError as error:
        raise Refusal(422, _sentence_of(error, shape.model_fields)) from None


def _line(line: bytes, common: Mapping[str, Any], shape: type[Shape]) -> Shape:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(422, f"the line is no JSON: {said}") from None
    if isinstance(value, str):
        value = {"input": value}
    if not isinstance(value, dict):
        raise Refusal(422, "expected a text or an object in a line of JSON")
    # A line by itself is read as strictly as a body; one beside an address's keys as those are.
    if not common:
        return one_of(json.dumps(value).encode(), shape)
    return _checked({**common, **value}, shape)


def _checked(values: Mapping[str, Any], shape: type[Shape]) -> Shape:
    """Of an address or a form, where numbers are texts."""
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        raise Refusal(422, _sentence_of(error, shape.model_fields)) from None


def _of_query(request: Request) -> dict[str, Any]:
    return _keys(request.query_params.multi_items())


def _keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keys of an address or a form; `decode` is JSON, or `decode.beam_size=1`."""
    found: dict[str, Any] = {}
    decode: dict[str, Any] = {}
    for key, value in pairs:
        if key == "decode":
            made = _json(key, value)
            if not isinstance(made, dict):
                raise Refusal(422, "decode: expected an object in JSON")
            decode |= made
        elif key.startswith("decode."):
            decode[key.removeprefix("decode.")] = _scalar(value)
        elif key in SEVERAL:
            found.setdefault(key, []).append(value)
        elif key in found:
            raise Refusal(422, f"{key[:60]} is there twice")
        else:
            found[key] = value
    return {**found, "decode": decode} if decode else found


def _json(key: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise Refusal(422, f"{key}: expected an object in JSON") from None


def _scalar(value: str) -> Any:
    try:
        made = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(made, dict | list) else made


async def _form(request: Request, limits: Limits) -> tuple[dict[str, Any], list[str]]:
    parser = MultiPartParser(
        request.headers,
        request.stream(),
        max_files=limits.texts,
        max_fields=FIELDS,
        max_part_size=limits.body,
    )
    parser.spool_max_size = limits.body + 1  # bytes of a request are never written to a disk
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        said = getattr(error, "message", "") or "a boundary was expected in the content type"
        raise Refusal(422, f"the form cannot be read: {said}") from None
    fields: list[tuple[str, Any]] = []
    files: list[tuple[bytes, str]] = []
    try:
        for key, value in form.multi_items():
            if isinstance(value, str):
                fields.append((key, value))
            elif key != "file":
                raise Refusal(422, f"a part {key[:60]!r} with a file: expected one called file")
            else:
                files.append((await value.read(), value.content_type or ""))
    finally:
        await form.close()
    several = len(files) > 1  # of which each is refused by itself
    return _keys(fields), [_url(*file, several) for file in files]


def _url(content: bytes, kind: str, several: bool = False) -> str:
    if not content and not several:
        raise Refusal(422, "the file is empty")
    kind = kind.partition(";")[0].strip().lower()
    named = kind if kind.replace("/", "").replace("-", "").isalnum() else ""
    return f"data:{named};base64,{base64.b64encode(content).decode()}"


def _sentence_of(error: ValidationError, known: Mapping[str, Any]) -> str:
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
