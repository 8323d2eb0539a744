"""The files of a recorded model in ONNX: graphs, vocabularies, and a page with code that runs."""

import json
import logging
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.convert._readme import PAGES, fill, longest
from regard.convert.recorded.examples import sources
from regard.convert.recorded.generators import GeneratorGraphs, generator_graphs, joined_frames
from regard.convert.recorded.labels import labels_graph
from regard.data.text.tokenizer import KINDS
from regard.decode.program.probes import words
from regard.errors import RegardError
from regard.fields import TextField
from regard.fields.clip import ClipField
from regard.fields.copied import CopiedField
from regard.fields.image import ImageField
from regard.fields.sound import SoundField
from regard.protocols import BOS, EOS, UNK, Inputs

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write_generator", "write_labels"]

log = logging.getLogger(__name__)

OFF = 1e-3
"""How far a graph may be off the model, of the largest score."""


def write_generator(loaded: "Loaded", out: Path) -> None:
    """Write `encoder.onnx` and `step.onnx` of any generator.

    Raises:
        RequestError: the model does what a graph cannot say.
    """
    *examples, unseen = sources(loaded)
    graphs = generator_graphs(loaded.model, examples, positions=longest(loaded))
    for name, graph in (("encoder", graphs.encoder), ("step", graphs.step)):
        (out / f"{name}.onnx").write_bytes(graph.model("regard").SerializeToString())
    _check(loaded.model, out, unseen)
    join = joined_frames(loaded.model)
    side, field = next(iter(loaded.fields.items()))
    sides = loaded.tokenizers
    target = sides["target"]
    target.without_segmenter().save(out / "tokenizer.target.json")
    reading, what = "array", WHAT.get(type(field), "")
    if isinstance(field, TextField) and sides[side].kind not in OURS:
        sides[side].without_segmenter().save(out / "tokenizer.source.json")
        reading = "copied" if isinstance(field, CopiedField) and field.copies else "text"
    fill(
        out,
        f"onnx-{reading}",
        loop=LOOP.read_text("utf-8").rstrip(),
        limits=_limits(graphs, join),
        joint=KINDS[target.kind].joint,
        vocabulary=len(target),
        folder=loaded.folder.name,
        shape=" x ".join(map(str, ("1", *_shape(unseen)))),
        dtype=str(unseen.values.dtype).removeprefix("torch."),
        what=what,
        filled=FILLED.format(joined_frames(loaded.model))
        if joined_frames(loaded.model) > 1
        else "",
        values="" if isinstance(field, TextField) else ".values",
        bos=BOS,
        eos=EOS,
        unk=UNK,
    )


OURS = frozenset({"shapes"})
"""Kinds of tokenizers that `tokenizers` does not read."""
WHAT: dict[type, str] = {
    TextField: "the ids of its words, the unknown ones by their shapes, with 2 at the end",
    SoundField: "the features of its frames, with the mean and deviation of the training data",
    ImageField: "the numbers of its pixels, with the mean and deviation of the training data",
    ClipField: "the numbers of the pixels of its pictures, as in the training data",
}
"""What a source is that is no text which `tokenizers` cuts."""
FILLED = """    source = np.pad(source, ((0, 0), (0, -source.shape[1] % {}), (0, 0)))
"""
LOOP = PAGES / "onnx-loop.txt"
"""The search that every page has."""


def _shape(source: Inputs) -> list[Any]:
    sizes = list(source.values.shape[1:])
    return sizes if source.lengths is None else ["T", *sizes[1:]]


def _limits(graphs: GeneratorGraphs, join: int) -> str:
    """What sizes the graphs are for, in sentences."""
    low, high = graphs.source
    said = []
    if high is not None:
        said.append(
            f"Sources have {low} to {high} places."
            if low > 1
            else f"Sources have at most {high} places."
        )
    elif low > 1:
        said.append(f"Sources have at least {low} places.")
    if join > 1:
        said.append(f"The number of frames is a multiple of {join}: fill up with zeros.")
    if graphs.steps is not None:
        said.append(f"Outputs have at most {graphs.steps + 1} tokens.")
    said += graphs.conditions
    return " ".join(said)


def _check(model: Any, out: Path, source: Inputs) -> None:
    """Compare the first two steps with the model's, where onnxruntime is installed.

    Raises:
        RegardError: they differ.
    """
    if not _can_compare():
        return
    with torch.inference_mode():
        first, decoding = model.step(torch.full((1, 1), BOS), model.start(model.encode(source)))
        order = torch.zeros(1, 2, dtype=torch.int64)  # two hypotheses, which read other tokens
        tokens = words(model, 2)[None]
        second, _ = model.step(tokens, decoding.select(order))
    given = {"source": source.values.numpy()}
    given |= {name: x.numpy() for name, x in source.extras.items()}
    found = _compared(out / "encoder.onnx", given, first)
    given = {"tokens": tokens.numpy(), "step": np.array(1)}
    given |= {name: x for name, x in found.items() if name.startswith("memory")}
    given |= {name: x[:, [0, 0]] for name, x in found.items() if name.startswith("state")}
    _compared(out / "step.onnx", given, second)


def _can_compare() -> bool:
    there = find_spec("onnxruntime") is not None
    if not there:
        log.warning("onnx: without onnxruntime the graphs are not compared with the model")
    return there


def _compared(path: Path, given: dict[str, Any], scores: Tensor) -> dict[str, Any]:
    """What a graph gives, whose logits are the model's scores.

    Raises:
        RegardError: they differ.
    """
    import onnxruntime

    session, expected = onnxruntime.InferenceSession(str(path)), scores.numpy()
    names = [one.name for one in session.get_outputs()]
    every = dict(zip(names, session.run(None, given), strict=True))
    found, real = every["logits"], np.isfinite(expected)
    off = np.abs(found[real] - expected[real]).max(initial=0.0)
    most = OFF * np.abs(expected[real]).max(initial=1.0)
    if off > most or not np.array_equal(real, np.isfinite(found)):
        raise RegardError(
            f"onnx: {path.name} differs from the model by {off:.2g}; please report this"
        )
    return every


def write_labels(loaded: "Loaded", out: Path) -> None:
    """Write `model.onnx` of a classifier of texts or of pairs of texts.

    Raises:
        RequestError: it reads more than the words of its texts, or does what a graph cannot say.
    """
    made = labels_graph(loaded, "onnx")
    (out / "model.onnx").write_bytes(made.reader.graph.model("regard").SerializeToString())
    if _can_compare():
        with torch.inference_mode():
            expected = loaded.model(*made.unseen).logits
        given = {k: one.values.numpy() for k, one in zip(made.inputs, made.unseen, strict=True)}
        _compared(out / "model.onnx", given, expected)
    loaded.tokenizers[made.inputs[0]].without_segmenter().save(out / "tokenizer.json")
    task: Any = loaded.task
    known = {
        "texts": made.inputs,
        "labels": made.labels,
        "objective": made.objective,
        "temperature": task.temperature,
        "threshold": task.objective.threshold,
        "end": [EOS] if made.end else [],
    }
    (out / "labels.json").write_text(json.dumps(known, ensure_ascii=False) + "\n", "utf-8")
    fill(out, "onnx-labels", texts=", ".join(f"`{name}`" for name in made.inputs))
