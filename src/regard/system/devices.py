"""Devices: the one that a name means, and the one of a model. Importing this loads no torch."""

from typing import TYPE_CHECKING, Literal

from regard.errors import RequestError

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["device_named", "device_of"]


def device_named(name: str, asked: str = "--device cuda") -> Literal["cpu", "cuda"]:
    """The device of a name: `cpu`, `cuda`, or `auto` for a GPU where there is one.

    Args:
        asked: what asks for a GPU, for the sentence that says there is none.

    Raises:
        RequestError: another name, or no GPU.
    """
    if name not in ("cpu", "cuda", "auto"):
        raise RequestError(f"--device: expected cpu, cuda or auto, got {name!r}")
    if name == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise RequestError(
            f"{asked}: expected a GPU with CUDA, and PyTorch finds none here; "
            "'auto' uses what is available"
        )
    return "cpu"


def device_of(model: "nn.Module") -> "torch.device":
    """Where a model's parameters are."""
    import torch

    return next((p.device for p in model.parameters()), torch.device("cpu"))
