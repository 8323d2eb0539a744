"""Names that settings had in earlier versions, and their names today.

Recipes, `key=value` and model folders with an old name go on working. A row here is all that a
renamed setting needs.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["MODELS", "SECTIONS", "SIZES", "of_folder", "of_recipe", "renamed"]

Names = Mapping[str, str]

_FEED_FORWARD: Names = {"hidden": "ffn_dim", "hidden_dropout": "activation_dropout"}

MODELS: Mapping[str, Names] = {
    "transformer": _FEED_FORWARD,
    "marian": _FEED_FORWARD,
    "moe": {"expert_hidden": "ffn_dim"},
}
"""Model -> old name of a setting -> the name of today."""

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


def renamed(values: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The values under the names of today, in order.

    Example:
        >>> renamed({"dim": 8, "hidden": 16}, MODELS["transformer"])
        {'dim': 8, 'ffn_dim': 16}
    """
    found = {names.get(key, key): value for key, value in values.items()}
    found.pop("", None)
    return found


def of_folder(model: Mapping[str, Any]) -> dict[str, Any]:
    """The `model` section of a folder's configuration under the names of today."""
    name = str(model["name"])
    return renamed(model, {**SIZES.get(name, _VOCABULARIES), **MODELS.get(name, {})})


def of_recipe(model: Any) -> dict[str, str]:
    """Old dotted key -> today's, in a recipe with this model."""
    names = MODELS.get(str(model), {})
    return SECTIONS | {f"model.{old}": f"model.{new}" for old, new in names.items()}
