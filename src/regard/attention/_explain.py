"""Which kernel an attention uses, and why the faster ones are not used."""

from torch import nn

from regard.attention._combinations import turns_only
from regard.attention._kernels.dispatch import Explanation, explain_call
from regard.attention.call import Call
from regard.attention.module import Attention, MultiHead

__all__ = ["explain"]


def explain(model: nn.Module, *, need_weights: bool = False) -> dict[str, Explanation]:
    """For each attention of a model, by module path: its kernel, and why no faster one is used.

    Decided by the parts alone, without tensors. An enclosing `kernels(...)` is respected.

    Example:
        >>> from regard.attention import Additive
        >>> print(explain(Attention(score=Additive(4, 4, 4)))[""])
        streaming (...; not dots or sdpa: Additive is not a dot product; not located: ...)
    """
    found: dict[str, Explanation] = {}
    inner: set[int] = set()
    for path, module in model.named_modules():
        if isinstance(module, MultiHead):
            layer = module.attention
            inner.add(id(layer))
        elif isinstance(module, Attention) and id(module) not in inner:
            layer = module
        else:
            continue
        parts = layer.parts
        if turns_only(parts["position"]):
            parts["position"] = None  # queries and keys are rotated before the kernel
        mask = layer.mask if layer.expected_mask is None else layer.expected_mask
        found[path] = explain_call(Call(**parts, mask=mask, need_weights=need_weights))
    return found
