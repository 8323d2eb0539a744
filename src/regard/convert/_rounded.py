"""A model folder of ours with smaller weights: the same files, another `model.safetensors`.

A program of the model (`program.json`) names digests of the files it belongs to; it is made again.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from regard.convert._to_program import add_program
from regard.errors import RequestError
from regard.fields.saved import NAMES
from regard.folder import weights
from regard.folder.reading import CARD, CONFIG, METRICS, RECIPE, from_pretrained
from regard.folder.training_log import LOG
from regard.runtime.stored_program import PROGRAM

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write"]

KEPT = (RECIPE, METRICS, LOG, *NAMES)


def write(loaded: "Loaded", out: Path, quantization: str = "int8") -> None:
    """Write the folder with its weights rounded; its scores stay, and the card says of what.

    Args:
        quantization: `float32`, `float16`, `int8`, `int7` or `int6` (see `regard.folder.weights`).

    Raises:
        RequestError: the folder is another program's, or a dtype cannot hold its weights.
    """
    if "dtype" not in loaded.config.get("weights", {}):
        raise RequestError(
            f"{loaded.folder} is a folder of another program; `regard convert` makes one of ours"
        )
    content, noted = weights.pack(loaded.model, quantization)
    (out / weights.FILE).write_bytes(content)
    for pattern in KEPT:
        for file in sorted(loaded.folder.glob(pattern)):
            (out / file.name).write_bytes(file.read_bytes())
    config = json.dumps({**loaded.config, "weights": noted}, indent=2, ensure_ascii=False)
    (out / CONFIG).write_text(config + "\n", "utf-8")
    card = loaded.folder / CARD
    if card.is_file():
        (out / CARD).write_text(_card(card.read_text("utf-8"), loaded, out, quantization), "utf-8")
    if (loaded.folder / PROGRAM).is_file():
        add_program(from_pretrained(out))


def _card(text: str, loaded: "Loaded", out: Path, quantization: str) -> str:
    """The folder's card under the new name, with a line on what was done."""
    old, before = loaded.folder.name, loaded.config["weights"]["dtype"]
    text = text.replace(f'regard.load("{old}")', f'regard.load("{out.name}")')
    text = text.replace(f"saved as {before}", f"saved as {quantization}", 1)
    title, rest = f"# {out.name}", text.removeprefix(f"# {old}")
    if quantization == before:
        return title + rest
    note = (
        f"The weights were rounded from {before} to {quantization} by `regard export`, after the "
        "scores below were measured."
    )
    return f"{title}\n\n{note}{rest}"
