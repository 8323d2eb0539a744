"""ONNX: `encoder.onnx` and `step.onnx`, with the caches as inputs and outputs of a step.

Of taggers `tagger.onnx`, with the scores of every tag as output; see `_onnx_tagger`. Of classifiers
`model.onnx`. What is no plain Transformer is recorded; see `recorded`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regard.convert._anatomy import Anatomy, anatomy
from regard.convert._graph import encoder_graph, step_graph
from regard.convert._onnx_tagger import write_tagger
from regard.convert._readme import longest, manual, needs
from regard.convert.recorded.write import write_generator, write_labels
from regard.errors import RequestError
from regard.protocols import BOS, EOS
from regard.tasks.generation.base import Generation

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write"]


def write(loaded: "Loaded", out: Path) -> None:
    """Write the graphs, tokenizers and a manual with code.

    Raises:
        RequestError: `onnx` is not installed, or the model has no graph, with the reason.
    """
    needs("onnx")
    if loaded.task.name in OF_TASKS:
        OF_TASKS[loaded.task.name](loaded, out)
    elif not isinstance(loaded.task, Generation):
        raise RequestError(
            f"onnx: expected a model that writes, tags or labels texts, got one for "
            f"{loaded.task.name}"
        )
    else:
        try:
            made = anatomy(loaded.model)
        except RequestError:  # no plain Transformer, whose graphs read batches
            write_generator(loaded, out)
        else:
            _transformer(loaded, made, out)


def _transformer(loaded: "Loaded", made: Anatomy, out: Path) -> None:
    """Both graphs, tokenizers and a manual with a loop."""
    positions = longest(loaded)
    for name, graph in (("encoder", encoder_graph), ("step", step_graph)):
        (out / f"{name}.onnx").write_bytes(graph(made, positions).SerializeToString())
    end = f" + [{EOS}]" if made.reads_end else ""
    manual(
        loaded,
        out,
        "onnx",
        heads=made.heads,
        head=made.dim // made.heads,
        bos=BOS,
        eos=EOS,
        layers=made.decoder_layers,
        positions=positions,
        end=end,
    )


OF_TASKS: Mapping[str, Callable[["Loaded", Path], None]] = {
    "tagging": write_tagger,
    "classification": write_labels,
    "entailment": write_labels,
    "relation-classification": write_labels,
}
"""What writes the models of a task, where it is not one graph that reads and one that writes."""
