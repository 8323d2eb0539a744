"""Whether a model is what its program was made of: its modules, their settings, hooks and patches.

A program reads weights, and never calls the modules. So whatever changes a module's result by other
means (a subclass, a hook, a patched method, a parametrization) has to be noticed: `structure` tells
when a model has to be looked at again, `hooked` and `unstable` what no recording can repeat.
"""

from types import NoneType
from typing import Any

from torch import Tensor, nn

__all__ = ["altered", "hooked", "structure", "unstable"]

HOMES = ("regard.", "torch.nn.modules.")
"""Where classes come from that packed forms know; all others may compute anything."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
OF_PYTORCH = frozenset(vars(nn.Module()))
"""Attributes that every module has."""
MOST = 64
"""Of longer lists only the length is compared."""
PLAIN = frozenset((bool, int, float, str, NoneType, tuple))
SPECIAL = 4
"""The ids before the words: padding, begin, end, unknown."""
LIMIT = 1e-4
"""Largest difference of log-probabilities, per unit of the largest one: sums in another order."""


def altered(model: nn.Module) -> str | None:
    """What changes a module's result without changing its weights, in a clause, or None.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> altered(layer) is None
        True
        >>> _ = layer.register_forward_hook(lambda *given: None)
        >>> altered(layer)
        'the model has a forward hook'
    """
    why = hooked(model)
    if why is not None:
        return why
    for name, module in model.named_modules():
        kind, where = type(module), name or "the model"
        if not kind.__module__.startswith(HOMES):
            return f"{where} is a {kind.__name__}, which is not a module of PyTorch or regard"
        for own, value in vars(module).items():
            if callable(value) and hasattr(kind, own):
                return f"{kind.__name__}.{own} of {where} is patched"
    return None


def unstable(model: nn.Module) -> str | None:
    """What a recording could not notice when it changes, in a clause, or None.

    A tensor of a class from elsewhere that is neither a parameter nor a buffer may change unseen.
    """
    for name, module in model.named_modules():
        if not type(module).__module__.startswith(HOMES):
            for own, value in vars(module).items():
                if isinstance(value, Tensor):
                    where = f"{name}.{own}" if name else own
                    return f"{where} is a tensor, but neither a parameter nor a buffer"
    return None


def hooked(model: nn.Module) -> str | None:
    """Which module has a forward hook, in a clause, or None: a recording would lose its effects."""
    every = nn.modules.module
    if every._global_forward_hooks or every._global_forward_pre_hooks:
        return "there is a forward hook on all modules"
    for name, module in model.named_modules():
        if any(getattr(module, hooks) for hooks in HOOKS):
            return f"{name or 'the model'} has a forward hook"
    return None


def structure(model: nn.Module) -> list[Any]:
    """The class, hooks and settings of every module: equal where nothing but weights has changed.

    It is asked before every decoding, so it builds no names; `altered` does where something is new.
    """
    found: list[Any] = [*nn.modules.module._global_forward_hooks]
    found += nn.modules.module._global_forward_pre_hooks
    waiting: list[nn.Module] = [model]
    while waiting:
        module = waiting.pop()
        found.append(type(module))
        own, foreign = vars(module), not type(module).__module__.startswith(HOMES)
        for name, value in own.items():
            if name[0] != "_" or (foreign and name not in OF_PYTORCH):
                if name != "training":
                    found.append((name, _setting(value)))
            elif name in HOOKS and value:
                found.append((name, list(value)))
        for name, child in own["_modules"].items():
            found.append(name)
            if child is not None:
                waiting.append(child)
    return found


def _setting(value: Any) -> Any:
    """What of a setting can be compared: plain values, functions, the plain fields of a part."""
    kind = type(value)
    if kind in PLAIN or callable(value):
        return value
    if kind in (list, set, dict):
        some = list(value.items() if kind is dict else value)
        return kind, len(some), [_setting(one) for one in some[:MOST]]
    if hasattr(kind, "__dataclass_fields__") and hasattr(value, "__dict__"):
        return kind, [(k, v) for k, v in vars(value).items() if type(v) in PLAIN]
    return kind
