"""JSON from anywhere: what is no text that can be written again is refused like what is no JSON."""

import json
from typing import Any

__all__ = ["read_json"]


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
