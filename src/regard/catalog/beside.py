"""`model.beside`: a linear model of n-grams beside a model that labels texts or pairs."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from regard.errors import RequestError, nearest
from regard.settings.check import check, given_by_data, hints_of

__all__ = ["LABELING", "WIDE", "with_beside"]

LABELING = frozenset({"classification", "relation-classification", "entailment", "similarity"})
"""Tasks whose models may have a branch beside them."""
WIDE: Mapping[tuple[str, ...], str] = {
    ("vocab_size", "num_classes"): "bag-of-ngrams",
    ("vocab_size", "num_classes", "num_features"): "bag-of-ngrams-pair",
}
"""The branch, by what the data say of the model that it stands beside."""
RATE = 20.0


def with_beside(
    deep: type[Any], usual: str, load: Callable[[str], type[Any]]
) -> Callable[..., Any]:
    """The constructor of a model's class, with the setting `beside`.

    It is the name of the branch, or its settings with `name` and `rate`, the multiple of
    `train.optimizer.lr` at which it learns. The result is then a
    `models.wide_and_deep.WideAndDeep`.

    Args:
        usual: the branch that reads what `deep` reads.
        load: gives the class of a model by its name.
    """

    def made(*, beside: str | dict[str, Any] | None = None, **settings: Any) -> Any:
        if beside is None:
            return deep(**settings)
        told = {"name": beside} if isinstance(beside, str) else dict(beside)
        name, rate = told.pop("name", usual), told.pop("rate", RATE)
        if name not in (usual, usual.removesuffix("-pair")):
            raise RequestError(f"model.beside: {name!r}: {nearest(str(name), [usual])}")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0:
            raise RequestError(f"model.beside.rate: expected a number above 0, got {rate!r}")
        wide = load(usual)
        given = given_by_data(wide)
        own = check(told, wide, section="model.beside", where=lambda key: "", given=given)
        sizes = {key: settings[key] for key in given if key in settings}
        both: Any = importlib.import_module("regard.models.wide_and_deep").WideAndDeep
        return both(deep(**settings), wide(**sizes, **own), rate=float(rate))

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
