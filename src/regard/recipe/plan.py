"""What a recipe describes, made once, without data: what fails, fails here, with its place."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from regard import catalog, decode, tasks
from regard.catalog.building import shape_of
from regard.decode import Decoder
from regard.errors import RequestError
from regard.optim import optimizers, schedules
from regard.optim.schedules import Point, Schedule
from regard.recipe.train_section import BatchSettings, Training
from regard.settings.check import arguments_of, given_by_data
from regard.tasks.starting_vectors import places_of_states

if TYPE_CHECKING:
    from regard.recipe.recipe import Recipe

__all__ = ["Plan"]

SIZE = 100
"""Of vocabularies, classes and features, where nothing was read yet."""

_KEY = re.compile(r"[a-z]+(?:\.\w+)+(?=[: ])")
_REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""What constructors say with: theirs, and those of what they call."""


@dataclass(frozen=True)
class Plan:
    """The parts of a training that need no data; `Recipe.plan` makes it of a recipe it has checked.

    Args:
        recipe: as it is written.
        training: the section `train`; `training.precision` may be auto.
        task: of the section `task`.
        decoder: of the section `decode`.
        schedule: of `train.schedule`; it may keep what it has seen of a training.
    """

    recipe: "Recipe"
    training: Training
    task: Any
    decoder: Decoder
    schedule: Schedule

    @classmethod
    def of(cls, recipe: "Recipe") -> "Plan":
        """Make every part, and try those that need sizes: the model takes no memory for weights.

        Raises:
            RequestError: one of them refuses its settings; with the place.
        """
        with _placed(recipe, "task"):
            task = tasks.load(recipe.task["name"])(**arguments_of(recipe.task))
        task.check_data(recipe.data, recipe.where)
        with _placed(recipe, "decode"):
            decoder = decode.build(recipe.decode)
        with _placed(recipe, "train.batch"):
            BatchSettings(**(recipe.train.get("batch") or {}))
        with _placed(recipe, "train"):
            training = Training.of(recipe.train)
        with _placed(recipe, "train.schedule"):
            tried = schedules.build(training.schedule)
            for point in (Point(1, 0.0, 0.0), Point(1000, 3.0, 1.0)):
                float(tried(point))
        plan = cls(recipe, training, task, decoder, schedules.build(training.schedule))
        with _placed(recipe, "train.optimizer"):
            plan.optimizer(nn.LayerNorm(1))  # its weights are not drawn
        with _placed(recipe, "model"):
            model = plan._shape()
        with _placed(recipe, "task"):
            task.phases(model)
        return plan

    def model(self, sizes: dict[str, Any]) -> nn.Module:
        """The model with its weights drawn.

        Args:
            sizes: what the data give: vocabulary sizes, numbers of classes and features.
        """
        told = arguments_of(self.recipe.model)
        made: nn.Module = catalog.build(self.recipe.model["name"], sizes, told)
        return made

    def optimizer(self, model: nn.Module) -> Optimizer:
        """The optimizer of `train.optimizer` over the parameters of a model."""
        return optimizers.for_model(self.training.optimizer, model)

    def another_task(self, **changed: Any) -> Any:
        """A task of the same settings but for those given that it has."""
        told = arguments_of(self.recipe.task)
        own = {key: value for key, value in changed.items() if key in self.recipe.task}
        return tasks.load(self.recipe.task["name"])(**told | own)

    def _shape(self) -> nn.Module:
        name, told = self.recipe.model["name"], arguments_of(self.recipe.model)
        made = catalog.constructor(name)
        sizes = dict.fromkeys(given_by_data(made), SIZE)
        if "num_pointers" in sizes:
            sizes["num_pointers"] = getattr(self.task, "pointers", SIZE)
        model: nn.Module = shape_of(made, {**sizes, **told})
        if (self.recipe.data.get("vectors") or {}).get("encoder"):
            places_of_states(model, name)
        return model


@contextmanager
def _placed(recipe: "Recipe", section: str) -> Iterator[None]:
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
