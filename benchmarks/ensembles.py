"""An ensemble chosen on dev and scored on test: which trained models label better together.

    REGARD_DATA=… python benchmarks/ensembles.py runs/bag runs/han runs/cnn

A system is a model folder, or a folder of seeds as `regard train --seeds` writes it, whose models
are always together. As in Caruana et al. (2004), the ensemble starts with the system that is best
on dev, and the one that helps most is added for as long as one does. Dev is judged by the mean
log-probability of the right label, which is less noisy than how many labels are right; of grades
and rankings by their first score. Test is scored once, with what was chosen. The models answer by
the mean of their calibrated probabilities, so the row of the ensemble is that of
`regard evaluate FOLDER --with FOLDER …`.

Printed, as by `regard compare`: each system with its seeds together, then the ensemble; differences
on test are to the first system.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import regard
from regard.evaluation.comparing import markdown
from regard.folder.loaded import Loaded
from regard.folder.seeds import model_folders
from regard.metrics import Score, bootstrap, paired
from regard.tasks.labels.base import Labeling

LEAST = 1e-30  # of a probability whose logarithm is taken


class Split(NamedTuple):
    """The examples of a split, and what each system says to them.

    Args:
        said: of each system the probabilities of its models, (models, examples, outputs).
    """

    reader: Loaded
    examples: Any
    said: list[np.ndarray]

    def mean(self, chosen: Sequence[int]) -> np.ndarray:
        """The probabilities of all models of some systems together."""
        return np.concatenate([self.said[i] for i in chosen]).mean(0)

    def scores(self, chosen: Sequence[int]) -> Mapping[str, Score]:
        task, field = labeling(self.reader), self.reader.fields[labeling(self.reader).target]
        answers = [
            task.objective.answer(text, each, field)
            for text, each in zip(self.examples.texts, self.mean(chosen).tolist(), strict=True)
        ]
        return task.score(answers, self.examples)

    def worth(self, chosen: Sequence[int], by: str) -> float:
        """What the choice goes by."""
        if by != "likelihood":
            return next(iter(self.scores(chosen).values())).value
        task = labeling(self.reader)
        right = self.examples.columns[task.target].values
        known = right >= 0
        found = self.mean(chosen)[known, right[known]]
        return float(np.log(np.maximum(found, LEAST)).mean())


def labeling(loaded: Loaded) -> Labeling:
    if not isinstance(loaded.task, Labeling):
        sys.exit(f"{loaded.folder} was trained to {loaded.task.name}, which gives no labels")
    return loaded.task


def models_of(folder: Path) -> list[Path]:
    """The folder itself, or the model folders in it, of seeds or of any name."""
    found = model_folders(str(folder)) or sorted(
        path.parent for path in folder.glob("*/config.json")
    )
    if not found:
        sys.exit(f"{folder} is no model folder and has none in it")
    return found


def examples_of(loaded: Loaded, split: str) -> Any:
    data = labeling(loaded).data(loaded.config["data"], loaded.fields, splits=(split,))
    found = getattr(data, split)
    if found is None or not len(found):
        sys.exit(f"{loaded.folder} has no example in its {split} split")
    return found


def probabilities(loaded: Loaded, examples: Any) -> np.ndarray:
    """What a model says to texts as they were written, (examples, outputs)."""
    task = labeling(loaded)
    reads = task.of_texts(loaded.model, loaded.fields)
    found: dict[int, np.ndarray] = {}
    for rows in task.batches(examples, 8192):
        logits = reads([examples.texts[i] for i in rows]).logits / task.temperature
        each = task.objective.probabilities(logits).numpy()
        found |= dict(zip(rows, each, strict=True))
    return np.stack([found[i] for i in range(len(examples))])


def read(systems: Mapping[str, Sequence[Loaded]], split: str) -> Split:
    first = next(iter(systems.values()))[0]
    examples, said = examples_of(first, split), []
    for name, models in systems.items():
        for one in models:
            first.together(one)  # refuses other tasks and other labels
            if list(examples_of(one, split).references) != list(examples.references):
                sys.exit(f"{name} does not have the {split} examples of {next(iter(systems))}")
        said.append(np.stack([probabilities(one, examples) for one in models]))
    return Split(first, examples, said)


def choose(dev: Split, by: str) -> list[int]:
    """Systems, in the order in which they were added."""
    chosen: list[int] = []
    best = -np.inf
    while len(chosen) < len(dev.said):
        left = [i for i in range(len(dev.said)) if i not in chosen]
        value, add = max((dev.worth([*chosen, i], by), -i) for i in left)
        if value <= best:
            break
        best, chosen = value, [*chosen, -add]
    return chosen


def rows_of(
    names: Sequence[str], sets: Sequence[Sequence[int]], split: Split, samples: int
) -> list[dict[str, Any]]:
    """Rows of the table of `regard compare`."""
    every = [split.scores(chosen) for chosen in sets]
    rows = []
    for name, scores in zip(names, every, strict=True):
        told: dict[str, dict[str, Any]] = {}
        for key, score in scores.items():
            told[key] = {"value": score.value}
            base = every[0][key].sums
            if score.sums is not None and base is not None:
                told[key]["interval"] = bootstrap(score.sums, samples=samples)[:2]
                if scores is not every[0]:
                    apart = paired(base, score.sums, samples=samples)
                    told[key] |= {"difference": apart.value, "p": apart.p}
        rows.append({"system": name, "metrics": told})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Choose, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--by", choices=("likelihood", "score"), help="what dev is judged by; default: see above"
    )
    parser.add_argument("--samples", type=int, default=1000, help="of bootstrap and randomization")
    options = parser.parse_args(arguments)
    folders: list[Path] = options.folders
    systems = {str(f): [regard.load(str(path)) for path in models_of(f)] for f in folders}
    names = list(systems)
    with torch.no_grad():
        dev, test = (read(systems, split) for split in ("dev", "test"))
    task = labeling(dev.reader)
    plain = task.objective.calibrated and getattr(task, "kind", "label") != "rank"
    by = options.by or ("likelihood" if plain else "score")
    chosen = choose(dev, by)
    together = " + ".join(names[i] for i in chosen)
    sets = [*([i] for i in range(len(names))), chosen]
    print(f"chosen by the {by} of dev: {together}")
    for split, given in (("dev", dev), ("test", test)):
        rows = rows_of([*names, "the ensemble"], sets, given, options.samples)
        told = {"systems": rows, "samples": options.samples, "examples": len(given.examples)}
        print(f"\n{split}\n\n{markdown(told)}")


if __name__ == "__main__":
    main()
