"""The program of a folder: what its model computes, for `regard predict` without PyTorch.

`program.json` has the two graphs of `recorded`, the settings of the search, and the digests of the
files that it belongs to. Weights and tokenizers stay in the folder's own files.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import __version__
from regard.convert._readme import longest
from regard.convert.recorded.examples import sources
from regard.convert.recorded.generators import generator_graphs
from regard.convert.recorded.stored import stored_graph
from regard.decode import Beam, Greedy
from regard.errors import RequestError
from regard.fields import TextField
from regard.fields.saved import NAMES
from regard.folder.config import CONFIG
from regard.folder.programs import digest
from regard.folder.reading import CARD, METRICS, RECIPE
from regard.folder.training_log import LOG
from regard.runtime.search import SearchSettings
from regard.runtime.stored_program import FORMAT, PROGRAM
from regard.runtime.weights import FILE
from regard.system.files import replace_file
from regard.system.plain_json import read_object
from regard.tasks.generation.base import Generation

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["add_program", "program_of", "write"]

KEPT = (RECIPE, METRICS, CARD, CONFIG, LOG, FILE, *NAMES)

OWN = (
    *("asked", "as_read", "whole", "batches", "checked", "outputs", "prediction", "rules"),
    *("spelling", "_told", "_undecoded", "join", "reads_files"),
)
"""What a task may not change: the runtime does as `Generation` does."""


def write(loaded: "Loaded", out: Path) -> None:
    """Write the folder again, with its program.

    Raises:
        RequestError: see `program_of`.
    """
    text = program_of(loaded)
    for pattern in KEPT:
        for file in sorted(loaded.folder.glob(pattern)):
            (out / file.name).write_bytes(file.read_bytes())
    (out / PROGRAM).write_text(text, "utf-8")


def add_program(loaded: "Loaded") -> Path:
    """Write the program into the folder itself.

    Raises:
        RequestError: see `program_of`.
        RegardError: the folder cannot be written.
    """
    text, path = program_of(loaded), loaded.folder / PROGRAM
    replace_file(path, lambda beside: beside.write_text(text, "utf-8"))
    return path


def program_of(loaded: "Loaded") -> str:
    """The text of `program.json`.

    Raises:
        RequestError: the model, its task or its decoder does what a program cannot, with the
            reason.
    """
    search = _search(loaded.decoder)
    _check_task(loaded)
    *examples, _ = sources(loaded)
    graphs = generator_graphs(loaded.model, examples, positions=longest(loaded), fold=False)
    if graphs.conditions:
        raise RequestError(f"program: {graphs.conditions[0]} PyTorch alone chooses by that")
    config = read_object(loaded.folder / CONFIG)
    weights = _stored_names(loaded, config["weights"])
    files = _files(loaded.folder)
    made = {
        "format": FORMAT,
        "regard": __version__,
        "files": {name: digest(loaded.folder / name) for name in sorted({CONFIG, *files.values()})},
        "search": search,
        "max_source": loaded.task.max_source,  # type: ignore[attr-defined]
        "tokenizers": files,
        "sizes": graphs.source,
        "steps": graphs.steps,
        "normalized": bool(getattr(loaded.model, "normalized", False)),
        **{
            name: stored_graph(graph, loaded.model, weights)
            for name, graph in (("encoder", graphs.encoder), ("step", graphs.step))
        },
    }
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n"


def _check_task(loaded: "Loaded") -> None:
    task = loaded.task
    if not isinstance(task, Generation):
        raise RequestError(f"program: expected a model that writes texts, got one for {task.name}")
    for name in OWN:
        if getattr(type(task), name, None) is not getattr(Generation, name, None):
            raise RequestError(
                f"program: {task.name} has its own `{name}`, which PyTorch alone runs yet"
            )
    for name in ("source", "target"):
        field = loaded.fields[name]
        if type(field) is not TextField or field.sentences or field.characters or not field.end:
            kind = type(field).__name__
            raise RequestError(f"program: expected a plain text as {name}, got {kind}")


def _search(decoder: Any) -> dict[str, Any]:
    """The settings of the decoder, all of which the search has."""
    if type(decoder) not in (Beam, Greedy):
        raise RequestError(
            f"program: expected a beam or greedy decoding, got {type(decoder).__name__}"
        )
    known = {one.name for one in fields(SearchSettings)}
    found = {"beam_size": 0} if type(decoder) is Greedy else {}
    for one in fields(decoder):
        value = getattr(decoder, one.name)
        if one.name in known:
            found[one.name] = value
        elif value != one.default:
            raise RequestError(f"program: decode.{one.name} is PyTorch's alone, got {value!r}")
    return found


def _stored_names(loaded: "Loaded", noted: dict[str, Any]) -> set[str]:
    """The names under which the folder's file has weights."""
    named = set(loaded.model.state_dict())
    return named | set(noted.get("tied") or {})


def _files(folder: Path) -> dict[str, str]:
    shared = "tokenizer.json"
    if (folder / shared).is_file():
        return {"source": shared, "target": shared}
    return {side: f"tokenizer.{side}.json" for side in ("source", "target")}
