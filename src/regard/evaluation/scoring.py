"""The official scores of a model folder."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.data.dataset import Dataset
    from regard.folder.loaded import Loaded
    from regard.metrics import Score
    from regard.tasks import Prediction

__all__ = ["Scored", "branch_scores", "branches_of", "scored"]


@dataclass(frozen=True)
class Scored:
    """What a model made of some examples.

    Args:
        predictions: of each example.
        problems: how many lines were left out, by reason.
        seconds: of predicting and scoring.
        config: the `data:` section that the examples were read by.
    """

    examples: "Dataset"
    predictions: Sequence["Prediction"]
    scores: Mapping[str, "Score"]
    problems: Mapping[str, int]
    seconds: float
    config: Mapping[str, Any]


def scored(
    loaded: "Loaded",
    data: str | Path | None = None,
    columns: Mapping[str, str | int] | None = None,
    split: str = "test",
    where: Mapping[str, Any] | None = None,
) -> Scored:
    """Predict and score a split of a model's own data, or of another file.

    The signatures say which rows were chosen, and how many lines could not be read.

    Args:
        columns: which column is what; as in training where not given.
        where: of each column the values of rows that are scored; as in training where not given,
            every row where empty.

    Raises:
        RequestError: no such data, or nothing in that split.
    """
    from regard.data.files.registry import columns_of, format_of, unpacked_name
    from regard.datasets.section import said, wanted

    config = dict(loaded.config.get("data") or {})
    if data is not None:
        # A name without an ending, .conll and .txt may be of several formats.
        several = format_of(data) in ("moses", "conll") or (
            unpacked_name(data).endswith(".txt") and columns_of(str(config.get("format")))
        )
        kept = ("columns", "header", "max_length", "where", "csv", *(["format"] if several else []))
        config = {key: config[key] for key in kept if key in config} | {"path": str(data)}
    if columns:
        config["columns"] = {**(config.get("columns") or {}), **columns}
        if any(isinstance(column, str) for column in columns.values()):
            config["header"] = True
    kept_where = where is None and bool(config.get("where"))
    if where is not None:
        config["where"] = dict(where)
    try:
        read = loaded.task.data(config, loaded.fields, splits=(split,))
    except RequestError as error:
        if not kept_where or data is None:
            raise
        raise RequestError(
            f"{error}; the rows of the training were chosen by "
            f"{said(wanted(config['where'])[split])}: --where all reads every row"
        ) from error
    examples = getattr(read, split, None)
    if examples is None or not len(examples):
        raise RequestError(f"{data or config.get('path')} has no example in its {split} split")
    started = time.monotonic()
    predictions = loaded.task.predict(loaded.model, examples, loaded.decoder, loaded.fields)
    scores = loaded.task.score(predictions, examples)
    seconds = time.monotonic() - started
    left_out = dict(read.problems.left_out)
    rows = wanted(config.get("where"))[split]
    chosen = ";".join(f"{column}={','.join(sorted(one))}" for column, one in rows.items())
    more = {"where": chosen, "left_out": str(sum(left_out.values()) or "")}
    note = "".join(f"|{key}:{value}" for key, value in more.items() if value)
    scores = {name: replace(one, signature=one.signature + note) for name, one in scores.items()}
    return Scored(examples, predictions, scores, left_out, seconds, config)


def branches_of(loaded: "Loaded") -> Mapping[str, Any]:
    """The branches of a model by name, each a model of the whole task.

    Raises:
        RequestError: the model has one branch.
    """
    from regard.protocols import Branched

    if not isinstance(loaded.model, Branched):
        raise RequestError("--branches: this model has one branch; expected one with model.beside")
    return loaded.model.branches


def branch_scores(loaded: "Loaded", found: Scored) -> dict[str, dict[str, float]]:
    """The scores of each branch of a model by itself, on examples that were scored before.

    Raises:
        RequestError: see `branches_of`.
    """
    scores = {}
    for name, branch in branches_of(loaded).items():
        said = loaded.task.predict(branch, found.examples, loaded.decoder, loaded.fields)
        each = loaded.task.score(said, found.examples)
        scores[name] = {metric: float(score.value) for metric, score in each.items()}
    return scores
