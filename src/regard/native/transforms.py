"""When a call must use PyTorch's own operators instead of C: transforms and tensor subclasses."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from regard.native.constant import constant

__all__ = ["followed"]

_PLAIN = (Tensor, nn.Parameter, type(None))
_TRANSFORM = "a transform of torch.func is at work, which needs PyTorch's own operators"
_transforms = torch._C._are_functorch_transforms_active


def followed(
    x: Tensor | None = None, y: Tensor | None = None, z: Tensor | None = None
) -> str | None:
    """Why a call must use PyTorch's own operators, in a clause, or None.

    Compilers and exporters are not a reason: they support the operators of `torch.library`. But
    function transforms and forward-mode derivatives, in a graph or not, do not (forward mode would
    silently treat their outputs as constants).

    Args:
        x, y, z: the tensors of the call, on one device. This check runs at every call: 0.3 us.
    """
    if torch.compiler.is_dynamo_compiling():
        return _TRANSFORM if _inside() else None
    if (
        type(x) in _PLAIN
        and type(y) in _PLAIN
        and type(z) in _PLAIN
        and not _transforms()
        and forward_ad._current_level < 0
        and (x is None or not x.is_meta)
    ):
        return None
    if torch.compiler.is_compiling():
        return None
    if _transforms():
        return _TRANSFORM
    if forward_ad._current_level >= 0:
        return "derivatives in forward mode are asked for, which need PyTorch's own operators"
    for given in (x, y, z):
        if type(given) not in _PLAIN:
            return f"its tensors are of the class {type(given).__name__}"
    return "its tensors are on the meta device and hold no numbers"


@constant
def _inside() -> bool:
    """The same while compiling; the compiled graph is guarded on these transforms."""
    return _transforms() or forward_ad._current_level >= 0
