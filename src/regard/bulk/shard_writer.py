"""The output of one shard: written whole or not at all, in the order of its lines."""

import json
import os
import socket
import time
from collections.abc import Callable
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any

from regard.bulk.answering import Answering
from regard.bulk.finished_files import Made
from regard.bulk.shards import Shard
from regard.data.files.lines import CHUNK, lines_of
from regard.data.files.packing import Unreadable, reading, writing
from regard.inference.records import Form, Item, form_of
from regard.system.files import replace_file

__all__ = ["make"]


def make(shard: Shard, model: Answering, told: Callable[[int], None] = lambda lines: None) -> Made:
    """Predict a shard into its file, and its bad lines into theirs.

    Lines are held a chunk at a time. What was there before stays until all is written.

    Args:
        told: called with the number of lines that were done since it was called last.

    Raises:
        Unreadable: the shard is damaged, changes while it is read, or is not there any more.
        RegardError: the disk is full, or the files cannot be written for another reason.
    """
    began, before = time.monotonic(), shard.stamp()
    own, loaded = model.order, model.loaded
    form = form_of(
        shard.form,
        loaded.task,
        loaded.config,
        dict(own.columns),
        as_json=own.as_json,
        align=own.align,
        output=own.output_column or "",
        fields=loaded.fields,
    )
    counts = [0, 0]

    def write(bad: Path) -> None:
        with open(bad, "wb") as side:
            replace_file(shard.out, lambda path: both(path, side))

    def both(path: Path, side: BufferedIOBase) -> None:
        with reading(shard.source, shard.suffix) as file, writing(path, shard.suffix) as out:
            items = form.items(lines_of(file.readline))
            while chunk := list(islice(items, CHUNK)):
                counts[1] += _answered(chunk, form, model, out, side, shard, counts[0])
                counts[0] += len(chunk)
                told(len(chunk))
        if shard.stamp() != before:
            raise Unreadable("it changed while it was read: run it again once it stands still")

    replace_file(shard.bad, write)
    if not counts[1]:
        shard.bad.unlink(missing_ok=True)
    size, me = shard.out.stat().st_size, f"{os.getpid()} on {socket.gethostname()}"
    return Made(before, counts[0], counts[1], size, round(time.monotonic() - began, 3), me)


def _answered(
    chunk: list[Item],
    form: Form,
    model: Answering,
    out: Any,
    side: BufferedIOBase,
    shard: Shard,
    number: int,
) -> int:
    """Write what these lines give; how many of them are bad."""
    good = [item.text for item in chunk if not item.refused and not item.heading]
    found = iter(model(good) if good else ())
    bad = 0
    for at, item in enumerate(chunk, number + 1):
        prediction = None if item.refused or item.heading else next(found)
        reason = item.refused or (prediction.refused if prediction else "")
        if reason:
            bad += 1
            said = {"file": shard.name, "line": at, "reason": reason}
            side.write(json.dumps(said, ensure_ascii=False).encode() + b"\n")
        out.write(form.written(item, prediction).encode("utf-8", "replace") + b"\n")
    return bad
