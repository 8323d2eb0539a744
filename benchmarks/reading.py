"""Readers compared on the same questions: mean over seeds, intervals, paired differences.

    python benchmarks/reading.py runs/aoa-1 runs/aoa-2 runs/as-reader-1 runs/as-reader-2
    python benchmarks/reading.py --rerank runs/aoa-1 runs/aoa-2 runs/as-reader-1 runs/as-reader-2

Folders of one model are its seeds, in the order of their first folders. Every folder answers the
test questions of its own recipe, which must be the same; a question's score is its mean over seeds.
Differences are of every two, with 95 % intervals of a paired bootstrap over questions, and p of
approximate randomization. `--rerank` judges the five best candidates again with n-gram models whose
weights are fitted on dev. A Markdown table on stdout.
"""

import argparse
import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.metrics.score import Sums
from regard.metrics.significance import paired
from regard.metrics.squad import exact_match, span_f1
from regard.tasks import baselines
from regard.tasks.reading.questions import QuestionDataset, ReaderVocabulary
from regard.tasks.reading.rerank import Reranker, global_model

Each = dict[str, np.ndarray]
"""Score -> what each question got, 0 to 100."""


def scores(outputs: list[str], examples: QuestionDataset, answer: str) -> Each:
    """Of each question."""
    right = examples.references
    if answer == "word":
        hits = [100.0 * (o == r[0]) for o, r in zip(outputs, right, strict=True)]
        return {"accuracy": np.array(hits)}
    found = {"em": exact_match(outputs, right), "f1": span_f1(outputs, right)}
    return {k: 100 * np.array(v.parts["each"]) for k, v in found.items()}


def splits(folder: str, wanted: tuple[str, ...], known: dict[str, Any]) -> tuple[Any, Any]:
    """A loaded folder and splits of its data, whose questions are read once for all folders."""
    loaded = regard.load(folder)
    config = loaded.config["data"]
    if "config" not in known:
        read = loaded.task.data(config, loaded.tokenizers, splits=wanted)
        known |= {"config": config, "read": {s: getattr(read, s).questions for s in wanted}}
    if config != known["config"]:
        sys.exit(f"{folder}: its data is not that of the first folder")
    words = ReaderVocabulary(loaded.tokenizers["source"], loaded.task.anonymous)
    return loaded, {
        split: QuestionDataset(known["read"][split], words, loaded.task.pointers)
        for split in wanted
        if split != "train"
    }


def answers(
    folder: str, rerank: bool, known: dict[str, Any]
) -> tuple[Any, Any, Mapping[str, Each]]:
    """What a folder's model answers, alone and re-ranked."""
    loaded, read = splits(folder, ("train", "dev", "test") if rerank else ("test",), known)
    task, test = loaded.task, read["test"]

    def predict(examples: QuestionDataset) -> list[Any]:
        return list(task.predict(loaded.model, examples, None, loaded.tokenizers, tokens=30_000))

    found, name = predict(test), str(loaded.config["model"]["name"])
    made = {name: scores([p.output for p in found], test, task.answer)}
    if rerank:
        if "model" not in known:
            known["model"] = global_model(known["read"]["train"])
        fitted = Reranker(known["model"]).fit(read["dev"].questions, predict(read["dev"]))
        print(f"{folder}: weights of global and local model {fitted.weights}", file=sys.stderr)
        again = fitted(test.questions, found)
        made[f"{name}, re-ranked"] = scores([p.output for p in again], test, task.answer)
    return task, test, made


def guesses(test: QuestionDataset, answer: str) -> Mapping[str, Each]:
    """What is got without reading."""
    guess = {"word": ("most frequent", baselines.frequent), "span": ("window", baselines.window)}
    name, function = guess[answer]
    return {name: scores([function(one) for one in test.questions], test, answer)}


def parts(test: QuestionDataset) -> dict[str, np.ndarray]:
    """All questions, those of each file, and those whose answer is in the document."""
    files = [Path(one.file).name.split(".")[0] for one in test.questions]
    found = {"all": np.ones(len(test), bool)}
    found |= {name: np.array([f == name for f in files]) for name in dict.fromkeys(files)}
    if len(absent := test.absent):
        found["answer in the document"] = ~np.isin(np.arange(len(test)), absent)
    return {k: v for k, v in found.items() if k == "all" or 0 < v.sum() < len(v)}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--rerank", action="store_true")
    asked = parser.parse_args()
    every: dict[str, list[Each]] = {}
    known: dict[str, Any] = {}
    for folder in asked.folders:
        task, test, made = answers(folder, asked.rerank, known)
        for name, each in made.items():
            every.setdefault(name, []).append(each)
    for name, each in guesses(test, task.answer).items():
        every[name] = [each]
    for score in next(iter(every.values()))[0]:
        means = {name: np.mean([e[score] for e in runs], 0) for name, runs in every.items()}
        kinds = parts(test)
        print(f"\n| {score} | seeds | {' | '.join(f'{k} ({v.sum()})' for k, v in kinds.items())} |")
        print(f"|---|---|{'---|' * len(kinds)}")
        for name, runs in every.items():
            cells = []
            for part in kinds.values():
                of_seeds = [e[score][part].mean() for e in runs]
                spread = f" ± {np.std(of_seeds, ddof=1):.1f}" if len(runs) > 1 else ""
                cells.append(f"{np.mean(of_seeds):.1f}{spread}")
            print(f"| {name} | {len(runs)} | {' | '.join(cells)} |")
        print()
        for one, other in combinations(means, 2):
            sums = [Sums.percent(means[name] / 100) for name in (other, one)]
            found = paired(*sums, samples=5000)
            low, high, *_ = found.interval
            print(
                f"{one} minus {other}: {found.value:+.2f} "
                f"(95 %: {low:+.2f} to {high:+.2f}; p {found.p:.4f})"
            )


if __name__ == "__main__":
    main()
