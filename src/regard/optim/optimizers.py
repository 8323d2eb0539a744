"""Optimizers by the names that recipes use."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from regard.errors import RequestError, nearest
from regard.protocols import Rated

__all__ = ["OPTIMIZERS", "adadelta", "adam", "adamw", "build", "for_model", "sgd"]

Parameters = Iterable[torch.nn.Parameter]
Groups = Parameters | Iterable[dict[str, Any]]
"""Parameters, or groups of them, as PyTorch's optimizers take them."""


def adam(
    parameters: Groups,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Adam (Kingma and Ba 2015); the Transformer uses `betas: [0.9, 0.98], eps: 1e-9`."""
    return torch.optim.Adam(
        parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True
    )


def adamw(
    parameters: Groups,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""
    return torch.optim.AdamW(
        parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True
    )


def adadelta(
    parameters: Groups,
    lr: float = 1.0,
    rho: float = 0.95,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Adadelta (Zeiler 2012), with the numbers of Bahdanau et al. 2015 as defaults."""
    return torch.optim.Adadelta(parameters, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)


def sgd(
    parameters: Groups,
    lr: float = 1.0,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> Optimizer:
    """Stochastic gradient descent, with the learning rate of Luong et al. 2015 as default.

    ConvS2S (Gehring et al. 2017) uses `lr: 0.25, momentum: 0.99, nesterov: true`.
    """
    if nesterov and not momentum > 0:
        raise RequestError(f"nesterov: true expected a momentum above 0, got {momentum}")
    return torch.optim.SGD(
        parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov
    )


OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {
    "adam": adam,
    "adamw": adamw,
    "adadelta": adadelta,
    "sgd": sgd,
}


def build(section: Mapping[str, Any], parameters: Groups) -> Optimizer:
    """The optimizer of a recipe: `{name: adam, lr: 0.001}`.

    Raises:
        RequestError: no optimizer has that name.
    """
    settings = dict(section)
    name = settings.pop("name", "adam")
    if name not in OPTIMIZERS:
        raise RequestError(f"there is no optimizer {name!r}: {nearest(str(name), OPTIMIZERS)}")
    # YAML has lists where Python says tuples, and 1 where it says 1.0.
    fitted = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    return OPTIMIZERS[name](
        parameters, **{k: float(v) if type(v) is int else v for k, v in fitted.items()}
    )


def for_model(section: Mapping[str, Any], model: torch.nn.Module) -> Optimizer:
    """The optimizer of a recipe for all parameters of a model.

    A `Rated` model says which of them learn at a multiple of `lr`: these are parameter groups of
    their own, behind that of all others.

    Raises:
        RequestError: no optimizer has that name.
    """
    rates = model.rates if isinstance(model, Rated) else {}
    if not rates:
        return build(section, model.parameters())
    groups: dict[str, list[torch.nn.Parameter]] = {start: [] for start in ("", *rates)}
    for name, parameter in model.named_parameters():
        groups[next((start for start in rates if name.startswith(start)), "")].append(parameter)
    found = build(section, [{"params": own} for own in groups.values()])
    for group, start in zip(found.param_groups, groups, strict=True):
        group["lr"] *= rates.get(start, 1.0)
    return found
