"""The weights of a model folder: `model.safetensors`, checked on the way out and on the way in.

As `int8` a matrix is stored as bytes with one step for each row, an output of a linear layer or a
word's vector; vectors stay float32. The bytes are those that int8 decodes with (`row_bytes`), so a
model decodes in int8 the same whether it was stored so or not. As `int7` or `int6` a byte has
one of 127 or 63 values in place of 255: the file is as large, and an eighth or a quarter smaller in
an archive (a wheel, a `.tar.gz`).
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from regard.errors import RequestError, nearest
from regard.native.quantize import row_bytes
from regard.runtime.weights import FILE, STEPS

__all__ = ["DTYPES", "FILE", "fill", "fitting", "pack", "round_as", "saved_size"]

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "int8": torch.int8,
    "int7": torch.int8,
    "int6": torch.int8,
}
BITS = {"int8": 8, "int7": 7, "int6": 6}
"""Of the dtypes that store matrices as bytes."""
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}


def pack(model: nn.Module, dtype: str) -> tuple[bytes, dict[str, Any]]:
    """The file's content, and what `config.json` notes about it.

    Raises:
        RequestError: an unknown dtype, or weights that it cannot hold.
    """
    tensors, tied = _tensors(model, dtype)
    content = save(tensors, metadata={"format": "pt"})
    return content, {"dtype": dtype, "tied": tied, "sha256": hashlib.sha256(content).hexdigest()}


def fitting(
    wanted: Mapping[str, Tensor], folder: Path, noted: Mapping[str, Any]
) -> dict[str, Tensor]:
    """The tensors of the folder's file, if they are those of a model.

    Args:
        wanted: the model's, of which only the shapes count.
        noted: what `pack` noted in `config.json`.

    Raises:
        RequestError: the file is missing, damaged, or does not fit the model.
    """
    tensors = _read(folder, noted)
    for problem in _differences(wanted, tensors):
        raise RequestError(f"{folder / FILE} does not fit config.json: {problem}")
    return tensors


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a model, which keeps its own dtype and its tied weights, tensors that fit it."""
    wanted = model.state_dict()
    for name, tensor in tensors.items():
        wanted[name].copy_(tensor)


def round_as(model: nn.Module, dtype: str) -> None:
    """Round the weights, in place, to those that are read back from a file of this dtype."""
    if dtype != "float32":
        with torch.no_grad():
            fill(model, _whole(_tensors(model, dtype)[0]))


def saved_size(model: nn.Module, dtype: str) -> int:
    """Bytes of all tensors in a file of this dtype, without its header."""
    return sum(tensor.nbytes for tensor in _tensors(model, dtype)[0].values())


def _tensors(model: nn.Module, dtype: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, in `dtype`, and which names were left out because another holds them."""
    if dtype not in DTYPES:
        raise RequestError(f"dtype of the saved weights: {dtype!r}; {nearest(dtype, DTYPES)}")
    kept: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        value = tensor.detach()
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and place in seen:
            tied[name] = seen[place]
            continue
        seen[place] = name
        if value.is_floating_point():
            if dtype in BITS and value.dim() > 1 and value.numel():
                value, kept[name + STEPS] = _bytes(name, value, dtype)
            else:
                value = _cast(name, value, "float32" if dtype in BITS else dtype)
        kept[name] = value.cpu().contiguous().clone()
    return kept, tied


def _cast(name: str, value: Tensor, dtype: str) -> Tensor:
    cast = value.to("cpu", DTYPES[dtype])
    if not torch.isfinite(cast).all() and torch.isfinite(value).all():
        raise RequestError(f"{name} has values that {dtype} cannot hold; save as float32")
    return cast


def _bytes(name: str, value: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """A matrix, or a tensor of more dimensions, as bytes and the steps of its rows."""
    value = value.to("cpu", torch.float32)
    if not torch.isfinite(value).all():
        raise RequestError(f"{name} has values that {dtype} cannot hold; save as float32")
    found, steps = row_bytes(value.flatten(1), BITS[dtype])
    return found.view_as(value), steps[:, 0]


def _whole(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, those of bytes multiplied by their steps."""
    found = {name: value for name, value in stored.items() if not name.endswith(STEPS)}
    for name in stored.keys() - found.keys():
        of = name.removesuffix(STEPS)
        if of in found:
            value, steps = found[of], stored[name]
            found[of] = (value.flatten(1) * steps[:, None]).view_as(value)
    return found


def _read(folder: Path, noted: Mapping[str, Any]) -> dict[str, Tensor]:
    path = folder / FILE
    if not path.is_file():
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLES)
        also = f"; {pickles[0]} there is a pickle, which is never read" if pickles else ""
        raise RequestError(f"{folder} has no {FILE}{also}")
    if noted.get("dtype", "float32") not in DTYPES:
        raise RequestError(
            f"{folder / 'config.json'}: weights.dtype is {noted['dtype']!r}, expected one of "
            f"{', '.join(DTYPES)}; a newer regard may have written it"
        )
    expected = noted.get("sha256")
    if not isinstance(expected, str):
        raise RequestError(
            f"{folder / 'config.json'} notes no weights.sha256, so that nothing says whether it "
            f"belongs to {FILE}; save the model again"
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != expected:
        raise RequestError(
            f"{path} is damaged or belongs to another config.json: its SHA-256 is not the one "
            "noted there; copy the folder again, or save the model again"
        )
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise RequestError(f"{path} is not a whole safetensors file: {error}") from error
    tied = noted.get("tied") or {}
    if not isinstance(tied, dict):
        raise RequestError(f"{folder / 'config.json'}: weights.tied: expected an object")
    if noted.get("dtype") in BITS:
        for problem in _odd_steps(tensors):
            raise RequestError(f"{path}: {problem}")
        tensors = _whole(tensors)
    return tensors | {name: tensors[kept] for name, kept in tied.items() if kept in tensors}


def _odd_steps(stored: Mapping[str, Tensor]) -> Iterator[str]:
    for name, value in stored.items():
        if value.dtype == torch.int8:
            steps = stored.get(name + STEPS)
            if steps is None:
                yield f"{name}{STEPS} is missing"
            elif steps.shape != value.shape[:1]:
                yield f"{name}{STEPS} has {steps.numel()} values, expected {len(value)}, one a row"


def _differences(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Iterator[str]:
    missing, extra = sorted(wanted.keys() - given.keys()), sorted(given.keys() - wanted.keys())
    if missing:
        yield f"{missing[0]} is missing" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    if extra:
        yield f"{extra[0]} is not one of the model's weights; {nearest(extra[0], wanted)}"
    for name, tensor in wanted.items():
        if given[name].shape != tensor.shape:
            yield f"{name} has shape {tuple(given[name].shape)}, expected {tuple(tensor.shape)}"
