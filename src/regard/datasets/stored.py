"""Training splits that are larger than memory: `data.store` names a folder that keeps their ids.

A store is made at the first start, by several processes, and is opened at the next ones. Its name
in the folder is a digest of what it was made from: the files (path, size, time of the last change),
the `data:` section, the task, and the tokenizers; anything else there makes another store. Where
the recipe has no tokenizers yet, they are learned from `data.sample` rows, drawn evenly at random.
"""

import hashlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.dataset import Column
from regard.data.problems import Problems
from regard.data.storage import building
from regard.data.storage import store as token_store
from regard.datasets import encoding, section
from regard.datasets.rows import Rows, each
from regard.datasets.stored_columns import Others
from regard.errors import RequestError
from regard.fields import Field, GradeField, LabelField, LabelsField, TextField
from regard.fields.saved import files_of, read_fields
from regard.system.files import replace_file

__all__ = ["training"]

log = logging.getLogger(__name__)

FORMAT = 3
"""Of the store; another number makes another store."""
WORKERS = 8
"""Processes that encode, at most."""
SEED = 1
"""Of the sample."""
NAMED = (LabelField, LabelsField, GradeField)
"""Fields that are learned from every row: they have few values, and each must be known."""
EVERY = 10.0
"""Seconds between two words about how far it is."""

Examples = Callable[[Problems], Iterator[tuple[str, int, Mapping[str, Any], list[str]]]]


def training(
    task: Any,
    config: section.Config,
    path: Path | Mapping[str, Path],
    fields: Mapping[str, Field] | None,
    problems: Problems,
) -> tuple[dict[str, Field], dict[str, Column], Rows]:
    """The fields, and the columns and rows of the training split from its store; see the module.

    Args:
        task: whose data they are.
        path: the file of the training split, or one for each field.
        fields: those of a trained model; learned from a sample where not given.

    Raises:
        RequestError: a field is no text, label or number, or `data.limit` chooses rows.
    """
    _check(task, config)
    folder = Path(config.store).expanduser()
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"data.store: {folder} is a file; expected a folder, or one to make")

    def examples(found: Problems) -> Iterator[tuple[str, int, Mapping[str, Any], list[str]]]:
        return each(path, config, task.examples, "train", found)

    facts = {**_facts(task, config, path), "first": _first(examples)}
    if fields is None:
        known = _learned(folder / f"fields-{_digest(facts)}", config, examples)
    else:
        known = dict(fields)
    other = Others(known, examples)
    facts["known"] = files_of(known)
    place = folder / f"ids-{_digest(facts)}"
    with _alone(folder):
        store = token_store.opened(place) or _made(place, config, examples, other, problems)
    file = str(path if not isinstance(path, Mapping) else next(iter(path.values())))
    if not len(store):
        raise RequestError(f"{file} has no usable line: {store.facts['left_out']} were left out")
    columns = other.columns(store)
    target = next(name for name in config.fields if config.fields[name].target)
    lines: Any = store.lines  # whole numbers of NumPy, which stay on disk
    rows = Rows(file, dict(store.texts), token_store.Single(store.texts[target]), lines)
    return known, columns, rows


def _check(task: Any, config: section.Config) -> None:
    """See that the task's rows can be kept."""
    if not task.storable:
        raise RequestError(
            f"data.store keeps texts, labels and numbers; the task {task.name} is read otherwise: "
            "leave data.store out"
        )
    if "train" in config.limit:
        raise RequestError("data.limit.train: a store has every row; leave it or data.store out")


def _facts(task: Any, config: section.Config, path: Path | Mapping[str, Path]) -> dict[str, Any]:
    """What a store depends on beside the tokenizers."""
    several = dict(path) if isinstance(path, Mapping) else {"": path}
    settings: dict[str, Any] = {}
    for name, own in config.fields.items():
        settings[name] = [own.kind, _plain(own)]
        if own.before is not None:
            settings[name] += [own.extends, _digest({"before": own.before.dump()})]
    return {
        "format": FORMAT,
        "task": task.name,
        "files": {name: _stamps(one) for name, one in several.items()},
        "columns": config.columns,
        "header": config.header,
        "kind": config.format,
        "shared": config.shared,
        "max_length": config.max_length,
        "where": {name: sorted(one) for name, one in config.where["train"].items()},
        "sample": config.sample,
        "fields": settings,
    }


def _plain(own: Field) -> dict[str, Any]:
    """The settings of a field that are plain values."""
    kinds = (str, int, float, bool, list, tuple, dict)
    return {key: value for key, value in vars(own).items() if isinstance(value, kinds)}


def _stamps(path: Path) -> list[tuple[str, int, int]]:
    """Path, size and time of a file, or of those that its name is the beginning of."""
    found = [path] if path.exists() else sorted(path.parent.glob(f"{path.name}.*"))
    stats = [(one, one.stat()) for one in found]
    return [(str(one.resolve()), own.st_size, own.st_mtime_ns) for one, own in stats]


def _first(examples: Examples) -> list[Any]:
    """The first examples as the task reads them: what its settings make of them."""
    found = []
    for (_, line, values, _), _ in zip(examples(Problems(shown=0)), range(64), strict=False):
        found.append([line, dict(values)])
    return found


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _learned(folder: Path, config: section.Config, examples: Examples) -> dict[str, Field]:
    """The fields learned from a sample, or as they were learned before."""
    if (folder / "done").is_file():
        return read_fields(config.fields, folder)
    draw, kept, count = random.Random(SEED), list[tuple[str, int, Any, Any]](), 0
    named = [name for name, own in config.fields.items() if isinstance(own, NAMED)]
    every: dict[str, dict[Any, None]] = {name: {} for name in named}
    for one in examples(Problems(shown=0)):  # a reservoir: every row with the same chance
        count += 1
        for name in named:  # of labels every one, however rare
            every[name][one[2][name]] = None
        if len(kept) < config.sample:
            kept.append(one)
        elif (place := draw.randrange(count)) < config.sample:
            kept[place] = one
    if not kept:
        raise RequestError(f"{config.path or 'data.train'}: there is no row to learn from")
    rows = Rows(values={name: [values[name] for _, _, values, _ in kept] for name in config.fields})
    rows.values.update({name: list(own) for name, own in every.items()})
    said = f"{len(kept):,} of {count:,} rows" if count > len(kept) else f"all {count:,} rows"
    log.info("%s are learned from %s", encoding.learned_of(config), said)
    known = encoding.learn(config, rows)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**files_of(known), "done": ""}.items():
        replace_file(folder / name, partial(_write, text=text))
    return read_fields(config.fields, folder)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _made(
    place: Path,
    config: section.Config,
    examples: Examples,
    other: Others,
    problems: Problems,
) -> token_store.Store:
    """Make the store, and say how it goes."""
    file, began, said = "", time.monotonic(), time.monotonic()

    def rows() -> Iterator[building.Example]:
        nonlocal file
        for name, line, values, _ in examples(problems):
            file = name
            yield line, values

    def told(count: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= EVERY:
            said = now
            log.info("data.store: %s rows, %.0f a second", f"{count:,}", count / (now - began))

    def left_out(line: int, what: str, detail: str) -> None:
        more = f", at most {config.max_length}" if what == "too long" else ""
        problems.add(file, line, what, detail + more)

    def unknown(line: int, what: str, detail: str) -> None:
        problems.add(file, line, what, detail, stays=True)

    written = {name: own.written for name, own in config.fields.items()}
    texts = {name: own for name, own in config.fields.items() if isinstance(own, TextField)}
    endless = [name for name, own in texts.items() if not own.end]
    store = building.build(
        place,
        rows(),
        other.tokenizers,
        config.max_length,
        left_out,
        _processes(),
        told,
        written,
        partial(other.arrays, report=unknown),
        endless,
    )
    problems.report(file)
    tokens, seconds = sum(store.facts["tokens"].values()), time.monotonic() - began
    log.info(
        "data.store: %s rows with %s tokens in %s, in %.0f s",
        f"{len(store):,}",
        f"{tokens:,}",
        place,
        seconds,
    )
    return store


def _processes() -> int:
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(own or 1, WORKERS))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While this process makes a store there, others that want one wait."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows: two processes there would make it twice
        yield
        return
    with open(folder / ".lock", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
