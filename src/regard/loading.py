"""Model folders by path or name: `load`, and `opened` with changes over decoder and task."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import tasks
from regard.errors import RequestError
from regard.folder.loaded import Loaded
from regard.folder.places import find
from regard.folder.reading import from_pretrained
from regard.settings import old_names
from regard.settings.overlay import override
from regard.system.devices import device_named
from regard.tasks.abilities import reading_graphs

__all__ = ["load", "opened"]


def opened(
    folder: str,
    changes: Sequence[str] | None = None,
    n_best: int = 1,
    others: Sequence[str] | None = None,
    graph: str | None = None,
    device: str = "cpu",
    told: Callable[[str], None] = lambda sentence: None,
) -> Loaded:
    """Load a folder and lay changes over its decoder and its task.

    Args:
        changes: `KEY=VALUE`, a key of the decoder (`beam_size=1`, `decode.beam_size=1`) or of the
            task (`task.KEY`).
        others: folders whose models and this one become one ensemble.
        graph: where nodes are.
        device: where the model computes; see `device_named`.
        told: takes a sentence for each key under an old name.

    Raises:
        RequestError: no such folder, no such setting, or no such device.
    """
    there = device_named(device)
    decode: dict[str, Any] = {}
    task: dict[str, Any] = {}
    for change in changes or ():
        key, value = override(change)
        section, _, name = key.rpartition(".")
        if section not in ("", "decode", "task"):
            raise RequestError(
                f"--set {change}: expected a setting of the decoder, as beam_size=1, or of the "
                f"task, as task.lowercase=true; {section!r} is fixed in a trained folder"
            )
        (task if section == "task" else decode)[name] = value
    decode = old_names.renamed(
        decode, old_names.DECODER, lambda old, new: told(f"--set {old}: it is now called {new}")
    )
    loaded = load(folder).together(*map(load, others or ()))
    if task:
        spec = {**loaded.config["task"], **task}
        name = spec.pop("name")
        try:
            made = tasks.load(name).of_folder(spec)
        except TypeError as error:
            raise RequestError(f"--set task.{next(iter(task))}: {error}") from error
        loaded = replace(loaded, task=made, fields=made.reread(loaded.fields))
    if graph is not None:
        loaded = replace(loaded, task=reading_graphs(loaded.task).on(graph))
    return loaded.to(there).with_decoder(n_best, **decode)


def load(folder_or_name: str | Path) -> Loaded:
    """Load a trained folder, or a model that comes with the package by its name. Works offline.

    Raises:
        RequestError: there is no such folder or name.
    """
    return from_pretrained(find(folder_or_name))
