"""Data: readers of the field's formats, tokenizers, batches by a token budget.

The names are loaded at their first use: `regard.data.files` alone imports no NumPy.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.data.batch import PairBatch as PairBatch
    from regard.data.batch import collate as collate
    from regard.data.batch import plan as plan
    from regard.data.files.registry import read as read
    from regard.data.files.row import Row as Row
    from regard.data.problems import Problem as Problem
    from regard.data.problems import Problems as Problems
    from regard.data.sources import find as find
    from regard.data.text.tokenizer import Encoding as Encoding
    from regard.data.text.tokenizer import Tokenizer as Tokenizer
    from regard.data.text.tokenizer import word_groups as word_groups

__all__ = [
    "Encoding",
    "PairBatch",
    "Problem",
    "Problems",
    "Row",
    "Tokenizer",
    "collate",
    "find",
    "plan",
    "read",
    "word_groups",
]

_HOMES = {
    "Encoding": "text.tokenizer",
    "PairBatch": "batch",
    "Problem": "problems",
    "Problems": "problems",
    "Row": "files.row",
    "Tokenizer": "text.tokenizer",
    "collate": "batch",
    "find": "sources",
    "plan": "batch",
    "read": "files.registry",
    "word_groups": "text.tokenizer",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name from its home, once."""
        if name not in _HOMES:
            raise AttributeError(f"module 'regard.data' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"regard.data.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
