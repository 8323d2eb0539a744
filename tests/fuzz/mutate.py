"""Broken inputs made from whole ones, each from its number: the same number gives the same input.

Bytes are flipped, cut, repeated and put together from several seeds; words that readers stumble
over are put in; of JSON a value, a key or a level is changed, so that what is behind the reading
of JSON is met as well.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["LONGEST", "Mutate", "changed_bytes", "changed_json", "changed_lines", "changed_value"]

Mutate = Callable[[random.Random, Sequence[bytes]], bytes]

LONGEST = 1 << 18
"""Bytes of an input; long enough for every limit of depth, short enough for thousands a second."""

WORDS = (
    b"", b"\0", b"\t", b"\n", b"\r\n", b"\r", b" ", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf",
    b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", "\u2028".encode(), "\u202e".encode(), b"-1",
    b"0", b"1", b"-0", b"NaN", b"nan", b"Infinity", b"-inf", b"1e999", b"1e-999", b"0x1F", b"1_0",
    b"2147483648", b"-9223372036854775809", b"18446744073709551616", b"9" * 30, b"9" * 5000,
    "\u0663".encode(), "\u00b2".encode(), b"null", b"true", b'""', b"[]", b"{}", b"[", b"]", b"{",
    b"}", b"(", b")", b"((((", b"*", b"#", b"|", b"||", b":", b"::", b",", b'"', b"'", b"\\",
    b"\\ud800", b"\\u0000", b"%s", b"{0}", b"../../x", b"/dev/zero", b"<", b"</", b"&amp;", b"&a;",
    b"<!DOCTYPE a [<!ENTITY a 'b'>]>", b"-DOCSTART-", b"|t|", b"|a|", b"CID", b"I-", b"B-", b"_",
    b"&a", b"*a", b"!!python/object", b"---\n", b"? ", b"- ", b"- - - - ", b"data:;base64,",
)  # fmt: skip
"""What is put into inputs."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**64), 10**40, 0.0, -0.5, 1.5, 1e308,
    float("nan"), float("inf"), "", "a", "\ud800", "\0", "a" * 3000, "name", [], [[]], [0], [1, 2],
    ["a"], [None], {}, {"a": 1}, {"name": "x"}, [[[[[[]]]]]], [{}],
)  # fmt: skip
"""What is put in the place of a value of JSON."""


def changed_bytes(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed with one to six changes of its bytes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        _BYTES[rng.randrange(len(_BYTES))](rng, data, seeds)
        del data[LONGEST:]
    return bytes(data)


def _flip(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _number(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    """Four bytes, as a size in a header has them."""
    if len(data) >= 4:
        at = rng.randrange(len(data) - 3)
        value = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32)))
        data[at : at + 4] = value.to_bytes(4, rng.choice(("little", "big")))


def _cut(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 2, 8, 64, len(data)))]


def _put(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(WORDS)


def _replace(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at : at + rng.randrange(1, 12)] = rng.choice(WORDS)


def _repeat(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    part = bytes(data[at : at + rng.choice((1, 1, 2, 5, 30, 200))])
    times = rng.choice((2, 2, 3, 10, 100, 3000))
    data[at:at] = part * min(times, LONGEST // max(len(part), 1))


def _join(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    at, start = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    data[at:] = other[start:]


def _swap(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    """Two lines change places."""
    lines = bytes(data).split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    data[:] = b"\n".join(lines)


def _cells(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    """A cell of a line becomes another word, or goes."""
    lines = bytes(data).split(b"\n")
    i = rng.randrange(len(lines))
    mark = b"\t" if b"\t" in lines[i] else b" "
    cells = lines[i].split(mark)
    j = rng.randrange(len(cells))
    cells[j : j + 1] = [] if rng.random() < 0.3 else [rng.choice(WORDS)]
    lines[i] = mark.join(cells)
    data[:] = b"\n".join(lines)


_BYTES = (_flip, _byte, _number, _cut, _put, _replace, _repeat, _join, _swap, _cells)


def changed_json(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed of JSON with a value, a key or a level changed; at times its bytes."""
    if rng.random() < 0.3:
        return changed_bytes(rng, seeds)
    return json.dumps(changed_value(rng, json.loads(rng.choice(seeds)))).encode()


def changed_lines(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed of JSON lines with one or two of them changed; at times its bytes."""
    if rng.random() < 0.4:
        return changed_bytes(rng, seeds)
    lines = rng.choice(seeds).splitlines()
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        lines[at] = changed_json(rng, [lines[at]]) if _is_json(lines[at]) else lines[at]
    return b"\n".join(lines) + b"\n"


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def changed_value(rng: random.Random, value: Any) -> Any:
    """A value of JSON with one to three changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _changed(rng, value)
    return value


def _changed(rng: random.Random, value: Any) -> Any:
    inside = isinstance(value, dict | list) and len(value) > 0
    if not inside or rng.random() < 0.15:
        return _other(rng, value)
    if isinstance(value, list):
        i = rng.randrange(len(value))
        what = rng.random()
        if what < 0.1:
            return value[:i] + value[i + 1 :]
        if what < 0.2:
            return value[:i] + [value[i]] * rng.choice((2, 3, 50)) + value[i:]
        return [*value[:i], _changed(rng, value[i]), *value[i + 1 :]]
    key = rng.choice(sorted(value))
    what = rng.random()
    if what < 0.1:
        return {k: v for k, v in value.items() if k != key}
    if what < 0.2:
        name = rng.choice(("", "a", "name", "text", "x" * 300, *sorted(value)))
        return {name if k == key else k: v for k, v in value.items()}
    if what < 0.25:
        return value | {rng.choice(("a", "name", "kind", "")): rng.choice(VALUES)}
    return value | {key: _changed(rng, value[key])}


def _other(rng: random.Random, value: Any) -> Any:
    what = rng.random()
    if isinstance(value, bool) or what < 0.5:
        return rng.choice(VALUES)
    if isinstance(value, int | float) and what < 0.9:
        return rng.choice((value + 1, value - 1, -value, value * 1000, value + 0.5, str(value)))
    if isinstance(value, str) and what < 0.9:
        own = changed_bytes(rng, [value.encode("utf-8", "replace")])[:5000]
        return own.decode("utf-8", "replace")
    return [value] if what < 0.95 else {"a": value}
