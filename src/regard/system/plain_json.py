"""JSON from anywhere: what is no text that can be written again is refused like what is no JSON."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import RequestError

__all__ = ["plain_value", "read_json", "read_object"]


def read_json(text: str) -> Any:
    r"""The value of a JSON text.

    Raises:
        ValueError: not JSON; lists and objects inside each other without end; or text with half of
            a surrogate pair (`"\ud800"`), which no file can hold.

    Example:
        >>> read_json('{"a": [1, "\\u00e9"]}')
        {'a': [1, 'é']}
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("lists and objects inside each other without end") from None
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"text with half of a surrogate pair, {half}") from None
    return value


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        RequestError: the file holds something else.
    """
    try:
        value = read_json(path.read_text("utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise RequestError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(f"{path}: expected an object, got {type(value).__name__}")
    return value


def plain_value(value: Any) -> Any:
    """`value` as JSON can hold it: paths become text, numbers of other libraries plain ones.

    Raises:
        RequestError: it holds something else.
    """
    if isinstance(value, Mapping):
        return {str(k): plain_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(v) for v in value]
    if isinstance(value, Path):
        return value.as_posix()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    raise RequestError(f"a model folder holds plain data, got a {type(value).__name__}: {value!r}")
