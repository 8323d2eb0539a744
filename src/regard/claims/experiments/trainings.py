"""Claims about trained systems: recipes, three seeds, paired tests.

C23, C36, C37, C46, C49, C50, C52, C54 and C61.
"""

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

__all__ = [
    "attending_layers",
    "cross_attention_alone",
    "dropout",
    "hops",
    "neighbors",
    "parts_of_perspectives",
    "places_of_attention",
    "several_weights",
    "smoothing",
]

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
    title: str = "",
) -> Measured:
    """Scores of all forms, seed by seed, and the difference and p of some pairs of them.

    Args:
        also: what else is measured of each folder, by its name.
        title: of the picture; the recipe by default.
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
    return Measured(values, [Chart(title or recipe, y=metric, bars=bars)])


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


def cross_attention_alone(seeds: Sequence[int]) -> Measured:
    """A small Transformer for pronunciations, in which letters and phonemes see themselves alone.

    Positions are sinusoids: relative ones are known to self-attention alone.
    """
    limit = "data.limit={train: 20000, dev: 200, test: 3000}"
    some = (*SMALL, "model.position={kind: sinusoid}", limit, "train.epochs=5")
    forms = {"whole": [*some], "cross-attention alone": [*some, "model.attention.window=1"]}
    return compared(SOUNDS, forms, [("whole", "cross-attention alone")], seeds, "per")


def attending_layers(seeds: Sequence[int]) -> Measured:
    """ConvS2S for pronunciations, three decoder layers: the first of them attends, or all do."""
    sizes = "embed: 64, encoder: [[3, 64, 3]], decoder: [[3, 64, 3]], dropout: 0.1"
    limit = "data.limit={train: 20000, dev: 200, test: 3000}"
    some = (f"model={{name: convs2s, {sizes}}}", *SMALL[3:], limit, "train.epochs=5")
    forms = {"one layer": [*some, "model.attention=[1]"], "every layer": [*some]}
    pairs = [("one layer", "every layer")]
    return compared(SOUNDS, forms, pairs, seeds, "per", title="attention in ConvS2S's decoder")


def parts_of_perspectives(seeds: Sequence[int]) -> Measured:
    """MPCNN on SICK relatedness, whole, without one part of it, and cosines of two vectors.

    The cosines are those of BCNN: of mean word vectors, and of its one convolution.
    """
    some = ["train.epochs=2"]
    cosines = "model={name: abcnn, embed: 100, attention: none, similarity: cosine, width: 3}"
    forms = {
        "cosines": [*some, cosines],
        "one width": [*some, "model.width=1"],
        "one pool": [*some, "model.pools=[max]"],
        "no block B": [*some, "model.dim_filters=0"],
        "whole": some,
    }
    pairs = [(name, "whole") for name in forms if name != "whole"]
    return compared("similarity/mpcnn-sick", forms, pairs, seeds, "pearson")


def several_weights(seeds: Sequence[int]) -> Measured:
    """Questions: weights of words or features (DiSAN), plain or weighed sums of vectors (DME)."""
    some = ["train.epochs=7"]
    of_features = compared(
        "classification/disan-questions",
        {"words": [*some, "model.weights=word"], "features": some},
        [("words", "features")],
        seeds,
    )
    of_vectors = compared(
        "classification/dme-questions",
        {"sum": [*some, "model.mix=sum"], "weighed": some},
        [("sum", "weighed")],
        seeds,
    )
    values = {**of_features.values, **of_vectors.values}
    return Measured(values, [*of_features.pictures, *of_vectors.pictures])
