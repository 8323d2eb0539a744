"""Model folders: written whole, read strictly, and holding plain data only.

A folder holds `config.json`, `model.safetensors`, `tokenizer.json` (or one per side),
`recipe.yaml`, `metrics.json` and `README.md`, and needs nothing else. No pickle is ever opened.
"""

import inspect
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard import catalog, decode, tasks
from regard.catalog.building import shape_of, undrawn
from regard.errors import RequestError, nearest
from regard.fields import Field
from regard.fields.contextual import TYPES, EncoderStates
from regard.fields.saved import NAMES, read_fields
from regard.fields.text import own_texts
from regard.folder import weights
from regard.folder.config import CONFIG, FORMAT, read_config
from regard.folder.loaded import Loaded
from regard.settings.check import check_keys, hints_of
from regard.system.files import settle
from regard.tasks import Task
from regard.tasks.starting_vectors import read_states

__all__ = ["CONFIG", "FORMAT", "Loaded", "from_pretrained"]

log = logging.getLogger(__name__)

RECIPE, METRICS, CARD = "recipe.yaml", "metrics.json", "README.md"


def from_pretrained(folder: str | Path) -> Loaded:
    """Read a model folder; a Hugging Face one is read by `regard.convert`.

    Raises:
        RequestError: one sentence naming the file and what is wrong with it.
    """
    folder = Path(folder)
    settle(folder, NAMES)
    config = read_config(folder)
    if "model_type" in config:
        from regard.convert.opening import load_foreign

        return load_foreign(folder)
    made, decoder = _make(config, folder / CONFIG)
    encoder = _encoder(config["data"].get("vectors") or {}, folder / CONFIG)
    model = _build(config["model"], folder, config["weights"], encoder)
    fields = _read_fields(made, folder)
    if encoder is not None:
        fields.update({name: own.in_context(encoder) for name, own in own_texts(fields).items()})
    _check_sizes(made, fields, config["model"], folder)
    return Loaded(model.eval(), made, fields, decoder, config, folder)


def _make(config: Mapping[str, Any], path: Path) -> tuple[Task, Any]:
    """Task and decoder."""
    spec = dict(config["task"])
    task = tasks.load(spec.pop("name"))
    try:
        check_keys(spec, hints_of(task), section="task", where=lambda key: "")
        return task.of_folder(spec), decode.build(config["decode"])
    except (RequestError, TypeError) as error:
        raise RequestError(f"{path}: {error}") from error


def _encoder(section: Mapping[str, Any], path: Path) -> EncoderStates | None:
    """The encoder whose states the model reads, in its place and the one of the training."""
    check_keys(section, TYPES, section="data.vectors", where=lambda key: str(path))
    encoder = EncoderStates.of(section)
    return None if encoder is None else encoder.checked()


def _build(
    spec: Mapping[str, Any],
    folder: Path,
    noted: Mapping[str, Any],
    encoder: EncoderStates | None,
) -> nn.Module:
    """The model with its weights; nothing of its size is made before they are known to fit."""
    keywords, path = dict(spec), folder / CONFIG
    name = keywords.pop("name")
    if name not in catalog.names():
        raise RequestError(f"{path}: no model {name!r}; {nearest(name, catalog.names())}")
    made = catalog.constructor(name)
    known = inspect.signature(made).parameters
    for key in keywords:
        if key not in known:
            raise RequestError(
                f"{path}: model.{key} is no argument of {name}; {nearest(key, known)}"
            )
    check_keys(keywords, hints_of(made), section="model", where=lambda key: str(path))

    def whole(**keywords: Any) -> nn.Module:
        model: nn.Module = made(**keywords)
        return model if encoder is None else read_states(model, encoder)

    try:
        shaped = shape_of(whole, keywords)
        tensors = weights.fitting(shaped.state_dict(), folder, noted)
        model: nn.Module = undrawn(whole, keywords)  # leaves the caller's random numbers alone
    except RequestError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RequestError(f"{path}: cannot build {name}: {error}") from error
    weights.fill(model, tensors)
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
