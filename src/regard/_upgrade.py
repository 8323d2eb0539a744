"""What `config.json` of an earlier format means today: its models go on giving the same answers."""

from typing import Any

from regard._recipe import old_names

__all__ = ["upgrade"]

Config = dict[str, Any]


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
    return {**config, "model": old_names.of_folder(config["model"])}


_STEPS = (_from_1, _from_2)
