"""Targets of `regard predict FILES -o FOLDER`: shards of lines, and the notes of finished ones."""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import changed_bytes, changed_json, changed_lines
from tests.fuzz.seeds import TEXTS
from tests.fuzz.targets import Target

__all__ = ["shards"]

LINES = {
    "text": [b"das Haus\n\nein Fenster\n"],
    "jsonl": [*TEXTS["jsonl"], b'{"text": "das Haus", "n": 1}\n"ein Fenster"\n'],
    "csv": TEXTS["csv"],
    "tsv": [*TEXTS["tsv"], b"source\tn\ndas Haus\t1\nein Fenster\t2\n"],
}


def shards(folder: Path, part: str) -> Target:
    """`part`: text, jsonl, tsv, gz (JSON lines, compressed) or notes."""
    return _notes(folder) if part == "notes" else _lines(folder, part)


def _lines(folder: Path, part: str) -> Target:
    """What is read of a shard, and the lines that are written without an answer."""
    from regard.data.files.lines import lines_of
    from regard.data.files.packing import reading
    from regard.inference.records import form_of
    from regard.tasks.generation.translation import Translation

    suffix, kind = (".gz", "jsonl") if part == "gz" else ("", part)
    path = folder / f"in{suffix}"
    form = form_of(kind, Translation(), {}, {}, as_json=False, align=False)

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        with reading(path, suffix) as file:
            return [form.written(item, None) for item in form.items(lines_of(file.readline))]

    def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        if part == "gz" and rng.random() < 0.5:
            return changed_bytes(rng, seeds)
        plain = [gzip.decompress(one) for one in seeds] if part == "gz" else seeds
        made = (changed_lines if kind == "jsonl" else changed_bytes)(rng, plain)
        return gzip.compress(made, mtime=0) if part == "gz" else made

    seeds = [gzip.compress(one, mtime=0) for one in LINES[kind]] if suffix else LINES[kind]
    return Target(seeds, use, mutate)


def _notes(folder: Path) -> Target:
    from regard.bulk.finished_files import Made, Notes
    from regard.bulk.shards import Shard

    source, out = folder / "a.txt", folder / "out"
    source.write_text("das Haus\n")
    (out / ".bulk").mkdir(parents=True)
    (out / "a.txt").write_text("the house\n")
    shard = Shard(source, out / "a.txt", "text", "")
    notes = Notes(out, [("one", "0" * 16)], {"n_best": 1})
    notes.write(shard, Made(shard.stamp(), 1, 0, 10, 0.5, "here:1"))
    path = out / ".bulk" / "a.txt.json"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        notes.check([shard], fresh=False)
        note = notes.read("a.txt")
        return note and notes.is_done(shard, note)

    return Target([path.read_bytes()], use, changed_json)
