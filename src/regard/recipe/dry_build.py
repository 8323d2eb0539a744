"""All that a recipe describes, made without data and without memory: what fails, fails here."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.catalog.building import shape_of
from regard.errors import RequestError
from regard.settings.check import arguments_of, given_by_data

__all__ = ["try_out"]

SIZE = 100
"""Of vocabularies, classes and features, where nothing was read yet."""

_KEY = re.compile(r"[a-z]+(?:\.\w+)+(?=[: ])")
_REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""What constructors say with: theirs, and those of what they call."""


def try_out(recipe: Any) -> None:
    """Make task, decoder, schedule, optimizer and model; the model's weights take no memory.

    Raises:
        RequestError: one of them refuses its settings; with the place.
    """
    import torch

    from regard import catalog, decode, tasks
    from regard.optim.optimizers import build as build_optimizer
    from regard.optim.schedules import Point
    from regard.optim.schedules import build as build_schedule
    from regard.recipe.train_section import BatchSettings
    from regard.tasks.starting_vectors import place_of_states

    with _placed(recipe, "task"):
        task = tasks.load(recipe.task["name"])(**arguments_of(recipe.task))
    task.check_data(recipe.data, recipe.where)
    with _placed(recipe, "decode"):
        decode.build(recipe.decode)
    with _placed(recipe, "train.batch"):
        BatchSettings(**(recipe.train.get("batch") or {}))
    with _placed(recipe, "train.schedule"):
        factor = build_schedule(recipe.train.get("schedule") or {})
        for point in (Point(1, 0.0, 0.0), Point(1000, 3.0, 1.0)):
            float(factor(point))
    with _placed(recipe, "train.optimizer"):
        build_optimizer(recipe.train.get("optimizer") or {}, [torch.nn.Parameter(torch.zeros(1))])
    with _placed(recipe, "model"):
        made = catalog.load(recipe.model["name"])
        sizes = dict.fromkeys(given_by_data(made), SIZE)
        if "num_pointers" in sizes:
            sizes["num_pointers"] = getattr(task, "pointers", SIZE)
        model = shape_of(made, {**sizes, **arguments_of(recipe.model)})
        if (recipe.data.get("vectors") or {}).get("encoder"):
            place_of_states(model, recipe.model["name"])
    with _placed(recipe, "task"):
        task.phases(model)


@contextmanager
def _placed(recipe: Any, section: str) -> Iterator[None]:
    """Put the place of a section, or of the key it speaks of, before what is wrong with it."""
    try:
        yield
    except RequestError as error:
        said = str(error)
        key = _KEY.match(said)
        place = recipe.where(key[0] if key else section)
        head = said if said.startswith(place) else f"{place}: {said}"
        raise RequestError(head) from None
    except _REFUSALS as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise RequestError(
            f"{recipe.where(section)}: {section}: these settings do not go together ({why})"
        ) from None
