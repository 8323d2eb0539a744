"""Who follows a call in PyTorch: where somebody must see its operators, no C is called."""

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
    """Why a call must be made of PyTorch's own operators, in a clause; None where it need not be.

    A compiler or exporter is none of the reasons: it takes the operators of `torch.library`. But
    neither transforms of functions nor derivatives in forward mode, in a graph or not, can see
    through these (in forward mode they would be constants, without a word).

    Args:
        x, y, z: the tensors of the call, on one device. This is asked at every call: 0.3 us.
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
    """The same of a graph that is being compiled, which is for these transforms (it is guarded)."""
    return _transforms() or forward_ad._current_level >= 0
