"""One input of a Hugging Face model, looked at: weights or a measure, or what each change does."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError, nearest
from regard.viewer._drawable import DrawableView
from regard.views import Axis, ViewOptions

if TYPE_CHECKING:
    from torch import Tensor

    from regard.watching.huggingface.folder import TransformersFolder
    from regard.watching.seen_views import Watched

__all__ = ["FolderInput", "best_class", "looked", "quiet", "telling"]


@dataclass(frozen=True)
class FolderInput:
    """What a model is called with, and what stands on the axes of what is seen.

    Args:
        axes: rows and columns by role; the first of them where a role is not named.
        said: what the model's output says.
        score: the log-probability of what it says; None where nothing is said.
        arrange: what a view is made into, where it is more than a matrix of texts.
    """

    inputs: Mapping[str, Any]
    axes: Mapping[str, tuple[Axis | None, Axis | None]]
    said: Callable[[Any], str] = field(default=lambda output: "")
    score: "Callable[[Any], Tensor] | None" = None
    arrange: Callable[[DrawableView], DrawableView] | None = None


def looked(one: "TransformersFolder", reading: FolderInput, options: ViewOptions) -> DrawableView:
    """The view of one reading.

    Raises:
        RequestError: a measure that is not there, or one of an output where there is none.
    """
    import torch

    from regard.watching.ablation import effects, effects_table
    from regard.watching.measures import MEASURES
    from regard.watching.seen_views import of_seen
    from regard.watching.watcher import watch

    known = ("weights", *MEASURES)
    if options.measure not in known:
        raise RequestError(
            f"there is no measure {options.measure!r}; {nearest(options.measure, known)}"
        )
    score = reading.score
    if score is None and (options.why or options.measure == "gradient"):
        asked = "--why" if options.why else "--measure gradient"
        raise RequestError(f"{asked}: {one.name} has no output whose score could change")
    gradient = options.measure == "gradient"
    measure = options.measure if options.measure in ("norms", "gradient") else "weights"
    with torch.set_grad_enabled(gradient), watch(one.model, measure=measure) as seen:
        output = one.model(**reading.inputs)
    if gradient and score is not None:
        seen.backward(score(output))
    if options.measure == "rollout":
        seen = seen.rollout()
    _label(seen, reading.axes)
    view = of_seen(seen)
    view = replace(view, runs=[replace(run, output=reading.said(output)) for run in view.runs])
    if reading.arrange is not None:
        view = reading.arrange(view)
    if not options.why or score is None:
        return view
    asked_of = score
    whole, found = effects(one.model, lambda: asked_of(one.model(**reading.inputs)))
    run = view.runs[0]
    result = {
        "input": run.input,
        "output": run.output,
        "log_prob": whole,
        "effects": [asdict(effect) for effect in found],
    }
    return replace(view, runs=[replace(run, panels=[effects_table(whole, found)], result=result)])


def _label(seen: "Watched", axes: Mapping[str, tuple[Axis | None, Axis | None]]) -> None:
    """Say what is on the sides; those of another length (windows, pooled frames) keep numbers."""
    usual = next(iter(axes.values()))
    for name, record in seen.items():
        rows, columns = axes.get(record.role, usual)
        shape = record.kept[0].shape
        sizes = (sum(step.shape[-2] for step in record.kept), shape[-1])
        fit = [
            s if s is not None and len(s) == n else None
            for s, n in zip((rows, columns), sizes, strict=True)
        ]
        seen.label(name, rows=fit[0], columns=fit[1])


def best_class(
    one: "TransformersFolder",
) -> "tuple[Callable[[Any], str], Callable[[Any], Tensor]]":
    """The name of the most likely class, and its log-probability."""
    names = one.model.config.id2label

    def said(output: Any) -> str:
        return str(names[int(output.logits[0].argmax())])

    def score(output: Any) -> "Tensor":
        best: Tensor = output.logits[0].log_softmax(-1).max()
        return best

    return said, score


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and reports while something is loaded."""
    from transformers import utils

    logging: Any = utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def telling(path: str) -> Iterator[None]:
    """What transformers cannot read or run, in one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, IndexError, RuntimeError) as error:
        if isinstance(error, RequestError):
            raise
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RequestError(f"{path}: transformers could not read it: {said}") from error
