"""Shards for the tests, and how they are read again."""

import gzip
import json
import random
from pathlib import Path

from tests.folder.toy import GERMAN

WORDS = sorted({word for text in GERMAN for word in text.split()})


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(count)]


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def lines_of(path: Path) -> list[str]:
    text = text_of(path)
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def objects_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines_of(path)]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Outputs and side files; no other files may be there but notes."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
