"""The table of attention parts: what `model.attention` of a recipe may name.

    model:
      name: rnnsearch
      attention: {score: general, select: {name: topk, k: 4}}

A part is named alone or with its settings. Its sizes come from the model that it is put into.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError, nearest
from regard.settings.check import arguments_of, check

if TYPE_CHECKING:
    from regard.attention import Attention

__all__ = ["PARTS", "Chosen", "Part", "chosen", "part"]

Chosen = Mapping[str, Any]
"""Of each kind of part its name, or its name and settings."""


@dataclass(frozen=True)
class Part:
    """A row: a part that fits wherever there are a query, keys and values.

    Args:
        target: the name of its class in `regard.attention`.
        sizes: of an argument of the class, the size of the model that it is: `query`, `key`,
            `hidden` (of a perceptron) or `positions` (the longest source).
        alike: queries and keys must have one size.
        steps: the part reads the number of the step, `at`, which few models pass.
    """

    target: str
    sizes: Mapping[str, str] = field(default_factory=dict)
    alike: bool = False
    steps: bool = False


_PERCEPTRON = {"query_dim": "query", "key_dim": "key", "hidden": "hidden"}
_MATRIX = {"query_dim": "query", "key_dim": "key"}

PARTS: Mapping[str, Mapping[str, Part]] = {
    "score": {
        "additive": Part("Additive", _PERCEPTRON),
        "dot": Part("Dot", alike=True),
        "scaled": Part("ScaledDot", alike=True),
        "general": Part("General", _MATRIX),
        "cosine": Part("Cosine", alike=True),
        "trilinear": Part("Trilinear", {"dim": "query"}, alike=True),
        "leaky": Part("LeakyAdditive", {"dim": "query"}, alike=True),
        "biaffine": Part("Biaffine", _MATRIX),
        "euclidean": Part("NegativeSquaredEuclidean", alike=True),
        "location": Part("Location", {"query_dim": "query", "max_length": "positions"}),
        "uniform": Part("Uniform"),
    },
    "select": {
        "softmax": Part("Softmax"),
        "sharpen": Part("Sharpen"),
        "smooth": Part("Smooth"),
        "sparsemax": Part("Sparsemax"),
        "entmax": Part("Entmax15"),
        "topk": Part("TopK"),
        "straight-through": Part("StraightThrough"),
        "local-m": Part("LocalMonotonic", steps=True),
        "local-p": Part("LocalPredictive", {"query_dim": "query", "hidden": "hidden"}),
        "chain": Part("ChainMarginals"),
    },
}
"""By kind and name. Parts that carry a state belong to one model."""


def part(
    kind: str,
    told: str | Chosen,
    sizes: Mapping[str, int],
    section: str = "model.attention",
    *,
    steps: bool = False,
) -> Any:
    """A part from its name, or its name and settings.

    Args:
        kind: "score" or "select".
        sizes: of the model: `query`, `key`, `hidden`, `positions`.
        section: what a message calls the section that names it.
        steps: the model passes the number of its step to the attention.

    Raises:
        RequestError: no such part, a setting that it has not, sizes that it cannot compare, or a
            step that the model does not pass.

    Example:
        >>> part("score", "scaled", {"query": 2, "key": 2})
        ScaledDot()
        >>> part("select", {"name": "topk", "k": 4}, {})
        TopK(k=4)
    """
    rows = PARTS[kind]
    settings = {"name": told} if isinstance(told, str) else dict(told)
    name, where = str(settings.get("name", "")), f"{section}.{kind}"
    if name not in rows:
        raise RequestError(f"{where}: there is no {kind} {name!r}: {nearest(name, rows)}")
    row = rows[name]
    made = getattr(importlib.import_module("regard.attention"), row.target)
    if row.alike and sizes["query"] != sizes["key"]:
        raise RequestError(
            f"{where}: {name} compares queries and keys of one size; here they have "
            f"{sizes['query']} and {sizes['key']}: general and additive have weights between them"
        )
    if row.steps and not steps:
        raise RequestError(
            f"{where}: {name} must know the number of the decoder's step, which this model does "
            "not pass to its attention; luong does"
        )
    for argument, size in row.sizes.items():
        if size not in sizes and argument not in settings:
            raise RequestError(f"{where}: {name} needs {argument}: give its number")
    own = {argument: sizes[size] for argument, size in row.sizes.items() if size in sizes}
    needed = [argument for argument in own if argument not in settings]
    checked = check(settings, made, section=where, where=lambda key: "", given=needed)
    return made(**{argument: own[argument] for argument in needed}, **arguments_of(checked))


def chosen(
    own: "Attention", told: Chosen | None, *, steps: bool = False, **sizes: int
) -> "Attention":
    """A model's attention, with the parts that a recipe names in the place of the paper's.

    Args:
        own: as the paper has it; given back where nothing is told.
        told: `score` and `select`, each a name or a section.
        steps, sizes: see `part`.

    Raises:
        RequestError: another key; or see `part`.
    """
    if not told:
        return own
    for kind in told:
        if kind not in PARTS:
            raise RequestError(
                f"model.attention: there is no part {kind!r}: {nearest(str(kind), PARTS)}"
            )
    if own.carry is not None and "score" in told:
        raise RequestError(
            f"model.attention.score: this model's score reads what {type(own.carry).__name__} "
            "carries; leave it out"
        )
    from regard.attention import Attention

    kept = ("score", "position", "mask", "select", "read", "carry", "role", "batch_axes")
    parts = {name: getattr(own, name) for name in kept}
    made = {kind: part(kind, one, sizes, steps=steps) for kind, one in told.items()}
    return Attention(**parts | made)
