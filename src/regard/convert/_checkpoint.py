"""Checkpoints of other programs: tensors and plain values out of a file, and nothing else."""

import argparse
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.convert._vocabulary import ConvertedVocabulary, words
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RegardError, RequestError
from regard.models.marian import Marian

__all__ = ["Found", "checkpoint_in", "plain", "readable", "same_sides"]


@dataclass(frozen=True)
class Found:
    """What was read of another program's model.

    Args:
        spec: the arguments of `model` but the vocabularies' sizes.
        tokenizers: by side, `source` and `target`.
        decode: the `decode` section that decodes as that program does by default.
        origin: what it was, for the model card.
    """

    model: Marian
    spec: dict[str, Any]
    tokenizers: dict[str, Tokenizer]
    decode: dict[str, Any]
    origin: str


@contextmanager
def readable(path: Path, origin: str) -> Iterator[None]:
    """Any error of what is inside as one sentence: files of strangers raise nearly anything.

    Raises:
        RequestError: a setting, a name or a table is missing, or is no such thing.
    """
    try:
        yield
    except (RegardError, MemoryError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        kind = "lacks" if isinstance(error, KeyError) else f"gives {type(error).__name__}:"
        raise RequestError(
            f"{path} is damaged, or not of a form of {origin} that is known: it {kind} {said}"
        ) from error


# What the checkpoints hold beside tensors: settings, and numbers that NumPy wrote.
_PLAIN = [
    argparse.Namespace,
    types.SimpleNamespace,
    np.dtype,
    np.ndarray,
    type(np.dtype(np.float64)),
    type(np.dtype(np.float32)),
    type(np.dtype(np.int64)),
    np._core.multiarray.scalar,  # type: ignore[attr-defined]
    np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    (np._core.multiarray.scalar, "numpy.core.multiarray.scalar"),  # type: ignore[attr-defined]
]


def plain(path: Path) -> Mapping[str, Any]:
    """A checkpoint's content, without running any of it.

    Raises:
        RequestError: there is no such file, it is no checkpoint, or it holds objects of a program.
    """
    if not path.is_file():
        raise RequestError(f"there is no checkpoint {path}")
    try:
        with torch.serialization.safe_globals(_PLAIN):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of damaged files torch raises nearly anything
        _, _, named = str(error).partition("Unsupported global: GLOBAL ")
        why = "it is no file of torch.save, or not the whole of one"
        if named:
            why = f"it holds {named.split()[0]}, which only its own program can make"
        raise RequestError(f"{path} cannot be read as tensors and plain values: {why}") from error
    if not isinstance(content, Mapping):
        raise RequestError(f"{path}: expected a dictionary, got a {type(content).__name__}")
    return content


def checkpoint_in(path: Path, names: Sequence[str]) -> Path:
    """A checkpoint's file, or the first of `names` that a folder has.

    Raises:
        RequestError: there is nothing, or the folder has none of them.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise RequestError(f"there is no checkpoint {path}")
    found = next((path / name for name in names if (path / name).is_file()), None)
    if found is None:
        raise RequestError(f"{path} has no checkpoint; name the file, as {path / 'checkpoint.pt'}")
    return found


def same_sides(source: ConvertedVocabulary, target: ConvertedVocabulary) -> dict[str, Tokenizer]:
    """The tokenizers of both sides: one where the vocabulary is one."""
    one = words(source)
    return {"source": one, "target": one if source == target else words(target)}
