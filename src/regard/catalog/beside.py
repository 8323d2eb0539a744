"""`model.beside`: branches beside a model that labels texts or pairs, as a bag of n-grams."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from regard.errors import RequestError, nearest
from regard.settings.check import check, given_by_data, hints_of

__all__ = ["BRANCHES", "LABELING", "Branch", "with_beside"]

LABELING = frozenset({"classification", "relation-classification", "entailment", "similarity"})
"""Tasks whose models may have branches beside them."""


class Branch(NamedTuple):
    """A model that may stand beside another one.

    Args:
        name: of its part of the model, as in the names of its weights.
        rate: the multiple of `train.optimizer.lr` at which it learns, unless told.
    """

    name: str
    rate: float


BRANCHES: Mapping[str, Branch] = {
    "bag-of-ngrams": Branch("wide", 20.0),
    "swem": Branch("pooled", 1.0),
}
"""By the names of the models that read texts; those of pairs have `-pair` behind them."""
SUFFIX: Mapping[tuple[str, ...], str] = {
    ("vocab_size", "num_classes"): "",
    ("vocab_size", "num_classes", "num_features"): "-pair",
}
"""Behind the name of the branch, by what the data say of the model that it stands beside."""

Told = str | dict[str, Any]


def with_beside(
    deep: type[Any], suffix: str, load: Callable[[str], type[Any]]
) -> Callable[..., Any]:
    """The constructor of a model's class, with the setting `beside`.

    It is the name of a branch, or its settings with `name`, `rate`, the multiple of
    `train.optimizer.lr` at which it learns, and `alone`, the share of training texts that it scores
    alone; or a list of these. The result is then a `models.wide_and_deep.WideAndDeep`.

    Args:
        suffix: one of `SUFFIX`: the branches read what `deep` reads.
        load: gives the class of a model by its name.
    """

    def made(*, beside: Told | list[Told] | None = None, **settings: Any) -> Any:
        every = beside if isinstance(beside, list) else [] if beside is None else [beside]
        if not every:
            return deep(**settings)
        branches: dict[str, Any] = {}
        rates: dict[str, float] = {}
        alone: dict[str, float] = {}
        for kind, rate, share, told in map(_told, every):
            branch, wide = BRANCHES[kind], load(kind + suffix)
            if branch.name in branches:
                raise RequestError(f"model.beside: {kind!r} is there twice; leave one out")
            given = given_by_data(wide)
            own = check(told, wide, section="model.beside", where=lambda key: "", given=given)
            shared = {*given, "embed"} & inspect.signature(wide).parameters.keys()
            sizes = {key: settings[key] for key in shared if key in settings}
            branches[branch.name] = wide(**{**sizes, **own})
            rates[branch.name], alone[branch.name] = rate, share
        if (total := sum(alone.values()) + max(alone.values())) > 1:
            raise RequestError(
                "model.beside.alone: expected shares that leave the model beside them as much as "
                f"the largest, 0.5 at most for one branch; with it they are {total:g} of all texts"
            )
        both: Any = importlib.import_module("regard.models.wide_and_deep").WideAndDeep
        return both(deep(**settings), branches, rates, alone)

    signature = inspect.signature(deep)
    more = inspect.signature(made).parameters["beside"]
    known: dict[str, Any] = {
        "__signature__": signature.replace(parameters=[*signature.parameters.values(), more]),
        "__annotations__": {**hints_of(deep), "beside": more.annotation},
        "__name__": deep.__name__,
        "__doc__": deep.__doc__,
        "sections": getattr(deep, "sections", {}),
    }
    for key, value in known.items():
        setattr(made, key, value)
    return made


def _told(given: Told) -> tuple[str, float, float, dict[str, Any]]:
    """(the branch, its rate, the share of texts that it scores alone, its model's settings)."""
    told = {"name": given} if isinstance(given, str) else dict(given)
    name = str(told.pop("name", "bag-of-ngrams"))
    kind = name.removesuffix("-pair")
    if kind not in BRANCHES:
        raise RequestError(f"model.beside: {name!r}: {nearest(name, BRANCHES)}")
    rate = told.pop("rate", BRANCHES[kind].rate)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0:
        raise RequestError(f"model.beside.rate: expected a number above 0, got {rate!r}")
    alone = told.pop("alone", 0.0)
    if isinstance(alone, bool) or not isinstance(alone, int | float) or not 0 <= alone <= 0.5:
        raise RequestError(f"model.beside.alone: expected a share from 0 to 0.5, got {alone!r}")
    return kind, float(rate), float(alone), told
