"""What each section of a recipe is given to. `targets` imports the model's class, so torch."""

from collections.abc import Callable, Mapping
from typing import Any

from regard.errors import RequestError, nearest
from regard.settings.check import given_by_data

__all__ = ["targets"]

Targets = dict[str, tuple[Callable[..., Any], tuple[str, ...]]]


def targets(recipe: Any) -> Targets:
    """Section -> (what gets its values, its parameters that come from elsewhere).

    Raises:
        RequestError: a section lacks its `name`, or nothing has that name.
    """
    from regard import catalog, tasks
    from regard.decode import DECODERS
    from regard.optim.optimizers import OPTIMIZERS
    from regard.optim.schedules import SCHEDULES
    from regard.recipe.train_section import (
        BatchSettings,
        Checkpoint,
        NoiseSettings,
        Training,
        Validate,
        WatchSettings,
    )

    found: Targets = {}
    model = _name(recipe, "model", recipe.model, catalog.names())
    made = catalog.constructor(model)
    inside: Mapping[str, Callable[..., Any]] = getattr(made, "sections", {})
    found["model"] = made, (*given_by_data(made), *inside)
    found |= {f"model.{key}": (kind, ()) for key, kind in inside.items()}
    found["task"] = tasks.load(_name(recipe, "task", recipe.task, tasks.TASKS)), ()
    sections = ("batch", "validate", "checkpoint", "watch", "weight_noise", "optimizer", "schedule")
    found["train"] = Training, sections
    found["train.batch"] = BatchSettings, ()
    found["train.validate"] = Validate, ()
    found["train.weight_noise"] = NoiseSettings, ()
    found["train.checkpoint"] = Checkpoint, ()
    found["train.watch"] = WatchSettings, ()
    tables: tuple[tuple[str, Mapping[str, Any], str], ...] = (
        ("optimizer", OPTIMIZERS, "adam"),
        ("schedule", SCHEDULES, "constant"),
    )
    for key, table, usual in tables:
        section = {} if recipe.train.get(key) is None else recipe.train[key]
        name = _name(recipe, f"train.{key}", section, table, usual)
        found[f"train.{key}"] = table[name], ("parameters",)
    found["decode"] = DECODERS[_name(recipe, "decode", recipe.decode, DECODERS)], ()
    return found


def _name(recipe: Any, section: str, values: Any, known: Any, usual: str | None = None) -> str:
    if not isinstance(values, Mapping):
        raise RequestError(
            f"{recipe.where(section)}: {section}: expected keys with values, got {values!r}"
        )
    name = values.get("name", usual)
    if name is None:
        raise RequestError(f"{recipe.where(section)}: {section} needs a name: {', '.join(known)}")
    if not isinstance(name, str) or name not in known:
        at, near = recipe.where(f"{section}.name"), nearest(str(name), known)
        raise RequestError(f"{at}: {section} has no {name!r}: {near}")
    return name
