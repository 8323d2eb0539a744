"""ONNX: `encoder.onnx` and `step.onnx`, with the caches as inputs and outputs of a step."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.convert._anatomy import anatomy
from regard.convert._graph import encoder_graph, step_graph
from regard.convert._manual import longest, manual, needs
from regard.protocols import BOS, EOS

if TYPE_CHECKING:
    from regard.store import Loaded

__all__ = ["write"]

MANUAL = """\
# «name» in ONNX

Made by `regard export … --to onnx`; it needs `onnxruntime`, `numpy` and `tokenizers`, no torch.
`encoder.onnx` reads sources (B, S) and gives each decoder layer's keys and values; `step.onnx`
reads one token of each output and gives the scores of the next, and its caches.

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

encoder = onnxruntime.InferenceSession("«name»/encoder.onnx")
stepper = onnxruntime.InferenceSession("«name»/step.onnx")
source = Tokenizer.from_file("«name»/«source»")
target = Tokenizer.from_file("«name»/«target»")


def greedy(text, longest=100):
    ids = np.array([source.encode(text).ids«end»])
    fixed = {"lengths": np.array([ids.shape[1]])}
    names = [output.name for output in encoder.get_outputs()]
    fixed |= dict(zip(names, encoder.run(None, {"source": ids, **fixed})))
    caches = {
        f"{kind}.{i}": np.zeros((1, «heads», 0, «head»), np.float32)
        for i in range(«layers») for kind in ("keys", "values")
    }
    names = [output.name for output in stepper.get_outputs()]
    written, token = [], «bos»
    for step in range(longest):
        given = {"tokens": np.array([[token]]), "step": np.array(step), **fixed, **caches}
        found = dict(zip(names, stepper.run(None, given)))
        logits = found.pop("logits")
        caches = {name.removeprefix("next_"): value for name, value in found.items()}
        logits[:, :«eos»] = -np.inf  # padding and the start are never written
        token = int(logits.argmax())
        if token == «eos»:
            break
        written.append(token)
    return "«joint»".join(map(target.id_to_token, written)).replace("▁", " ").strip()


print(greedy("…"))
```

For a beam, give a row to each hypothesis and re-order the caches along their first axis. Positions
end at «positions».
"""


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
        loaded, out, MANUAL, heads=made.heads, head=made.dim // made.heads, bos=BOS, eos=EOS,
        layers=made.decoder_layers, positions=positions, end=end,
    )  # fmt: skip
