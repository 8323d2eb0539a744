"""The phases that a task puts before the main part of a training (`tasks.phases`).

The phase of a step follows from its position and from the checkpoint, so an interrupted training
resumes exactly.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.train.loop import Work

__all__ = ["ends_early", "enter", "leave"]


def enter(work: "Work", epoch: float) -> tuple[int, float]:
    """Enter the phase of an epoch; return the updates and epochs before it began.

    After a phase the schedule restarts and the best score is reset.
    """
    if not work.phases:
        return 0, 0.0
    p = work.progress
    while p.phase < len(work.phases):
        phase, (step, began) = work.phases[p.phase], p.phase_began
        over = (phase.epochs is not None and epoch - began >= phase.epochs) or (
            phase.steps is not None and p.step - step >= phase.steps
        )
        if not over:
            break
        _next(work, epoch)
    _be_in(work, p.phase)
    return p.phase_began


def ends_early(work: "Work") -> bool:
    """Called when patience is exhausted: inside a phase this ends the phase, not the training."""
    if work.progress.phase < len(work.phases):
        _next(work, work.progress.epoch)
        return False
    return True


def leave(work: "Work") -> None:
    """Leave any phase, so that scoring and saving use the normal mode."""
    _be_in(work, len(work.phases))


def _next(work: "Work", epoch: float) -> None:
    """Start the next phase."""
    p, ended = work.progress, work.phases[work.progress.phase]
    p.phase, p.phase_began = p.phase + 1, (p.step, epoch)
    p.best, p.bests, p.best_step, p.worse, p.losses = None, {}, 0, 0, []
    if work.first:
        (work.folder / "checkpoints" / "best.safetensors").unlink(missing_ok=True)
    work.log.say(f"step {p.step}: {ended.ended or f'{ended.name} ends'}")


def _be_in(work: "Work", number: int) -> None:
    """Switch the models from the mode of one phase to that of another."""
    if work.mode == number:
        return
    for model in (work.model, work.trained):
        for n, phase in enumerate(work.phases):
            if n != number:
                phase.mode(model, False)
        if number < len(work.phases):
            work.phases[number].mode(model, True)
    work.mode = number
