"""The splits of a task's data: in memory, or the training split from its store or its files."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.dataset import Column, Dataset
from regard.data.problems import Problems
from regard.datasets import encoding, stored, streamed
from regard.datasets.data import Data
from regard.datasets.rows import Rows, read
from regard.datasets.section import Config
from regard.datasets.unseen import say_unseen
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.sets import as_fields

__all__ = ["read_splits"]

log = logging.getLogger(__name__)


def read_splits(
    task: Any,
    config: Mapping[str, Any],
    fields: Mapping[str, Any] | None,
    splits: Sequence[str],
) -> Data:
    """Read the splits of a checked `data:` section; see `Task.data`."""
    section = Config.of(config, task.fields(), task.columns, task.header, task.max_length)
    if section.stream and "train" in splits:
        return _read_streamed(task, section, fields, splits)
    files, problems = section.files(splits), Problems()
    known = None if fields is None else {**section.fields, **as_fields(fields, section.fields)}
    columns: dict[str, dict[str, Column]] = {}
    rows: dict[str, Rows] = {}
    for split, path in files.items():
        if section.store and split == "train":
            known, columns[split], rows[split] = stored.training(
                task, section, path, known, problems
            )
        else:
            rows[split] = read(path, section, task.examples, split, problems)
    if known is None:
        if "train" not in rows:
            what = encoding.learned_of(section)
            raise RequestError(f"there is no training file to learn {what} from")
        known = encoding.learn(section, rows["train"])
    task.extend(rows, section, known)
    made: dict[str, Dataset] = {}
    for split, own in rows.items():
        kept = own
        if split not in columns:
            columns[split], kept = encoding.encode(own, section, known, split, problems)
        if split != "train":
            say_unseen(columns[split], kept, known, split)
        made[split] = task.dataset(columns[split], kept)
    train, dev, test = (made.get(split) for split in ("train", "dev", "test"))
    if {*files} == {"train"} and {*splits} >= {"train", "dev", "test"}:
        log.warning(
            "%s is for training alone, nothing will be scored; data.split: [0.8, 0.1, 0.1] divides "
            "a file",
            files["train"],
        )
    noted = section.noted(files)
    return Data(train, dev, test, dict[str, Field](known), problems, noted=noted)


def _read_streamed(
    task: Any, section: Config, fields: Mapping[str, Any] | None, splits: Sequence[str]
) -> Data:
    """The training split in files, and the others in memory."""
    told, problems = bool(section.stream.get("files")), Problems()
    others = [split for split in splits if split != "train"] if told else list(splits)
    there = section.path is not None or any(split in section.given for split in others)
    files = section.files(others) if there and others else {}
    known = None if fields is None else {**section.fields, **as_fields(fields, section.fields)}
    own = streamed.files_of(section.stream, files.pop("train", None))
    known, train = streamed.training(task, section, own, known)
    rows = {
        split: read(path, section, task.examples, split, problems) for split, path in files.items()
    }
    task.extend(rows, section, known)
    made: dict[str, Dataset] = {}
    for split, one in rows.items():
        columns, kept = encoding.encode(one, section, known, split, problems)
        say_unseen(columns, kept, known, split)
        made[split] = task.dataset(columns, kept)
    return Data(train, made.get("dev"), made.get("test"), dict[str, Field](known), problems)
