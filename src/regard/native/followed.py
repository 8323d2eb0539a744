"""Who follows a call in PyTorch: where somebody must see its operators, no C is called."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

__all__ = ["followed"]

_PLAIN = (Tensor, nn.Parameter)
_transforms = torch._C._are_functorch_transforms_active


def followed(*tensors: Tensor) -> str | None:
    """Why a call must be made of PyTorch's own operators, in a clause; None where it need not be.

    A compiler or exporter is none of the reasons: it takes the operators of `torch.library`, which
    neither transforms of functions nor forward-mode derivatives can see through.
    """
    if torch.compiler.is_dynamo_compiling():
        return None
    if not (_transforms() or forward_ad._current_level >= 0):
        for x in tensors:
            if type(x) not in _PLAIN or x.is_meta:
                break
        else:
            return None
    return _reason(tensors)


def _reason(tensors: tuple[Tensor, ...]) -> str | None:
    if torch.compiler.is_compiling():
        return None
    if _transforms():
        return "a transform of torch.func is at work, which needs PyTorch's own operators"
    if forward_ad._current_level >= 0:
        return "derivatives in forward mode are asked for, which need PyTorch's own operators"
    for x in tensors:
        if type(x) not in _PLAIN:
            return f"its tensors are of the class {type(x).__name__}"
        if x.is_meta:
            return "its tensors are on the meta device and hold no numbers"
    return None
