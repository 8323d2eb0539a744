"""`custom_op`: PyTorch's, registered without a search through all modules."""

import inspect
import sys
from typing import TYPE_CHECKING, Any

import torch

__all__ = ["custom_op"]

if TYPE_CHECKING:
    from torch.library import custom_op as custom_op
else:

    def custom_op(name: str, **settings: Any) -> Any:
        """`torch.library.custom_op`.

        PyTorch notes the file that defines an operator. It asks `inspect`, which looks up the file
        of every imported module (0.1 s and more of a start), unless it knows the caller's already.
        """
        caller = sys._getframe(1)
        known = getattr(inspect, "modulesbyfile", {})
        known.setdefault(inspect.getabsfile(caller), caller.f_globals["__name__"])
        return torch.library.custom_op(name, **settings)
