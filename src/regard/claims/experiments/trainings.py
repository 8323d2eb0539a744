"""Claims about trained systems (C36, C37, C50, C52, C61): recipes, three seeds, paired tests."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from regard import load
from regard.claims.claim import Measured
from regard.data.files.registry import read
from regard.data.sources import find
from regard.evaluation.comparing import System, compare
from regard.inference.likelihood import likelihoods
from regard.train.seeds import fit_seeds
from regard.views.charts import Chart

__all__ = ["dropout", "hops", "neighbors", "places_of_attention", "smoothing"]

SOUNDS = "pronunciation/transformer-cmudict"
SMALL = (
    "model.dim=64",
    "model.layers=2",
    "model.ffn_dim=128",
    "train.batch.tokens=2048",
    "train.average=0",
    "train.schedule.warmup=200",
)
"""A small Transformer for pronunciations."""


def trained(
    recipe: str, forms: Mapping[str, Sequence[str]], seeds: Sequence[int], root: Path
) -> dict[str, System]:
    """The systems of one recipe: each form has a name and the values that it changes."""
    systems = {}
    for number, (name, changes) in enumerate(forms.items()):
        folder = root / str(number)
        fit_seeds(recipe, [*changes, "train.threads=1"], seeds, folder)
        systems[name] = System(name, [folder / f"seed-{seed}" for seed in seeds])
    return systems


def compared(
    recipe: str,
    forms: Mapping[str, Sequence[str]],
    pairs: Sequence[tuple[str, str]],
    seeds: Sequence[int],
    metric: str = "accuracy",
    also: Mapping[str, Callable[[Path], float]] | None = None,
) -> Measured:
    """Scores of all forms, seed by seed, and the difference and p of some pairs of them.

    Args:
        also: what else is measured of each folder, by its name.
    """
    values: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as root:
        systems = trained(recipe, forms, seeds, Path(root))
        for first, second in pairs:
            found = compare([systems[first], systems[second]], metrics=[metric])["systems"]
            for name, row in zip((first, second), found, strict=True):
                values[name] = list(row["metrics"][metric]["each"])
            told = found[1]["metrics"][metric]
            values[f"{second} over {first}"] = [told["difference"]]
            values[f"p of {second} over {first}"] = [told["p"]]
        for what, measure in (also or {}).items():
            for name, system in systems.items():
                values[f"{what}, {name}"] = [measure(Path(folder)) for folder in system.folders]
    bars = {name: values[name] for name in forms if name in values}
    return Measured(values, [Chart(recipe, y=metric, bars=bars)])


def neighbors(seeds: Sequence[int]) -> Measured:
    """GAT on Cora with equal weights and with learned ones."""
    forms = {"equal": ["model.score=uniform"], "learned": []}
    return compared("graphs/gat-cora", forms, [("equal", "learned")], seeds)


def places_of_attention(seeds: Sequence[int]) -> Measured:
    """ABCNN on SICK: no attention, before the convolution (1), after it (2), both (3)."""
    kinds = {"none": "none", "ABCNN-1": "input", "ABCNN-2": "pooling", "ABCNN-3": "both"}
    forms = {name: [f"model.attention={kind}"] for name, kind in kinds.items()}
    pairs = [("ABCNN-1", "ABCNN-2"), ("none", "ABCNN-3")]
    return compared("entailment/abcnn3-sick", forms, pairs, seeds)


def hops(seeds: Sequence[int]) -> Measured:
    """Structured self-attention on questions: one hop, eight, and eight without the penalty."""
    forms = {
        "one hop": ["model.hops=1"],
        "no penalty": ["model.penalty=0"],
        "eight hops": ["model.hops=8"],
    }
    pairs = [("one hop", "eight hops"), ("no penalty", "eight hops")]
    return compared("classification/structured-questions", forms, pairs, seeds)


def perplexity(folder: Path, words: int = 1000) -> float:
    """Of the phonemes of words of the test split, each after the true ones."""
    loaded = load(folder)
    rows = read(find("pronunciation/test.tsv.gz"), {"word": 1, "sounds": 2}, header=False)
    pairs = [(str(row.fields["word"]), str(row.fields["sounds"])) for row in rows][:words]
    found = likelihoods(loaded.task, loaded.model, pairs, loaded.decoder, loaded.fields)
    each = [score for one in found for score in one.token_scores or ()]
    return math.exp(-sum(each) / len(each))


def smoothing(seeds: Sequence[int]) -> Measured:
    """A small Transformer for pronunciations, with label smoothing of 0.1 and without."""
    some = (*SMALL, "data.limit={train: 20000, dev: 200, test: 3000}", "train.epochs=8")
    forms = {"none": [*some, "task.smoothing=0"], "smoothed": [*some, "task.smoothing=0.1"]}
    also = {"perplexity": perplexity}
    return compared(SOUNDS, forms, [("none", "smoothed")], seeds, "per", also)


def dropout(seeds: Sequence[int]) -> Measured:
    """A wider one on 1,000 words, which it reads sixty times, with dropout of 0.2 and without."""
    wider = (*SMALL, "model.dim=128", "model.ffn_dim=256", "task.smoothing=0")
    some = (*wider, "data.limit={train: 1000, dev: 200, test: 3000}", "train.epochs=60")
    forms = {"none": [*some, "model.dropout=0"], "dropout": [*some, "model.dropout=0.2"]}
    return compared(SOUNDS, forms, [("none", "dropout")], seeds, "per")
