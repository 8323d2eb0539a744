"""ONNX: `encoder.onnx` and `step.onnx`, with the caches as inputs and outputs of a step."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.convert._anatomy import anatomy
from regard.convert._graph import encoder_graph, step_graph
from regard.convert._manual import longest, manual, needs
from regard.protocols import BOS, EOS

if TYPE_CHECKING:
    from regard.loaded import Loaded

__all__ = ["write"]


def write(loaded: "Loaded", out: Path) -> None:
    """Write both graphs, tokenizers and a manual with a loop.

    Raises:
        RequestError: `onnx` is not installed, or the model is not a plain Transformer.
    """
    needs("onnx")
    made, positions = anatomy(loaded.model), longest(loaded)
    for name, graph in (("encoder", encoder_graph), ("step", step_graph)):
        (out / f"{name}.onnx").write_bytes(graph(made, positions).SerializeToString())
    end = f" + [{EOS}]" if made.reads_end else ""
    manual(
        loaded, out, "onnx", heads=made.heads, head=made.dim // made.heads, bos=BOS, eos=EOS,
        layers=made.decoder_layers, positions=positions, end=end,
    )  # fmt: skip
