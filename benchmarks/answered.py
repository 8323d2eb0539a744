"""How fast a trained folder answers the test split of its data, with reading and without.

    OMP_NUM_THREADS=1 python benchmarks/answered.py FOLDER... [--turns 3 --threads 1]

JSON lines: `examples` (documents, sentences, propositions) and `words` of the inputs, where they
are texts, a second of CPU time and by the clock: min, median and max over the turns. Scoring is
within it, reading the file is not. Two processes on two cores answer twice as many.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from paired import machine, row

import regard
from regard.evaluation.scoring import scored


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    row(**machine())
    for folder in given.folders:
        loaded = regard.load(folder)
        task, read = loaded.task, scored(loaded)  # the first turn is not counted
        words = sum(len(one.input.split()) for one in read.predictions)
        spent: list[tuple[float, float]] = []
        for _ in range(given.turns):
            cpu, clock = time.process_time(), time.perf_counter()
            found = task.predict(loaded.model, read.examples, loaded.decoder, loaded.fields)
            task.score(found, read.examples)
            spent.append((time.process_time() - cpu, time.perf_counter() - clock))
        rates = {}
        for name, times in zip(("cpu", "clock"), zip(*spent, strict=True), strict=True):
            for what, count in (("examples", len(read.predictions)), ("words", words)):
                each = sorted(count / one for one in times)
                rates[f"{what}_a_second_{name}"] = [
                    round(one, 1) for one in (each[0], statistics.median(each), each[-1])
                ]
        row(folder=Path(folder).name, model=loaded.config["model"]["name"], threads=given.threads,
            examples=len(read.predictions), words=words, **rates)  # fmt: skip


if __name__ == "__main__":
    main()
