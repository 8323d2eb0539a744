"""Attention of a few examples while a recipe is trained: `train.watch`, kept in `watch.seen`.

Each look is at a copy of the model, with random numbers put back, through the task's own view: what
`regard look` would show. The training goes on as if no one had looked.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from regard import decode
from regard.data.batch import some
from regard.data.dataset import Table
from regard.data.storage.shuffle_buffer import Streamed
from regard.errors import RequestError
from regard.folder.loaded import Loaded
from regard.recipe.train_section import WatchSettings
from regard.train.random_state import random_state, set_random_state
from regard.views import View, ViewOptions

if TYPE_CHECKING:
    from regard.watching.inspector import Inspector

__all__ = ["FILE", "MOST", "Watching"]

FILE = "watch.seen"
MOST = 32_000_000
"""Bytes of weights in the file, before it is compressed: steps are dropped where there are more."""
TRIED = 8
"""Examples of the data that are tried for each that is asked for, until enough can be shown."""


class Watching:
    """Looks at a few examples at the steps that a recipe names.

    Args:
        settings: the section `train.watch`.
        task: what is looked through; its own, as a validation has one.
        data: its dev split, or its training split, has the examples.
        config: the sections `model` and `decode` of the recipe.
        folder: of the training; the file goes there.
        where: the line of the recipe, for errors.
        say: tells the user.
    """

    def __init__(
        self,
        settings: WatchSettings,
        task: Any,
        data: Any,
        config: Mapping[str, Any],
        folder: Path,
        *,
        where: str = "train.watch",
        say: Callable[[str], object] = print,
    ) -> None:
        self.settings, self.task, self.fields = settings, task, dict(data.fields)
        self.config, self.folder = dict(config), folder
        self.where, self.say = where, say
        self.decoder = decode.build({"name": "greedy"})
        self._data = data.dev if data.dev is not None and len(data.dev) else data.train
        if isinstance(self._data, Streamed):
            self._data = self._data.first()
        self._inspector: Inspector | None = None

    def __call__(self, model: nn.Module, step: int, *, last: bool = False) -> None:
        """Begin, or look if it is time."""
        if self._inspector is None:
            self.begin(model, step)
        else:
            self.step(model, step, last=last)

    def begin(self, model: nn.Module, step: int) -> None:
        """Go on with the file of an earlier run, or take the first look.

        Args:
            step: that the training begins after; later ones in the file will come again.

        Raises:
            RequestError: none of the examples can be shown.
        """
        from regard.viewer import read
        from regard.watching.inspector import Inspector

        try:
            with _aside(model) as own:
                inputs = self._chosen(own)
        except RequestError as error:
            raise RequestError(f"{self.where}: {error}") from None
        self._inspector = Inspector(
            inputs,
            every=self.settings.every,
            look=self._look,
            to=self.folder / FILE,
            most=MOST,
            names=[f"{i}: {_short(text)}" for i, (text, _) in enumerate(inputs, 1)],
        )
        if step and (self.folder / FILE).is_file():
            try:
                same = self._inspector.go_on(read(self.folder / FILE), step)
                why = "" if same else "it is of other examples"
            except RequestError as error:
                why = str(error)
            if why:
                self.say(f"{self.where}: {FILE} is started again: {why}")
        self.step(model, step)

    def step(self, model: nn.Module, step: int, *, last: bool = False) -> None:
        """Look, if it is time or the training ends here.

        Raises:
            RequestError: the first look shows nothing; a later one is told and left out.
        """
        inspector = self._inspector
        assert inspector is not None, "begin comes first"
        if step in inspector.steps or not (last or step % inspector.every == 0):
            return
        try:
            with _aside(model) as own:
                inspector.keep(own, step)
        except RequestError as error:
            if not inspector.steps:
                raise RequestError(f"{self.where}: {error}") from None
            self.say(f"{self.where}: step {step} is not kept: {error}")

    def _chosen(self, model: nn.Module) -> list[tuple[str, str | None]]:
        """Inputs that can be shown, each with the output to look at where the task takes one."""
        asked = self.settings.examples
        if not isinstance(asked, int):
            if not asked:
                raise RequestError("examples: expected an input, got none")
            return [(text, self._target(model, text, None)) for text in asked]
        count = len(self._data)
        texts = _listed(_inputs(self._data), count)
        outputs = _listed(getattr(self._data, "references", None), count)
        found: list[tuple[str, str | None]] = []
        refused = f"the task {self.task.name!r} has no examples that are texts; name some inputs"
        for i in some(count, min(count, asked * TRIED)) if texts else ():
            own = outputs[i] if outputs else None
            target = own[0] if isinstance(own, list) and own and isinstance(own[0], str) else None
            try:
                found.append((texts[i], self._target(model, texts[i], target)))
            except RequestError as error:
                refused = str(error)
            if len(found) == asked:
                break
        if not found:
            raise RequestError(refused)
        return found

    def _target(self, model: nn.Module, text: str, target: str | None) -> str | None:
        """The output that is looked at, if the task takes one; None is the model's own.

        Raises:
            RequestError: the input cannot be shown.
        """
        if target is not None:
            try:
                self._view(model, text, target)
            except RequestError:
                pass
            else:
                return target
        self._view(model, text, None)
        return None

    def _look(self, model: nn.Module, example: tuple[str, str | None]) -> View:
        return self._view(model, *example)

    def _view(self, model: nn.Module, text: str, target: str | None) -> View:
        loaded = Loaded(model, self.task, self.fields, self.decoder, self.config, self.folder)
        made: View = self.task.view(loaded, [text], ViewOptions(target=target, hypotheses=1))
        if not made.runs or not made.runs[0].maps:
            raise RequestError(f"the model looks at nothing in {_short(text)!r}")
        return made


@contextmanager
def _aside(model: nn.Module) -> Iterator[nn.Module]:
    """A copy of the model to look at; random numbers are afterwards as they were."""
    kept = random_state()
    try:
        yield copy.deepcopy(model).eval()
    finally:
        set_random_state(kept)


def _inputs(data: Any) -> Any:
    """The inputs of examples as `regard look` takes them: texts, or where files are."""
    column = getattr(data, "source", None)
    if isinstance(data, Table):
        column = data.columns[data.inputs[0]]
    return getattr(column, "addresses", None) or getattr(data, "texts", None)


def _listed(values: Any, count: int) -> Sequence[Any]:
    """Values of examples, one each; none where there are none."""
    return values if isinstance(values, Sequence) and len(values) == count else ()


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
