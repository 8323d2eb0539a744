"""Model folders: written whole, read strictly, and holding plain data only.

A folder holds `config.json`, `model.safetensors`, `tokenizer.json` (or one per side),
`recipe.yaml`, `metrics.json` and `README.md`, and needs nothing else. No pickle is ever opened.
"""

import inspect
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import __version__, _card, _weights, catalog, decode, tasks
from regard._upgrade import CONFIG, FORMAT, read_config
from regard.catalog.building import shape_of
from regard.errors import RequestError, nearest
from regard.fields import Field
from regard.fields.saved import NAMES, files_of, read_fields
from regard.fields.sets import as_fields
from regard.loaded import Loaded
from regard.settings.check import check_keys, given_by_data, hints_of
from regard.settings.yaml_reader import dump
from regard.system.files import replace_files, settle
from regard.system.plain_json import plain_value
from regard.tasks import Task

__all__ = [
    "CONFIG", "FORMAT", "Loaded", "find", "from_pretrained", "load", "save_pretrained", "shipped",
]  # fmt: skip

log = logging.getLogger(__name__)

RECIPE, METRICS, CARD = "recipe.yaml", "metrics.json", "README.md"
SHIPPED = Path(__file__).parent / "shipped" / "models"


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
            step for each row of a matrix. All are read back as float32.
        card: words for the model card: `data`, `limits`, `licence`.

    Raises:
        RequestError: an unknown dtype, or weights that it cannot hold.
    """
    folder = Path(folder)
    sections = _sections(recipe)
    weights, noted = _weights.pack(model, dtype)
    config = {
        "format": FORMAT,
        "regard": __version__,
        "model": {**sections["model"], **_sizes(model)},
        "task": plain_value(dict(task)),
        "decode": sections["decode"],
        "data": sections["data"],
        "weights": noted,
    }
    measured = plain_value(dict(metrics or {}))
    files: dict[str, bytes] = {
        _weights.FILE: weights,
        RECIPE: _recipe_text(recipe, sections).encode(),
        METRICS: _json(measured),
        CARD: _card.text(folder.name, config, sections, measured, model, card or {}).encode(),
    }
    declared = tasks.load(task["name"]).of_folder({k: v for k, v in task.items() if k != "name"})
    for name, text in files_of(as_fields(fields, declared.fields())).items():
        files[name] = text.encode()
    files[CONFIG] = _json(config)  # last: a folder without it is not a model folder
    replace_files(folder, files, NAMES)
    return folder


def from_pretrained(folder: str | Path) -> Loaded:
    """Read a model folder; a Hugging Face one is read by `regard.convert`.

    Raises:
        RequestError: one sentence naming the file and what is wrong with it.
    """
    folder = Path(folder)
    settle(folder, NAMES)
    config = read_config(folder)
    if "model_type" in config:
        from regard.convert._foreign import load_foreign

        return load_foreign(folder)
    made, decoder = _make(config, folder / CONFIG)
    model = _build(config["model"], folder, config["weights"])
    fields = _read_fields(made, folder)
    _check_sizes(made, fields, config["model"], folder)
    return Loaded(model.eval(), made, fields, decoder, config, folder)


def load(folder_or_name: str | Path) -> Loaded:
    """Load a trained folder, or a model that comes with the package by its name. Works offline.

    Raises:
        RequestError: there is no such folder or name.
    """
    return from_pretrained(find(folder_or_name))


def find(folder_or_name: str | Path) -> Path:
    """The folder meant: a folder's path, else the name of a shipped model."""
    path = Path(folder_or_name)
    if path.is_dir():
        return path
    if (SHIPPED / str(folder_or_name) / CONFIG).is_file() and str(folder_or_name) in shipped():
        return SHIPPED / str(folder_or_name)
    if path.is_file():
        raise RequestError(f"{path} is a file; expected the folder that holds {CONFIG}")
    raise RequestError(
        f"no model folder {str(folder_or_name)!r} and none of that name comes with regard; "
        + (
            f"shipped: {nearest(str(folder_or_name), shipped())}"
            if shipped()
            else "none is shipped"
        )
        + "; `regard train RECIPE -o FOLDER` makes one"
    )


def shipped() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG}"))


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


def _sizes(model: nn.Module) -> dict[str, int]:
    """What the data said when the model was built: sizes of vocabularies, numbers of classes."""
    found = {name: getattr(model, name, None) for name in given_by_data(type(model))}
    return {name: size for name, size in found.items() if isinstance(size, int)}


def _make(config: Mapping[str, Any], path: Path) -> tuple[Task, Any]:
    """Task and decoder."""
    spec = dict(config["task"])
    task = tasks.load(spec.pop("name"))
    try:
        check_keys(spec, hints_of(task), section="task", where=lambda key: "")
        return task.of_folder(spec), decode.build(config["decode"])
    except (RequestError, TypeError) as error:
        raise RequestError(f"{path}: {error}") from error


def _build(spec: Mapping[str, Any], folder: Path, noted: Mapping[str, Any]) -> nn.Module:
    """The model with its weights; nothing of its size is made before they are known to fit."""
    keywords, path = dict(spec), folder / CONFIG
    name = keywords.pop("name")
    if name not in catalog.names():
        raise RequestError(f"{path}: no model {name!r}; {nearest(name, catalog.names())}")
    made = catalog.load(name)
    known = inspect.signature(made).parameters
    for key in keywords:
        if key not in known:
            raise RequestError(
                f"{path}: model.{key} is no argument of {name}; {nearest(key, known)}"
            )
    check_keys(keywords, hints_of(made), section="model", where=lambda key: str(path))
    try:
        shaped = shape_of(made, keywords)
        tensors = _weights.fitting(shaped.state_dict(), folder, noted)
        with torch.random.fork_rng(devices=[]):  # loading must not move the caller's random numbers
            model: nn.Module = made(**keywords)
    except RequestError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RequestError(f"{path}: cannot build {name}: {error}") from error
    _weights.fill(model, tensors)
    return model


def _read_fields(task: Task, folder: Path) -> dict[str, Field]:
    try:
        return read_fields(task.fields(), folder)
    except FileNotFoundError as error:
        name = Path(error.filename).name
        also = "neither tokenizer.json nor" if name.startswith("tokenizer.") else "no"
        raise RequestError(f"{folder} has {also} {name}") from None


def _check_sizes(
    task: Task, fields: Mapping[str, Field], spec: Mapping[str, Any], folder: Path
) -> None:
    """Refuse fields that know more than the model was built for."""
    if not any(one.saved for one in fields.values()):
        return
    for name, size in task.model_arguments(fields).items():
        if size > spec.get(name, size):
            raise RequestError(
                f"{folder}: its tokenizers need a model with {name}: {size}, and {CONFIG} says "
                f"{spec[name]}: they are of different models"
            )
