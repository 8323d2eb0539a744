"""Whether a model is what a packed form was written for: its modules, its settings, its numbers.

A packed form reads weights and a few settings, and never calls the modules. So whatever changes a
module's result by other means (a subclass, a hook, a patched method, a parametrization) would be
ignored. Such models are refused by `altered`; `structure` tells when a model has to be looked at
again, and `difference` compares the packed form with the model's own `step` once.
"""

from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.recording import unseen
from regard.decode.eval_mode import frozen
from regard.protocols import BOS, PAD

__all__ = ["altered", "difference", "hooked", "structure", "unstable"]

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


@torch.inference_mode()
def difference(model: Any, packed: Any) -> str | None:
    """How far a packed form's log-probabilities are off those of `model.step`; None where not.

    A probe that fails is a reason too: the form is not proved, and decoding goes on without it.
    """
    try:
        with unseen(), frozen(model):
            expected, found = _probe(model, model), _probe(packed, model)
    except Exception as error:
        return f"a probe of its steps failed ({type(error).__name__}: {error})"
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(found)):
        return "its packed form has other infinities than its step"
    if not finite.any():
        return None
    worst = float((expected - found)[finite].abs().max())
    if worst <= LIMIT * max(1.0, float(expected[finite].abs().max())):
        return None
    return f"its packed form is off by {worst:.2g} from its step"


def _probe(form: Any, model: Any) -> Tensor:
    """Log-probabilities of three steps of two sentences, the second and third of two hypotheses."""
    device = next(model.parameters()).device
    source = _ids(10, len(model.embed_source.weight), device).view(2, 5)
    source[1, 3:] = PAD
    decoding = form.start(form.encode(source, torch.tensor([5, 3], device=device)))
    logits, decoding = form.step(torch.full((2, 1), BOS, device=device), decoding)
    every = [logits.flatten(0, 1)]
    decoding = decoding.select(torch.zeros(2, 2, dtype=torch.int64, device=device))
    words = _ids(4, len(model.embed_target.weight), device).view(2, 2)
    for tokens in (words, words.flip(1)):
        logits, decoding = form.step(tokens, decoding)
        every.append(logits.flatten(0, 1))
    return torch.log_softmax(torch.cat(every).float(), -1)


def _ids(count: int, words: int, device: torch.device) -> Tensor:
    """Ids of ordinary words, spread over a vocabulary, without random numbers."""
    first = min(SPECIAL, words - 1)
    return first + torch.arange(count, device=device) * 7 % max(1, words - first)
