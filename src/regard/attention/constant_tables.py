"""Tables that are computed, not learned, and in no `state_dict`: they are never left unset.

A module that is built on the meta device, or moved by `to_empty`, has no numbers until they are
loaded. A table outside of the `state_dict` is not loaded, so it is computed again.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["ConstantTables"]

_CPU = torch.device("cpu")


class ConstantTables(nn.Module):
    """A module whose buffers that are not persistent hold constants, as its `constant` says.

    They follow `.to`, `.half()` and the like with the values that they have. Where those are lost
    (a meta device, `to_empty`), they are computed again. `load_state_dict(assign=True)` on meta has
    no device to say, so they are then on the default one.
    """

    @abstractmethod
    def constant(self, name: str, like: Tensor) -> Tensor:
        """The values of the buffer `name`, whose shape (and nothing else) is that of `like`."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = {name: self._buffers[name] for name in self._non_persistent_buffers_set}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self._buffers[name]
            if (
                old is not None
                and new is not None
                and new is not old
                and type(new) is Tensor
                and not new.is_meta
            ):
                self._fill(name, new, old)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
        if not local_metadata.get("assign_to_params_buffers", False):
            return
        for name in self._non_persistent_buffers_set:
            unset = self._buffers[name]
            if unset is not None and unset.is_meta:
                new = torch.empty_like(unset, device=torch.get_default_device())
                self._buffers[name] = new
                self._fill(name, new, unset)

    def _fill(self, name: str, new: Tensor, old: Tensor) -> None:
        """Write the values that a table had, or those that it should have."""
        with torch.no_grad():
            if old.is_meta:
                with _CPU:  # whatever device is the default one, and in float64
                    old = self.constant(name, new)
            new.copy_(old)
