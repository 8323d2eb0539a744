"""What a few examples are attended to while a model is trained, in one file with all steps."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, Map, Run, View
from regard.watching.seen_views import of_seen
from regard.watching.watcher import watch

if TYPE_CHECKING:
    from transformers import TrainerCallback

__all__ = ["Inspector"]


class Inspector:
    """Keeps the attention of a few examples at chosen steps of a training.

    The model is run on each example in evaluation mode, without gradients; its mode and all random
    numbers are afterwards as they were, so that the training goes on as if no one had looked.

    Args:
        examples: what the model is called with for each: a mapping of keyword arguments (as a
            tokenizer gives), a tuple of arguments, or one argument. Row 0 of each is kept.
        every: keep steps that this divides; `at` names others.
        at: these steps besides.
        labels: of each example, what `seen.label(rows=...)` takes, or a pair of lists, of rows and
            of columns.
        names: of each example; "example 1", ....
        only: which attentions, as in `regard.watch`.
        run: calls the model for an example, where that is more than calling it.
        look: gives the view of an example, in place of calling the model and watching it; of
            several runs the first is kept.
        to: a .seen or .html file, written again after each step that is kept.
        most: bytes of the weights of all steps, as halves. Where there would be more, every second
            step that `every` names is dropped, and no more of those are kept.

    Raises:
        RequestError: no examples, not as many labels or names, or a file of another kind.

    Example:
        >>> layer = nn.MultiheadAttention(4, 2, batch_first=True)
        >>> x = torch.randn(1, 3, 4)
        >>> inspector = Inspector([(x, x, x)], every=10)
        >>> [inspector.step(layer, step) for step in (0, 5, 10)]
        [True, False, True]
        >>> inspector.steps
        [0, 10]
    """

    def __init__(
        self,
        examples: Sequence[Any],
        *,
        every: int = 100,
        at: Sequence[int] = (),
        labels: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        only: str | None = None,
        run: Callable[[nn.Module, Any], Any] | None = None,
        look: Callable[[nn.Module, Any], View] | None = None,
        to: str | Path | None = None,
        most: int | None = None,
    ) -> None:
        self.examples = list(examples)
        count = len(self.examples)
        if not count:
            raise RequestError("an inspector needs an example to look at, got none")
        if every < 1:
            raise RequestError(f"every: expected steps from 1 up, got {every}")
        for what, given in (("labels", labels), ("names", names)):
            if given is not None and len(given) != count:
                raise RequestError(f"{what}: expected one for each of {count}, got {len(given)}")
        self.to = None if to is None else Path(to)
        if self.to is not None and self.to.suffix not in (".seen", ".html"):
            raise RequestError(f"to: expected a .seen or .html file, got {self.to}")
        self.every, self.at, self.only = every, frozenset(at), only
        self.most = most
        self._labels = list(labels) if labels is not None else [None] * count
        self._names = (
            list(names) if names is not None else [f"example {n}" for n in range(1, count + 1)]
        )
        self._run = _call if run is None else run
        self._look = look
        self._axes: list[Axis] = []
        self._maps: list[Map] = []
        self._runs: list[Run] = []
        self.steps: list[int] = []

    def step(self, model: nn.Module, step: int) -> bool:
        """Keep what the model attends to, if it is time; says whether it was.

        A step that was kept before is not kept again.
        """
        if step in self.steps or (step % self.every and step not in self.at):
            return False
        self.keep(model, step)
        return True

    def keep(self, model: nn.Module, step: int) -> None:
        """Keep what the model attends to now.

        Raises:
            RequestError: no attention was seen, weights that are no numbers, or one step has more
                than `most`.
        """
        model = _bare(model)
        with _undisturbed(model):
            views = [self._seen(model, place) for place in range(len(self.examples))]
        for view in views:  # all of them or none
            if not all(np.isfinite(view.maps[m].weights).all() for m in view.runs[0].maps):
                raise RequestError(f"step {step:,}: weights to be kept must be finite numbers")
        for place, view in enumerate(views):
            self._add(view, place, step)
        self.steps.append(step)
        self._thin()
        if self.to is not None:
            # Halves come back as they were: a file that is read again and continued is the same.
            view = self.view()
            view.save(self.to, code="f16") if self.to.suffix == ".seen" else view.page(self.to)

    def go_on(self, kept: View, last: int | None = None) -> bool:
        """Begin with what was kept before, in a `.seen` file of an inspector of these examples.

        Args:
            kept: what `regard.viewer.read` gives of the file.
            last: steps behind this one are dropped: they will come again.

        Returns:
            Whether it is of these examples; else nothing is taken over.
        """
        if {run.input for run in kept.runs} != set(self._names) or self._runs:
            return False
        if any(run.step is None for run in kept.runs):
            return False
        steps = sorted({run.step for run in kept.runs if run.step is not None})
        while len(steps) > 2 and all(s in self.at or s % (2 * self.every) == 0 for s in steps[:-1]):
            self.every *= 2  # as it was thinned
        for step in steps:
            if last is None or step <= last:
                for run in kept.runs:
                    if run.step == step:
                        own = replace(kept, runs=[run])
                        self._add(own, self._names.index(run.input), step)
                self.steps.append(step)
        return True

    def _seen(self, model: nn.Module, place: int) -> View:
        """What is looked at in one example."""
        example = self.examples[place]
        if self._look is not None:
            return self._look(model, example)
        with torch.no_grad(), watch(model, only=self.only) as seen:
            self._run(model, example)
        given = self._labels[place]
        rows, columns = given, None
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], list):
            rows, columns = given
        return of_seen(seen, rows=rows, columns=columns)

    def _add(self, view: View, place: int, step: int) -> None:
        """Another run; axes that are there already are not kept twice, weights as halves."""
        given = view.runs[0]
        sides: dict[int, int] = {}
        first = len(self._maps)
        for one in (view.maps[m] for m in given.maps):
            for own in (one.rows, one.columns):
                if view.axes[own] not in self._axes:
                    self._axes.append(view.axes[own])
                sides[own] = self._axes.index(view.axes[own])
            kept = one.weights.astype(np.float16)

            def load(head: int, kept: Any = kept) -> Any:
                return kept[head].astype(np.float32)

            self._maps.append(
                replace(one, rows=sides[one.rows], columns=sides[one.columns], load=load, tile=None)
            )
        maps = list(range(first, len(self._maps)))
        self._runs.append(
            Run(
                maps,
                label=f"step {step:,}",
                input=self._names[place],
                output=given.output,
                model=given.model,
                score=given.score,
                step=step,
            )
        )

    def _thin(self) -> None:
        """Let steps go until the rest fits."""
        while self.most is not None and self._size() > self.most:
            gone = [s for s in self.steps if s % (2 * self.every) and s not in self.at]
            if not gone:
                if len(self.steps) > 2:
                    self.every *= 2
                    continue
                one = self._size() / len(self.steps) / 1e6
                raise RequestError(
                    f"what is looked at in one step takes {one:.0f} MB, and all steps may take "
                    f"{self.most / 1e6:.0f}: take fewer or shorter examples"
                )
            self.every *= 2
            self.steps = [s for s in self.steps if s not in gone]
            self._runs = [run for run in self._runs if run.step not in gone]
            there = sorted(m for run in self._runs for m in run.maps)
            place = {m: i for i, m in enumerate(there)}
            self._maps = [self._maps[m] for m in there]
            self._runs = [replace(run, maps=[place[m] for m in run.maps]) for run in self._runs]

    def _size(self) -> int:
        return sum(2 * one.shape[0] * math.prod(one.cells) for one in self._maps)

    def view(self) -> DrawableView:
        """All steps of all examples.

        Raises:
            RequestError: none was kept.
        """
        if not self._runs:
            raise RequestError("nothing was kept: no step was divided by `every`, or named by `at`")
        order = sorted(self._runs, key=lambda run: (self._names.index(run.input), run.step or 0))
        return DrawableView(list(self._axes), list(self._maps), order, "attention while training")

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write a `.seen` file; options are those of `DrawableView.save`."""
        return self.view().save(path, **options)

    def page(self, path: str | Path, **options: Any) -> Path:
        """Write a page with a slider over the steps; options are those of `DrawableView.page`."""
        return self.view().page(path, **options)

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    def trainer_callback(self) -> "TrainerCallback":
        """A callback of the `Trainer` of transformers.

        Example:
            `Trainer(model=model, ..., callbacks=[inspector.trainer_callback()])`
        """
        from transformers import TrainerCallback

        inspector = self

        class Inspecting(TrainerCallback):
            """Shows the inspector the model at the first step and after each."""

            def on_train_begin(
                self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
            ) -> None:
                if state.is_world_process_zero:
                    inspector.step(model, state.global_step)

            on_step_end = on_train_begin

        return Inspecting()


def _call(model: nn.Module, example: Any) -> Any:
    if isinstance(example, Mapping) or hasattr(example, "keys"):
        return model(**example)
    return model(*example) if isinstance(example, tuple) else model(example)


def _bare(model: nn.Module) -> nn.Module:
    """Without what wraps it for several processes, or compiles it."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            inner: Any = model.module
        else:
            inner = getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """In evaluation mode; modes and random numbers are afterwards as they were."""
    modes = [(module, module.training) for module in model.modules()]
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    devices = [device] if device.type == "cuda" else []
    model.eval()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        for module, training in modes:
            module.training = training
