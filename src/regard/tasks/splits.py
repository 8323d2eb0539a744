"""The splits of a task's data: in memory, or the training split from its store on disk."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.dataset import Column, Dataset
from regard.data.problems import Problems
from regard.errors import RequestError
from regard.fields import Field
from regard.tasks import corpus, stored
from regard.tasks.given import Data, as_fields

__all__ = ["read_splits"]


def read_splits(
    task: Any,
    config: Mapping[str, Any],
    fields: Mapping[str, Any] | None,
    splits: Sequence[str],
) -> Data:
    """Read the splits of a checked `data:` section; see `Task.data`."""
    section = corpus.Config.of(config, task.fields(), task.columns, task.header, task.max_length)
    files, problems = section.files(splits), Problems()
    known = None if fields is None else {**section.fields, **as_fields(fields, section.fields)}
    columns: dict[str, dict[str, Column]] = {}
    rows: dict[str, corpus.Rows] = {}
    for split, path in files.items():
        if section.store and split == "train":
            known, columns[split], rows[split] = stored.training(
                task, section, path, known, problems
            )
        else:
            rows[split] = corpus.read(path, section, task.examples, split, problems)
    if known is None:
        if "train" not in rows:
            what = corpus.learned_of(section)
            raise RequestError(f"there is no training file to learn {what} from")
        known = corpus.learn(section, rows["train"])
    task.extend(rows, section, known)
    made: dict[str, Dataset] = {}
    for split, own in rows.items():
        kept = own
        if split not in columns:
            columns[split], kept = corpus.encode(own, section, known, split, problems)
        made[split] = task.dataset(columns[split], kept)
    train, dev, test = (made.get(split) for split in ("train", "dev", "test"))
    return Data(train, dev, test, dict[str, Field](known), problems)
