"""Private names of PyTorch in `src`: `torch._x`, and `_x` of its modules and tensors."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

__all__ = ["SOURCES", "is_there", "used"]

SOURCES = Path("src/regard")
OURS = {"_values", "_is_protocol"}
"""Names of PyTorch that classes of ours have, and `typing`: theirs are not meant in `src`."""


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _of_instances() -> set[str]:
    module = nn.Module()
    return {one for one in {*vars(module), *dir(module), *dir(torch.Tensor)} if _private(one)}


def _names(tree: ast.AST, known: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            if whole.startswith("torch.") and whole.replace(".", "").replace("_", "").isalnum():
                yield whole
            elif node.attr in known:
                yield f"*.{node.attr}"
        elif isinstance(node, ast.Constant) and node.value in known:
            yield f"*.{node.value}"


def _maybe(known: set[str]) -> re.Pattern[str]:
    """What a file has that uses one: to parse them all takes twenty times as long as this."""
    return re.compile(
        r"torch[\w.\s]*\._"
        r"|from\s+torch[\w.]*\s+import\s+(\(|[^\n]*(\b_|\\))"
        rf"|\b(?:{'|'.join(map(re.escape, sorted(known)))})\b"
    )


def used() -> dict[str, set[str]]:
    """Each private name and the files that use it; the longest of names within each other."""
    known, found = _of_instances() - OURS, dict[str, set[str]]()
    maybe = _maybe(known)
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text("utf-8")
        if not maybe.search(text):
            continue
        names = set(_names(ast.parse(text), known))
        names = {one for one in names if any(map(_private, one.split(".")))}
        for one in names:
            if not any(other.startswith(f"{one}.") for other in names):
                found.setdefault(one, set()).add(str(path.relative_to(SOURCES)))
    return found


def is_there(name: str) -> bool:
    """Whether this PyTorch has it."""
    head, _, last = name.rpartition(".")
    if head == "*":
        return last in _of_instances()
    try:
        owner = importlib.import_module(head)
    except ImportError:
        parts, owner = head.split("."), torch
        for part in parts[1:]:
            owner = getattr(owner, part, None)
    return hasattr(owner, last)
