"""Who follows a call in PyTorch: where somebody must see its operators, no C is called."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

__all__ = ["followed"]

_PLAIN = (Tensor, nn.Parameter, type(None))
_transforms = torch._C._are_functorch_transforms_active


def followed(
    x: Tensor | None = None, y: Tensor | None = None, z: Tensor | None = None
) -> str | None:
    """Why a call must be made of PyTorch's own operators, in a clause; None where it need not be.

    A compiler or exporter is none of the reasons: it takes the operators of `torch.library`, which
    neither transforms of functions nor forward-mode derivatives can see through.

    Args:
        x, y, z: the tensors of the call, on one device. This is asked at every call: 0.3 us.
    """
    if torch.compiler.is_dynamo_compiling():
        return None
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
        return "a transform of torch.func is at work, which needs PyTorch's own operators"
    if forward_ad._current_level >= 0:
        return "derivatives in forward mode are asked for, which need PyTorch's own operators"
    for given in (x, y, z):
        if type(given) not in _PLAIN:
            return f"its tensors are of the class {type(given).__name__}"
    return "its tensors are on the meta device and hold no numbers"
