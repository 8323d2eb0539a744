"""Names that settings had in earlier versions, and their names today.

Recipes, `key=value`, `--set`, model folders and calls with an old name go on working; what a person
wrote is answered by a warning with the new name. A row here is all that a renamed setting needs.
"""

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from regard.errors import RequestError

__all__ = [
    "ASKED",
    "DECODER",
    "MODELS",
    "SECTIONS",
    "SIZES",
    "SWITCHES",
    "TOKENIZER",
    "deprecated",
    "of_folder",
    "of_model",
    "of_recipe",
    "renamed",
    "renaming",
]

F = TypeVar("F", bound=Callable[..., Any])
Names = Mapping[str, str]

_FEED_FORWARD: Names = {"hidden": "ffn_dim", "hidden_dropout": "activation_dropout"}

_TRANSFORMER: Names = {
    **_FEED_FORWARD,
    "head_dim": "attention.head_dim",
    "value_head_dim": "attention.value_head_dim",
    "attention_dropout": "attention.dropout",
    "window": "attention.window",
    "positions": "position.kind",
    "max_length": "position.max_length",
    "clip": "position.clip",
    "relative": "position.relative",
    "relative_tables": "position.tables",
}

MODELS: Mapping[str, Names] = {
    "transformer": _TRANSFORMER,
    "following-transformer": _TRANSFORMER,
    "marian": _FEED_FORWARD,
    "moe": {"expert_hidden": "ffn_dim"},
}
"""Model -> old name of a setting -> the name of today; a dotted one is inside a section."""

SWITCHES: Mapping[str, Mapping[Any, str]] = {
    "follow": {False: "transformer", True: "following-transformer"}
}
"""Old switch of a model -> its value -> the model of today, where one of them is built."""

DECODER: Names = {
    "coverage": "coverage_penalty",
    "diversity": "diversity_rate",
    "length": "length_penalty",
    "no_repeat": "no_repeat_ngram",
    "repetition": "repetition_penalty",
    "size": "beam_size",
}
"""The same for every decoder."""

ASKED: Names = {"must": "force_words", "never": "bad_words"}
"""The same for what is asked of single outputs."""

TOKENIZER: Names = {"size": "vocab_size"}
"""The same for tokenizers."""

_VOCABULARIES: Names = {"source": "source_vocab_size", "target": "target_vocab_size"}
_READER: Names = {"source": "vocab_size", "target": "num_pointers"}
_GRAPH: Names = {"source": "in_features", "target": "num_classes"}
SIZES: Mapping[str, Names] = {
    "aoa": _READER,
    "as-reader": _READER,
    "gat": _GRAPH,
    "gcn": _GRAPH,
    "memn2n": {"source": "vocab_size", "target": "num_answers"},
    "memn2n-lm": {"source": "vocab_size", "target": ""},
}
"""The same for what a model is told of the data, which folders hold and recipes do not.

Models that are not here had a source and a target vocabulary; a size of which the new name is empty
was the same as another, and is gone.
"""


SECTIONS: dict[str, str] = {"train.linear_start": "task.linear_start"}
"""Old dotted key -> today's, whatever the model."""


def renamed(
    values: Mapping[str, Any], names: Names, warn: Callable[[str, str], Any] | None = None
) -> dict[str, Any]:
    """The values under the names of today, in order.

    Args:
        values: under old names, or those of today.
        names: old name -> today's.
        warn: is told of each old name that is there, and of its new one.

    Example:
        >>> renamed({"dim": 8, "hidden": 16, "clip": 4}, MODELS["transformer"])
        {'dim': 8, 'ffn_dim': 16, 'position': {'clip': 4}}
    """
    for key in values if warn else ():
        if warn and key in names:
            warn(key, names[key])
    inside = {key: names[key] for key in values if "." in names.get(key, "")}
    found = {names.get(key, key): value for key, value in values.items() if key not in inside}
    found.pop("", None)
    for key, new in inside.items():
        section, _, name = new.partition(".")
        held = found.get(section) or {}
        if not isinstance(held, Mapping) or name in held:
            raise RequestError(f"{key} is now {new}, and there is a {section} too: expected one")
        found[section] = {**held, name: values[key]}
    return found


def of_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's section of a folder under the names of today.

    Example:
        >>> of_model({"name": "transformer", "positions": "shaw", "follow": True})
        {'name': 'following-transformer', 'position': {'kind': 'shaw'}}
    """
    found = renamed(model, MODELS.get(str(model["name"]), {}))
    for key, models in SWITCHES.items():
        if key in found and found["name"] in models.values():
            found["name"] = models[found.pop(key)]
    return found


def renaming(names: Names) -> Callable[[F], F]:
    """Decorate a function, or a class, so that it takes keywords under their old names too.

    Each is answered by a `DeprecationWarning` that says the name of today.
    """

    def decorate(called: F) -> F:
        made: Any = called
        function: Any = made.__init__ if isinstance(called, type) else called

        @functools.wraps(function)
        def calling(*args: Any, **settings: Any) -> Any:
            if not names.keys().isdisjoint(settings):
                settings = renamed(settings, names, deprecated)
            return function(*args, **settings)

        if not isinstance(called, type):
            made = calling
        else:
            made.__init__ = calling
        found: F = made
        return found

    return decorate


def deprecated(old: str, new: str) -> None:
    """Warn the code that used the old name."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=4)


def of_folder(config: Mapping[str, Any]) -> dict[str, Any]:
    """A folder's configuration under the names of today."""
    found, model = dict(config), config["model"]
    found["model"] = of_model(renamed(model, SIZES.get(str(model["name"]), _VOCABULARIES)))
    found["decode"] = renamed(config["decode"], DECODER)
    data = config.get("data")
    if isinstance(data, Mapping) and isinstance(data.get("tokenizer"), Mapping):
        sides = {
            key: renamed(value, TOKENIZER) if isinstance(value, Mapping) else value
            for key, value in data["tokenizer"].items()
        }
        found["data"] = {**data, "tokenizer": renamed(sides, TOKENIZER)}
    return found


def of_recipe(model: Any) -> dict[str, str]:
    """Old dotted key -> today's, in a recipe with this model."""
    tokenizers = ("data.tokenizer", "data.tokenizer.source", "data.tokenizer.target")
    sections = {"model": MODELS.get(str(model), {}), "decode": DECODER}
    sections |= dict.fromkeys(tokenizers, TOKENIZER)
    return SECTIONS | {
        f"{section}.{old}": f"{section}.{new}"
        for section, names in sections.items()
        for old, new in names.items()
    }
