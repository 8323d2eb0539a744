"""Linear start: a first phase without the softmaxes inside a model (Sukhbaatar et al. 2015, 4.4).

Which phase a step is in follows from its place and from what checkpoints keep, so a training that
was interrupted continues as if it had not been.
"""

from typing import TYPE_CHECKING

from regard.errors import RequestError
from regard.protocols import StartsLinear
from regard.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from regard.train.work import Work

__all__ = ["check_linear_start", "ends_early", "enter", "leave"]


def check_linear_start(recipe: Recipe, model: "nn.Module", epochs: float) -> None:
    """Refuse a linear start of a model that cannot.

    Raises:
        RequestError: the model has no softmaxes to take out.
    """
    if epochs and not isinstance(model, StartsLinear):
        raise RequestError(
            f"{recipe.where('train.linear_start')}: train.linear_start is for models whose inner "
            f"softmaxes can be taken out (memn2n); {recipe.model['name']} is none"
        )


def enter(work: "Work", epoch: float) -> tuple[int, float]:
    """Be in the phase of an epoch; give the updates and epochs that were made before it began.

    After the linear phase the schedule starts anew, and no score of it counts as the best so far.
    """
    if not work.settings.linear_start:
        return 0, 0.0
    p = work.progress
    end = work.settings.linear_start if p.linear_end is None else p.linear_end
    linear = epoch < end
    if linear != work.linear:
        _set(work, linear)
    if p.linear and not linear:
        p.linear_end, p.linear_steps = epoch, p.step
        p.best, p.bests, p.best_step, p.worse, p.losses = None, {}, 0, 0, []
        if work.first:
            (work.folder / "checkpoints" / "best.safetensors").unlink(missing_ok=True)
        work.log.say(f"step {p.step}: the linear start ends; the softmaxes are in from now on")
    p.linear = linear
    return (0, 0.0) if linear else (p.linear_steps, p.linear_end or 0.0)


def ends_early(work: "Work") -> bool:
    """Patience has run out: in the linear phase that ends the phase, and not the training."""
    if work.progress.linear:
        work.progress.linear_end = work.progress.epoch
        return False
    return True


def leave(work: "Work") -> None:
    """However the training ended, what is judged and saved has its softmaxes."""
    if work.linear:
        _set(work, False)


def _set(work: "Work", linear: bool) -> None:
    for model in (work.model, work.trained):
        if isinstance(model, StartsLinear):
            model.linear_start(linear)
    work.linear = linear
