"""ONNX: `encoder.onnx` and `step.onnx`, with the caches as inputs and outputs of a step.

Of taggers `tagger.onnx`, with the scores of every tag as output; see `_onnx_tagger`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regard.convert._anatomy import anatomy
from regard.convert._graph import encoder_graph, step_graph
from regard.convert._onnx_tagger import write_tagger
from regard.convert._readme import longest, manual, needs
from regard.protocols import BOS, EOS

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write"]


def write(loaded: "Loaded", out: Path) -> None:
    """Write the graphs, tokenizers and a manual with code.

    Raises:
        RequestError: `onnx` is not installed, or the model has no graph: it is not a plain
            Transformer, and none of the taggers in `_tagger_graph.TAGGERS`.
    """
    needs("onnx")
    OF_TASKS.get(loaded.task.name, _transformer)(loaded, out)


def _transformer(loaded: "Loaded", out: Path) -> None:
    """Both graphs, tokenizers and a manual with a loop."""
    made, positions = anatomy(loaded.model), longest(loaded)
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


OF_TASKS: Mapping[str, Callable[["Loaded", Path], None]] = {"tagging": write_tagger}
"""What writes the models of a task, where it is not one graph that reads and one that writes."""
