"""Reading `config.json`; one of an earlier format means a model that gives the same answers."""

from pathlib import Path
from typing import Any

from regard import __version__
from regard.errors import RequestError
from regard.settings import old_names
from regard.system.plain_json import read_object

__all__ = ["CONFIG", "FORMAT", "read_config", "upgrade"]

CONFIG = "config.json"
FORMAT = 4
"""The folder format this version writes; earlier ones are read, later ones are refused."""

EXPORTED = ("encoder.onnx", "model.onnx", "tagger.onnx", "model.bin")
"""Files of folders that `regard export` writes for other programs."""

Config = dict[str, Any]


def read_config(folder: Path) -> Config:
    """The configuration of a model folder, in today's format; that of Hugging Face as it is.

    Raises:
        RequestError: one sentence naming the file and what is wrong with it.
    """
    path = folder / CONFIG
    if any((folder / name).is_file() for name in EXPORTED):
        raise RequestError(
            f"{folder} was written by `regard export` for another program; its README.md has "
            "the code that uses it. regard reads the folder that it was made of"
        )
    if not path.is_file():
        raise RequestError(
            f"{folder} has no {CONFIG}, so it is not a finished model folder; "
            "`regard train RECIPE -o FOLDER` makes one"
        )
    config = read_object(path)
    if "model_type" in config:  # Hugging Face's
        return config
    made = config.get("format", 1)
    if type(made) is not int or not 1 <= made <= FORMAT:
        raise RequestError(
            f"{path} has format {made}, made by regard {config.get('regard', 'of a later day')};"
            f" this is regard {__version__}, which reads up to {FORMAT}: update it"
        )
    for key in ("model", "task", "decode", "weights"):
        if not isinstance(config.get(key), dict):
            raise RequestError(f"{path}: expected an object under {key!r}, got {config.get(key)!r}")
    if not isinstance(config.setdefault("data", {}), dict):
        raise RequestError(f"{path}: expected an object under 'data', got {config['data']!r}")
    for key in ("model", "task"):
        if not isinstance(config[key].get("name"), str):
            raise RequestError(f"{path}: {key}.name is missing")
    return upgrade(config)


def upgrade(config: Config) -> Config:
    """The configuration in today's format; one that is today's is given back as it is."""
    for made in range(config.get("format", 1), len(_STEPS) + 1):
        config = {**_STEPS[made - 1](config), "format": made + 1}
    return config


def _from_1(config: Config) -> Config:
    """Readers had the reset gate behind U; an even window of the Transformer had one place more."""
    model = dict(config["model"])
    if model["name"] in ("aoa", "as-reader"):
        model.setdefault("reset", "after")
    window = model.get("window")
    if model["name"] == "transformer" and isinstance(window, int) and window % 2 == 0:
        model["window"] = window + 1
    return {**config, "model": model}


def _from_2(config: Config) -> Config:
    """Settings have the names that PyTorch, fairseq and Hugging Face give them."""
    return old_names.of_folder(config)


def _from_3(config: Config) -> Config:
    """A Transformer has sections for attention and positions; one that follows has its own name."""
    return {**config, "model": old_names.of_model(config["model"])}


_STEPS = (_from_1, _from_2, _from_3)
