"""The rows of all models, oldest paper first, and a model from its row, its data and settings."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from regard.catalog.beside import LABELING, SUFFIX, with_beside
from regard.catalog.generators import GENERATORS
from regard.catalog.images import IMAGES
from regard.catalog.others import OTHERS
from regard.catalog.pairs import PAIRS
from regard.catalog.row import AXES, Entry
from regard.catalog.sentences import SENTENCES
from regard.catalog.sounds import SOUNDS
from regard.catalog.tagging import TAGGING
from regard.errors import RequestError, nearest
from regard.settings.check import given_by_data, optional_of_data

__all__ = [
    "AXES",
    "ENTRIES",
    "Entry",
    "build",
    "constructor",
    "entry",
    "load",
    "names",
    "shape_of",
    "undrawn",
]

ENTRIES: tuple[Entry, ...] = tuple(
    sorted(
        (*GENERATORS, *OTHERS, *PAIRS, *SENTENCES, *TAGGING, *IMAGES, *SOUNDS),
        key=lambda row: row.year,
    )
)
"""All rows, oldest paper first."""

_BY_NAME: Mapping[str, Entry] = {e.name: e for e in ENTRIES}


def names(task: str | None = None) -> list[str]:
    """The names of all models, oldest paper first, or of those used for one task."""
    return [e.name for e in ENTRIES if task is None or task in e.tasks]


def entry(name: str) -> Entry:
    """The row called `name`.

    Raises:
        RequestError: no such model; the nearest name is in the message.

    Example:
        >>> entry("rnnsearch").year
        2014
    """
    if name not in _BY_NAME:
        raise RequestError(f"no model is called {name!r}: {nearest(name, _BY_NAME)}")
    return _BY_NAME[name]


def load(name: str) -> type[Any]:
    """Import the class of the model called `name` (this imports torch)."""
    module, _, attribute = entry(name).target.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), attribute)
    return found


def constructor(name: str) -> Callable[..., Any]:
    """What makes the model called `name`, from what the data say and its settings.

    The class itself; for a model that labels texts or pairs it takes `beside`, too: see
    `catalog.beside`.
    """
    made = load(name)
    suffix = SUFFIX.get(given_by_data(made))
    alone = name.startswith("bag-of-ngrams") or not LABELING.intersection(entry(name).tasks)
    return made if suffix is None or alone else with_beside(made, suffix, load)


def build(name: str, data: Mapping[str, int], settings: Mapping[str, Any]) -> Any:
    """Make a model of what the data say (sizes of vocabularies, classes) and its settings.

    Raises:
        RequestError: the data say other things than the model asks for.
    """
    made = constructor(name)
    asked, optional = given_by_data(made), optional_of_data(made)
    if not set(asked) - optional <= set(data) <= set(asked):
        raise RequestError(
            f"model.name: {name} is a model for {' and '.join(entry(name).tasks)}, built from "
            f"{' and '.join(asked)}; this task's data give {' and '.join(data) or 'nothing'}"
        )
    return made(**data, **settings)


_DRAWN = frozenset(
    """
    normal_ uniform_ trunc_normal_ random_ bernoulli_ exponential_
    kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_ orthogonal_
    """.split()
)
"""Methods of a tensor and functions of `torch.nn.init` that draw initial values."""
_SCALED = frozenset({"mul", "__mul__", "__rmul__", "div", "__truediv__"})
"""Those that scale them."""


def shape_of(model: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The model with weights that have shapes and no values: nothing of their size is allocated."""
    import torch

    with torch.device("meta"):
        return undrawn(model, arguments)


def undrawn(model: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The model with zeros where initial values would be drawn, for weights that are read later."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Undrawn(TorchFunctionMode):
        """On meta it does not scale either: both would import PyTorch's compiler."""

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name, kwargs = getattr(func, "__name__", ""), kwargs or {}
            if name in _DRAWN or name in _SCALED:
                into, *others = args or (kwargs["tensor"],)
                if isinstance(into, torch.Tensor) and into.is_floating_point():
                    if into.is_meta and not any(isinstance(o, torch.Tensor) for o in others):
                        return into
                    if name in _DRAWN and kwargs.get("generator") is None:
                        with torch.no_grad():
                            return into.zero_()
            if name in ("rand", "randn") and torch.get_default_device().type == "meta":
                func = torch.empty
            return func(*args, **kwargs)

    with torch.random.fork_rng(devices=[]), Undrawn():
        return model(**arguments)
