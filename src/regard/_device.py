"""Which device a name means. Imports torch only to look for a GPU."""

from typing import Literal

from regard.errors import RequestError

__all__ = ["device_named"]


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
