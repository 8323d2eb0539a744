"""The error of question answering over several tasks, as memory networks report it."""

from collections.abc import Sequence

from regard.errors import RequestError
from regard.metrics.score import Score, signature

__all__ = ["FAILED", "task_errors"]

FAILED = 5.0
"""Percent of wrong answers above which a task counts as failed (Weston et al. 2015)."""


def task_errors(
    outputs: Sequence[str], references: Sequence[str], tasks: Sequence[str]
) -> dict[str, Score]:
    """The mean error over tasks, the number of failed tasks, and the error of each task.

    A task's error is its share of wrong answers, in percent. The mean is over tasks, not over
    questions. A task fails if its error is above 5 %.

    Args:
        outputs, references: answers, compared exactly (a list in another order is wrong).
        tasks: the task of each question; reported in order of their first questions.

    Returns:
        `error`, `failed`, and `error.<task>` for each task if there are several.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> found = task_errors(["a", "b", "c"], ["a", "x", "c"], ["qa1", "qa1", "qa2"])
        >>> {name: score.value for name, score in found.items()}
        {'error': 25.0, 'failed': 1.0, 'error.qa1': 50.0, 'error.qa2': 0.0}
    """
    if not len(outputs) == len(references) == len(tasks):
        raise RequestError(
            f"expected as many references and tasks as outputs, got {len(references)}, "
            f"{len(tasks)} and {len(outputs)}"
        )
    if not outputs:
        raise RequestError("nothing to score: there are no examples")
    counts: dict[str, list[int]] = {}
    for output, reference, task in zip(outputs, references, tasks, strict=True):
        wrong_total = counts.setdefault(task, [0, 0])
        wrong_total[0] += output != reference
        wrong_total[1] += 1
    errors = {task: 100 * wrong / total for task, (wrong, total) in counts.items()}
    failed = [task for task, error in errors.items() if error > FAILED]
    marks: dict[str, str | int] = {"tasks": len(errors), "answers": "exact"}
    found = {
        "error": Score(
            "error", sum(errors.values()) / len(errors), signature(metric="error", **marks), errors
        ),
        "failed": Score(
            "failed",
            float(len(failed)),
            signature(metric="failed", above="5%", **marks),
            {"failed": failed},
        ),
    }
    if len(errors) > 1:
        for task, error in errors.items():
            wrong, total = counts[task]
            found[f"error.{task}"] = Score(
                f"error.{task}",
                error,
                signature(metric="error", task=task, answers="exact"),
                {"wrong": wrong, "total": total},
            )
    return found
