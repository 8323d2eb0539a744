"""Writing a model folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard import __version__, catalog, tasks
from regard.fields.saved import NAMES, files_of
from regard.fields.sets import as_fields
from regard.folder.card import text as card_text
from regard.folder.config import CONFIG, FORMAT
from regard.folder.reading import CARD, METRICS, RECIPE
from regard.folder.weights import FILE, pack
from regard.settings.check import given_by_data
from regard.settings.yaml_reader import dump
from regard.system.files import replace_files
from regard.system.plain_json import plain_value

__all__ = ["save_pretrained"]


def save_pretrained(
    folder: str | Path,
    model: nn.Module,
    *,
    task: Mapping[str, Any],
    fields: Mapping[str, Any],
    recipe: Any,
    metrics: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    card: Mapping[str, str] | None = None,
    noted: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model folder, whole or not at all; other files in the folder are left alone.

    Args:
        folder: made if it is not there.
        model: a model of the catalogue, built as `recipe.model` says.
        task: the recipe's task section, `{"name": ..., ...}`.
        fields: of its data by name; a `Tokenizer` stands for the text that has it. Texts with one
            vocabulary are saved once.
        recipe: a `Recipe`, or its sections as a mapping.
        metrics: the scores, as `evaluate` gives them.
        dtype: of the saved weights; `float16` halves the file, `int8` makes it a quarter, with one
            step for each row of a matrix; `int7` and `int6` are smaller than that in an archive.
            All are read back as float32.
        noted: what its files told beside the `data:` section, as `Data.noted` has it.
        card: words for the model card: `data`, `limits`, `licence`.

    Raises:
        RequestError: an unknown dtype, or weights that it cannot hold.
    """
    folder = Path(folder)
    written = _sections(recipe)  # as it was asked for: a second start compares its recipe with it
    sections = {**written, "data": {**written["data"], **plain_value(dict(noted or {}))}}
    weights, noted = pack(model, dtype)
    config = {
        "format": FORMAT,
        "regard": __version__,
        "model": {**sections["model"], **_sizes(model, sections["model"].get("name"))},
        "task": plain_value(dict(task)),
        "decode": sections["decode"],
        "data": sections["data"],
        "weights": noted,
    }
    measured = plain_value(dict(metrics or {}))
    files: dict[str, bytes] = {
        FILE: weights,
        RECIPE: _recipe_text(recipe, written).encode(),
        METRICS: _json(measured),
        CARD: card_text(folder.name, config, sections, measured, model, card or {}).encode(),
    }
    declared = tasks.load(task["name"]).of_folder({k: v for k, v in task.items() if k != "name"})
    for name, text in files_of(as_fields(fields, declared.fields())).items():
        files[name] = text.encode()
    files[CONFIG] = _json(config)  # last: a folder without it is not a model folder
    replace_files(folder, files, NAMES)
    return folder


def _sections(recipe: Any) -> dict[str, Any]:
    names = ("model", "task", "data", "train", "decode", "expect")
    get = recipe.get if isinstance(recipe, Mapping) else recipe.section
    found = {name: plain_value(get(name) or {}) for name in names}
    return {**found, "decode": found["decode"] or {"name": "beam"}}


def _recipe_text(recipe: Any, sections: Mapping[str, Any]) -> str:
    name = None if isinstance(recipe, Mapping) else recipe.name
    return (f"# regard train {name}\n" if name else "") + dump(
        {k: v for k, v in sections.items() if v}
    )


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _sizes(model: nn.Module, name: str | None) -> dict[str, int]:
    """What the data said when the model was built: sizes of vocabularies, numbers of classes."""
    made = catalog.constructor(name) if name in catalog.names() else type(model)
    found = {name: getattr(model, name, None) for name in given_by_data(made)}
    return {name: size for name, size in found.items() if isinstance(size, int)}
