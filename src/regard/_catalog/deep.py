"""Models of sentences and pairs that read them word by word of their own: by distance, by tapes."""

from regard._catalog.entry import SOFT, Entry

__all__ = ["DEEP"]

PAIR_TASKS = ("entailment", "similarity")

DISTANCE = {
    "title": "Distance-based Self-Attention Network for Natural Language Inference",
    "authors": "Im and Cho",
    "year": 2017,
    "url": "https://arxiv.org/abs/1712.02047",
    "axes": {
        "score": "scaled dot, with a direction and a penalty for distance; a perceptron of the key",
        "select": "softmax; then one for each feature",
        "query": "every word's, several heads; then none",
        "body": "none",
        "parallel": "yes",
        "sequences": "self",
        **SOFT,
        "positions": "soft, nearby words preferred",
        "representations": "weights per feature",
    },
    "tiny": {"embed": 8, "heads": 2, "hidden": 12, "ffn_dim": 12, "dropout": 0.0},
}

DEEP: tuple[Entry, ...] = (
    Entry(
        name="distance",
        target="regard.models.distance_network:DistancePair",
        tasks=PAIR_TASKS,
        **DISTANCE,  # type: ignore[arg-type]
    ),
    Entry(
        name="distance-classifier",
        target="regard.models.distance_network:DistanceClassifier",
        tasks=("classification",),
        **DISTANCE,  # type: ignore[arg-type]
    ),
)
