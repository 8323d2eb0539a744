"""A model of one's own, made by a function of a script, and looked at."""

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import RequestError, nearest
from regard.viewer._drawable import DrawableView
from regard.views import ViewOptions

__all__ = ["OwnModel", "open_script"]


@dataclass(frozen=True)
class OwnModel:
    """A module, and what makes its inputs of a text.

    Args:
        name: `SCRIPT.py:FUNCTION`.
        read: gives what the module is called with: a mapping of keyword arguments (as a Hugging
            Face tokenizer gives), a tuple of arguments, or one; or a pair of that and labels.
    """

    name: str
    model: Any
    read: Callable[[str], Any]

    def view(self, texts: Sequence[str], options: ViewOptions) -> DrawableView:
        """Several inputs, each with every attention of the model.

        Raises:
            RequestError: an option other than the measures `norms` and `rollout`.
        """
        options.only("measure", task=self.name)
        if options.measure not in ("weights", "norms", "rollout"):
            raise RequestError(
                f"--measure {options.measure}: {self.name} has no score that is known here; "
                'use regard.watch(model, measure="gradient") from Python'
            )
        views = [self._one(text, options.measure) for text in texts]
        whole = views[0]
        for view in views[1:]:
            whole = whole + view
        return replace(whole, title=f"{self.name} · {texts[0]}")

    def _one(self, text: str, measure: str) -> DrawableView:
        import torch

        from regard.watching.seen_views import of_seen
        from regard.watching.watcher import watch

        given, labels = self._inputs(text)
        norms = "norms" if measure == "norms" else "weights"
        with torch.no_grad(), watch(self.model, measure=norms) as seen:
            if isinstance(given, Mapping) or hasattr(given, "keys"):
                self.model(**given)
            elif isinstance(given, tuple):
                self.model(*given)
            else:
                self.model(given)
        if measure == "rollout":
            seen = seen.rollout()
        view = of_seen(seen, rows=labels)
        runs = [replace(run, input=text, model=type(self.model).__name__) for run in view.runs]
        return replace(view, runs=runs)

    def _inputs(self, text: str) -> tuple[Any, Any]:
        """What the module is called with, and labels of what it reads, or None."""
        given = self.read(text)
        pair = isinstance(given, tuple) and len(given) == 2 and _is_labels(given[1])
        if pair:
            return given[0], given[1]
        return given, given if getattr(given, "encodings", None) else None


def _is_labels(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def open_script(path: str) -> OwnModel:
    """Run a script, and call a function of it, which gives `(model, read)`.

    Raises:
        RequestError: no such script or function, or it gives something else.
    """
    from torch import nn

    file, _, name = path.rpartition(":")
    if not Path(file).is_file():
        raise RequestError(f"{path}: there is no script {file}")
    found = runpy.run_path(file, run_name="own_script")
    functions = [key for key, value in found.items() if callable(value)]
    if not callable(found.get(name)):
        raise RequestError(f"{file} has no function {name!r}; {nearest(name, functions)}")
    made = found[name]()
    if not isinstance(made, tuple) or len(made) != 2:
        said = type(made).__name__
        raise RequestError(
            f"{path}: expected (model, read), read being a function or a tokenizer that makes the "
            f"model's inputs of a text; got {said}"
        )
    model, read = made
    if not isinstance(model, nn.Module) or not callable(read):
        raise RequestError(
            f"{path}: expected (model, read), a module and a function; got "
            f"({type(model).__name__}, {type(read).__name__})"
        )
    return OwnModel(path, model.eval(), read)
