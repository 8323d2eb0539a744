"""The program of a folder: what its model computes, for `regard predict` without PyTorch.

`program.json` has the graphs of `recorded`, the settings of the search or the labels, and the
digests of the files that it belongs to. Weights and tokenizers stay in the folder's own files.
"""

import json
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import __version__
from regard.convert._program_of_labels import labels_program
from regard.convert._program_of_passages import reading_program, stories_program
from regard.convert._program_of_tags import tags_program
from regard.convert._program_parts import check_task, tokenizer_file
from regard.convert._readme import longest
from regard.convert.recorded.examples import sources
from regard.convert.recorded.generators import generator_graphs
from regard.convert.recorded.stored import stored_graph
from regard.decode import Beam, Greedy
from regard.errors import RequestError
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
from regard.tasks.generation.parsing import Parsing
from regard.tasks.labels.base import Labeling
from regard.tasks.memory.memory import MemoryQA
from regard.tasks.reading.reading import Reading
from regard.tasks.tags.tagging import Tagging

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["add_program", "program_of", "write"]

KEPT = (RECIPE, METRICS, CARD, CONFIG, LOG, FILE, *NAMES)

GENERATION = (
    *("asked", "as_read", "whole", "batches", "checked", "outputs", "prediction", "rules"),
    *("spelling", "_told", "_undecoded", "join", "reads_files"),
)
"""What a task that writes may not change: the runtime does as `Generation` does."""


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
    config = read_object(loaded.folder / CONFIG)
    names = {*loaded.model.state_dict(), *(config["weights"].get("tied") or {})}
    if isinstance(loaded.task, Generation):
        made = _of_generator(loaded, names)
    elif isinstance(loaded.task, Labeling):
        made = labels_program(loaded, names)
    elif isinstance(loaded.task, Tagging):
        made = tags_program(loaded, names)
    elif isinstance(loaded.task, Reading):
        made = reading_program(loaded, names)
    elif isinstance(loaded.task, MemoryQA):
        made = stories_program(loaded, names)
    else:
        task = loaded.task.name
        raise RequestError(
            "program: expected a model that writes, labels or tags texts, or answers questions "
            f"about texts, got one for {task}"
        )
    files = sorted({CONFIG, *made.pop("belongs")})
    head = {
        "format": FORMAT,
        "regard": __version__,
        "files": {name: digest(loaded.folder / name) for name in files},
    }
    return json.dumps({**head, **made}, ensure_ascii=False, separators=(",", ":")) + "\n"


def _of_generator(loaded: "Loaded", weights: Collection[str]) -> dict[str, Any]:
    search = _search(loaded.decoder)
    task: Any = loaded.task
    base = Parsing if isinstance(task, Parsing) else Generation
    check_task(loaded, base, GENERATION, ("source", "target"))
    for name in ("source", "target"):
        if not loaded.fields[name].end:  # type: ignore[attr-defined]
            raise RequestError(f"program: expected texts that end in EOS as {name}")
    *examples, _ = sources(loaded)
    graphs = generator_graphs(loaded.model, examples, positions=longest(loaded), fold=False)
    if graphs.conditions:
        raise RequestError(f"program: {graphs.conditions[0]} PyTorch alone chooses by that")
    tokenizers = {side: tokenizer_file(loaded.folder, side) for side in ("source", "target")}
    return {
        "kind": "text",
        "belongs": tokenizers.values(),
        "search": search,
        "max_source": task.max_source,
        "tokenizers": tokenizers,
        "sizes": graphs.source,
        "steps": graphs.steps,
        "normalized": bool(getattr(loaded.model, "normalized", False)),
        "encoder": stored_graph(graphs.encoder, loaded.model, weights),
        "step": stored_graph(graphs.step, loaded.model, weights),
        **({"trees": {"constrained": task.constrained}} if base is Parsing else {}),
    }


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
