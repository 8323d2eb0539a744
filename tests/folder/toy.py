"""Small model folders for the tests: untrained, but whole."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from regard import catalog
from regard.data.text.tokenizer import Tokenizer
from regard.folder import writing

GERMAN = [
    "das Fenster wird automatisch geschlossen .",
    "ein Hund läuft über die Straße .",
    "die Datei wird gespeichert .",
] * 3
ENGLISH = [
    "the window is closed automatically .",
    "a dog runs across the street .",
    "the file is saved .",
] * 3
DECODE = {"name": "beam", "beam_size": 3, "max_length": 8}


def table(path: Path) -> Path:
    """All pairs under `source` and `target`."""
    rows = [f"{s}\t{t}" for s, t in zip(GERMAN, ENGLISH, strict=True)]
    path.write_text("source\ttarget\n" + "\n".join(rows) + "\n")
    return path


def recipe(name: str, **model: Any) -> dict[str, Any]:
    return {
        "model": {"name": name, **catalog.entry(name).tiny, **model},
        "task": {"name": "translation", "smoothing": 0.1},
        "data": {"path": "none", "columns": {"source": "de", "target": "en"}},
        "decode": DECODE,
        "expect": {"bleu": [0.0, 90.0]},
    }


def tokenizers(shared: bool, kind: str = "bpe") -> dict[str, Tokenizer]:
    if shared:
        both = Tokenizer.train(GERMAN + ENGLISH, kind=kind, vocab_size=90)
        return {"source": both, "target": both}
    sides = {"source": (GERMAN, 80), "target": (ENGLISH, 70)}
    return {side: Tokenizer.train(t, kind=kind, vocab_size=n) for side, (t, n) in sides.items()}


def model_of(name: str, words: dict[str, Tokenizer], seed: int = 0, **model: Any) -> Any:
    """An untrained model whose weights are spread enough to prefer something."""
    torch.manual_seed(seed)
    made = catalog.load(name)(
        len(words["source"]), len(words["target"]), **{**catalog.entry(name).tiny, **model}
    )
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * 0.6)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return made.eval()


SHARED = ("transformer", "pointer-generator")
"""Models whose two sides have one vocabulary by default."""


def make(
    folder: Path,
    name: str = "transformer",
    *,
    seed: int = 0,
    model: Any = None,
    kind: str = "bpe",
    **options: Any,
) -> Path:
    """Save a toy there, and give the folder."""
    words = tokenizers(name in SHARED, kind)
    plan = recipe(name)
    return writing.save_pretrained(
        folder, model or model_of(name, words, seed), task=plan["task"], fields=words,
        recipe=plan, **options,
    )  # fmt: skip


def edit(folder: Path, **changes: Any) -> None:
    """Change `config.json`: `edit(folder, model__name="x")`; None removes the key."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        *above, last = key.split("__")
        here = config
        for part in above:
            here = here[part]
        if value is None:
            del here[last]
        else:
            here[last] = value
    path.write_text(json.dumps(config))


def vouch(folder: Path) -> None:
    """Note the weights that are there now as the right ones."""
    edit(
        folder,
        weights__sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    )
