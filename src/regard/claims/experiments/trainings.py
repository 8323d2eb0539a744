"""Claims about trained systems (C37, C50, C52, C61): recipes, three seeds, paired tests."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.claims.claim import Measured
from regard.evaluation.comparing import System, compare
from regard.train.seeds import fit_seeds
from regard.views.charts import Chart

__all__ = ["hops", "neighbors", "places_of_attention"]


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
) -> Measured:
    """Scores of all forms, seed by seed, and the difference and p of some pairs of them."""
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
