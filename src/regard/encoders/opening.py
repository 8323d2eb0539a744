"""An encoder from a local folder of Hugging Face: `config.json`, safetensors, `tokenizer.json`.

No pickle is opened, no code of the folder is run, and transformers is not needed.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.encoders.encoder import Encoder
from regard.encoders.kinds import KINDS, Kind
from regard.encoders.stack import ACTIVATIONS, Shape, Stack
from regard.errors import RequestError, nearest
from regard.system.plain_json import read_object

__all__ = ["licence_of", "open_encoder", "stamp"]

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "model.bin", "pytorch_model.bin.index.json")


def open_encoder(folder: str | Path) -> Encoder:
    """Read an encoder: BERT, RoBERTa, DistilBERT, ELECTRA and their like.

    Raises:
        RequestError: a file is missing, the kind of model is not known, it has code of its own, or
            its files do not fit each other.
    """
    folder = Path(folder)
    mark = stamp(folder)
    config = read_object(folder / CONFIG)
    kind, shape = _shape(folder / CONFIG, config)
    tokenizer = _tokenizer(folder, shape)
    stack = _stack(folder, kind, shape)
    return Encoder(stack, tokenizer, mark, folder.name, licence_of(folder))


def stamp(folder: str | Path) -> str:
    """A digest of the files that states depend on: settings, tokenizer and weights.

    Raises:
        RequestError: one of them is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RequestError(
            f"there is no folder {folder}; expected one with {CONFIG}, {WEIGHTS} and {TOKENIZER}"
        )
    files = [folder / CONFIG, folder / TOKENIZER, *_files(folder)]
    for path in files:
        if not path.is_file():
            also = (
                "; transformers' `AutoTokenizer.from_pretrained(…).save_pretrained(…)` writes it"
                if path.name == TOKENIZER
                else ""
            )
            raise RequestError(f"the encoder {folder} has no {path.name}{also}")
    facts = [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files]
    return _digest(tuple(facts))


@lru_cache(maxsize=16)
def _digest(files: tuple[tuple[str, int, int], ...]) -> str:
    """Read once while the files stay as they are."""
    found = hashlib.blake2b(digest_size=16)
    for name, *_ in files:
        with open(name, "rb") as file:
            found.update(hashlib.file_digest(file, "blake2b").digest())
    return found.hexdigest()


def licence_of(folder: str | Path) -> str:
    """What the head of the folder's README.md says is its licence; "": nothing."""
    path = Path(folder) / "README.md"
    if not path.is_file():
        return ""
    text = path.read_text("utf-8", errors="replace")
    head = text.partition("\n---")[0] if text.startswith("---") else ""
    found = re.search(r"^licen[cs]e:\s*(\S.*)$", head, re.MULTILINE)
    return found[1].strip().strip("'\"") if found else ""


def _files(folder: Path) -> list[Path]:
    """The files of the weights."""
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        there = [name for name in PICKLES if (folder / name).is_file()]
        if there and not (folder / WEIGHTS).is_file():
            raise RequestError(
                f"the encoder {folder} has its weights in {there[0]}, a pickle, which is never "
                f"opened; expected {WEIGHTS}, which transformers' `save_pretrained` writes"
            )
        return [folder / WEIGHTS]
    shards = read_object(folder / INDEX).get("weight_map")
    names = set(shards.values()) if isinstance(shards, dict) else set()
    if not names or any(Path(str(name)).name != name for name in names):
        raise RequestError(f"{folder / INDEX}: expected a weight_map of files in the folder")
    return [folder / name for name in sorted(names)]


def _shape(path: Path, config: Mapping[str, Any]) -> tuple[Kind, Shape]:
    """The kind of encoder, and its sizes."""
    name = str(config.get("model_type"))
    if config.get("auto_map"):
        raise RequestError(f"{path}: auto_map names code of the folder, which is never run")
    if name not in KINDS:
        raise RequestError(
            f"{path}: model_type {name!r} is no encoder that is read here: {nearest(name, KINDS)}"
        )
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise RequestError(f"{path}: this is a decoder; expected an encoder")
    places = config.get("position_embedding_type", "absolute")
    if places != "absolute":
        raise RequestError(
            f"{path}: position_embedding_type is {places!r}; encoders with 'absolute' are read"
        )
    try:
        shape = KINDS[name].shape(config)
    except (KeyError, TypeError) as error:
        raise RequestError(f"{path}: expected a number for {error}") from None
    numbers = {k: v for k, v in vars(shape).items() if k not in ("activation", "epsilon", "first")}
    for key, value in numbers.items():
        if not isinstance(value, int) or value < 1:
            raise RequestError(f"{path}: {key}: expected a number above 0, got {value!r}")
    if shape.dim % shape.heads:
        raise RequestError(f"{path}: {shape.heads} heads do not divide states of {shape.dim}")
    if shape.activation not in ACTIVATIONS:
        near = nearest(str(shape.activation), ACTIVATIONS)
        raise RequestError(f"{path}: no activation {shape.activation!r} is known: {near}")
    return KINDS[name], shape


def _tokenizer(folder: Path, shape: Shape) -> tokenizers.Tokenizer:
    """The tokenizer, if its pieces are those of the weights."""
    path = folder / TOKENIZER
    try:
        found = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions
        raise RequestError(f"{path} is no file of the library tokenizers: {error}") from None
    most = max(found.get_vocab(with_added_tokens=True).values(), default=-1)
    if most >= shape.vocabulary:
        raise RequestError(
            f"{path} has pieces up to number {most}, and {CONFIG} says vocab_size "
            f"{shape.vocabulary}: they are of different encoders"
        )
    return found


def _stack(folder: Path, kind: Kind, shape: Shape) -> Stack:
    """The weights, by our names, if they fit the sizes."""
    given: dict[str, Tensor] = {}
    for path in _files(folder):
        try:
            given.update(load_file(path))
        except (SafetensorError, OSError) as error:
            raise RequestError(f"{path} cannot be read: {error}") from None
    given = {_plain(name, kind.prefix): tensor for name, tensor in given.items()}
    with torch.device("meta"):
        stack = Stack(shape)
    wanted = {name: tuple(own.shape) for name, own in stack.state_dict().items()}

    def read(name: str, size: tuple[int, ...]) -> Tensor:
        if name not in given:
            raise RequestError(f"{folder}: the weights have no {name}: they do not fit {CONFIG}")
        found = given[name]
        if tuple(found.shape) != size:
            raise RequestError(
                f"{folder}: expected {name} of shape {size}, as {CONFIG} says, got "
                f"{tuple(found.shape)}"
            )
        return found.float()

    made: dict[str, Tensor] = {}
    for ours, theirs in kind.names(shape.layers).items():
        for part in ("weight", "bias"):
            name = f"{ours}.{part}"
            if ".read." in name:
                size = (shape.dim, shape.dim)[: 2 if part == "weight" else 1]
                made[name] = read(f"{theirs}.{part}", size)
            elif name in wanted:
                made[name] = read(f"{theirs}.{part}", wanted[name])
    for number in range(shape.layers):
        for part in ("weight", "bias"):
            three = [made.pop(f"layers.{number}.read.{i}.{part}") for i in range(3)]
            made[f"layers.{number}.read.{part}"] = torch.cat(three)
    types = given.get("embeddings.token_type_embeddings.weight") if kind.typed else None
    made["kind"] = torch.zeros(shape.embed) if types is None else types[0].float()
    if made["kind"].shape != (shape.embed,):
        raise RequestError(f"{folder}: vectors of the two texts do not fit {CONFIG}")
    stack.load_state_dict(made, assign=True)
    return stack.requires_grad_(False)


def _plain(name: str, prefix: str) -> str:
    """A weight's name without what stands before it in larger models, and as it is called today."""
    name = name.removeprefix(prefix)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )
