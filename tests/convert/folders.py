"""Folders of small untrained Transformers in all their forms, and the pages that exports have."""

import re
from pathlib import Path

import torch

import regard
from regard.folder import writing
from tests.folder import toy

FORMS = {
    "post": ("transformer", {}),
    "pre, halves": ("transformer", {"norm": "pre", "position": {"kind": "halves"}}),
    "learned": ("transformer", {"position": {"kind": "learned", "max_length": 30}}),
    "two vocabularies": ("transformer", {"tied": "output"}),
    "untied": ("transformer", {"tied": "none", "decoder_layers": 1}),
    "swish": ("marian", {"positions": "halves", "first": 2, "scaled": False, "norm": "post"}),
    "gelu": ("marian", {"activation": "gelu", "positions": "grouped"}),
    "gelu-tanh": ("marian", {"activation": "gelu-tanh", "epsilon": 1e-3, "norm": "post"}),
    "no end": ("marian", {"activation": "tanh", "reads_end": False, "tied": "all"}),
}
SOURCES = ["das Fenster wird geschlossen", "die Datei", "ein Hund läuft über die Straße ."]
TARGETS = ["the window is saved", "a dog runs across the street", "the file ."]


def make(folder: Path, form: str) -> regard.folder.reading.Loaded:
    """Save a model of a form, and load it."""
    name, changes = FORMS[form]
    words = toy.tokenizers(shared=form != "two vocabularies")
    plan = toy.recipe(name, **changes)
    if plan["task"]:
        plan["task"] = {**plan["task"], "max_source": 24}
    model = toy.model_of(name, words, seed=4, **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5 if parameter.dim() > 1 else 1.0)  # less wild: rounding stays small
    writing.save_pretrained(
        folder, model, task=plan["task"], fields=words, recipe=plan,
    )  # fmt: skip
    return regard.load(folder)


def batch(loaded: regard.folder.reading.Loaded) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources ending in EOS (B, S), their lengths, and targets beginning with BOS (B, T)."""
    sources = [[*loaded.tokenizers["source"].encode(t).ids, 2] for t in SOURCES]
    targets = [[1, *loaded.tokenizers["target"].encode(t).ids] for t in TARGETS]
    lengths = torch.tensor([len(s) for s in sources])
    return _padded(sources), lengths, _padded(targets)


def _padded(rows: list[list[int]]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def code_of(folder: Path, text: str) -> str:
    """The Python of a folder's README.md, for another text."""
    page = (folder / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "«" not in page
    return code.replace("…", text)
