"""An exported tagger in onnxruntime against the model here: emissions and CPU time, one thread.

    OMP_NUM_THREADS=1 python benchmarks/export_tagger.py runs/tagging/deepatt-ffn-srl

Emissions of the first test examples of the folder's data, in batches by length and one by one; both
sides take turns, and ratios are CPU time here over that of onnxruntime. `error` is the largest
difference of the emissions of words.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from paired import machine, paired, row

import regard
from regard.convert._tagger_graph import tagger_graph
from regard.protocols import Inputs


def main(folder: str, examples: int, tokens: int, repeats: int) -> None:
    torch.set_num_threads(1)
    loaded = regard.load(folder)
    task: Any = loaded.task
    data = task.data(loaded.config["data"], loaded.fields, ("test",)).test
    data = data.subset(range(min(examples, len(data))))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        tagger_graph(loaded.model).model("tagger").SerializeToString(), options
    )
    reads = {one.name for one in session.get_inputs()}

    def ours(batches: Sequence[Inputs]) -> list[np.ndarray]:
        with torch.inference_mode():
            return [loaded.model(source).logits.numpy() for source in batches]

    def theirs(batches: Sequence[Inputs]) -> list[np.ndarray]:
        found = []
        for source in batches:
            given = {"words": source.values, "lengths": source.lengths, **source.extras}
            values = {name: value.numpy() for name, value in given.items() if name in reads}
            found.append(session.run(["emissions"], values)[0])
        return found

    for name, plan in (
        ("batches", task.batches(data, tokens)),
        ("one by one", [[i] for i in range(len(data))]),
    ):
        batches = [task._inputs(data.collate(indices)) for indices in plan]
        error = max(
            float(np.abs(a - b)[np.arange(a.shape[1]) < source.lengths.numpy()[:, None]].max())
            for source, a, b in zip(batches, ours(batches), theirs(batches), strict=True)
        )
        ratio = paired(lambda own=batches: theirs(own), lambda own=batches: ours(own), repeats)
        row(
            folder=folder, model=type(loaded.model).__name__, examples=len(data), asked=name,
            batches=len(batches), words=int(data.sizes[:, 0].sum()), dtype="float32", error=error,
            ratio=ratio, **{**machine(), "onnxruntime": onnxruntime.__version__},
        )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    main(given.folder, given.examples, given.tokens, given.repeats)
