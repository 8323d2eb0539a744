"""A tagger in ONNX: `tagger.onnx`, the vocabulary of its words, and what its tags are called."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.convert._readme import fill
from regard.convert._tagger_graph import POSITIONS, tagger_graph
from regard.data.annotations.tag_schemes import allowed
from regard.errors import RequestError
from regard.fields import TextField
from regard.layers.crf import FORBIDDEN
from regard.protocols import UNK

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write_tagger"]


def write_tagger(loaded: "Loaded", out: Path) -> None:
    """Write the graph, `tokenizer.json`, `tags.json` and a manual with a search for the best tags.

    Raises:
        RequestError: a tagger without a graph, or words that are read by their shapes.
    """
    text = loaded.fields["text"]
    tokenizer = loaded.tokenizers["text"]
    if tokenizer.kind != "words":
        raise RequestError(
            "expected a tagger with words as they are, data.tokenizer.kind 'words', got "
            f"{tokenizer.kind!r}"
        )
    if isinstance(text, TextField) and text.contextual is not None:
        raise RequestError(
            "expected a tagger that reads words alone; this one reads the states of an encoder "
            "(data.vectors.encoder), which the graph does not have"
        )
    graph = tagger_graph(loaded.model).model("tagger")
    (out / "tagger.onnx").write_bytes(graph.SerializeToString())
    tokenizer.without_segmenter().save(out / "tokenizer.json")
    letters = json.loads(text.dump()).get("letters", [])
    known = {
        **_tags(loaded),
        "letters": {letter: i for i, letter in enumerate(letters, UNK + 1)},
        "features": _features(loaded),
    }
    (out / "tags.json").write_text(json.dumps(known, ensure_ascii=False) + "\n", "utf-8")
    fill(out, "onnx-tagger", unknown=UNK, positions=POSITIONS)


def _tags(loaded: "Loaded") -> dict[str, Any]:
    """The tags, what their scores are changed by, and the rules by which they follow each other."""
    task: Any = loaded.task
    names, scheme = loaded.fields["tags"].names, task.learned_as or task.scheme  # type: ignore[attr-defined]
    found = {
        "tags": names,
        "scheme": scheme,
        "temperature": task.temperature,
        "raised": {"O": task.outside} if "O" in names else {},
        "rules": {},
    }
    if task.constraints:
        rules = zip(("transitions", "start", "end"), allowed(names, scheme), strict=True)
        found["rules"] = {name: np.where(own, 0.0, FORBIDDEN).tolist() for name, own in rules}
    return found


def _features(loaded: "Loaded") -> list[dict[str, Any]]:
    """Of each further column the ids of its values, and that of an unknown value."""
    found, first = [], 1
    for name in loaded.task.features:  # type: ignore[attr-defined]
        own: Any = loaded.fields[name]
        ids = {value: i for i, value in enumerate(own.names, first + 1)}
        found.append({"name": name, "unknown": first, "ids": ids})
        first += own.size
    return found
