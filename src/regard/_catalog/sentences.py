"""Models of sentences and documents: what is read is embedded, and the embedding classified."""

from typing import Any

from regard._catalog.entry import SOFT, Entry

__all__ = ["SENTENCES"]

_DISAN: dict[str, Any] = {
    "title": "DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language Understanding",
    "authors": "Shen, Zhou, Long, Jiang, Pan and Zhang",
    "year": 2018,
    "url": "https://arxiv.org/abs/1709.04696",
    "axes": {
        "score": "additive, bounded, a number for each feature",
        "select": "softmax for each feature",
        "query": "every word's; then none: scores of the words alone",
        "body": "none",
        "parallel": "yes",
        "sequences": "self",
        "levels": "single",
        "positions": "soft, earlier or later words",
        "representations": "weights per feature",
    },
    "tiny": {"embed": 8, "hidden": 6, "ffn_dim": 12, "dropout": 0.0},
}

SENTENCES: tuple[Entry, ...] = (
    Entry(
        name="han",
        target="regard.models.han:HAN",
        title="Hierarchical Attention Networks for Document Classification",
        authors="Yang, Yang, Dyer, He, Smola and Hovy",
        year=2016,
        url="https://aclanthology.org/N16-1174/",
        tasks=("classification",),
        axes={
            "score": "dot with a perceptron of the key",
            "select": "softmax",
            "query": "learned, one for words and one for sentences",
            "body": "bidirectional GRU (reset after), for words and for sentences",
            "parallel": "no",
            "sequences": "self",
            **SOFT,
            "levels": "several: words and sentences",
        },
        tiny={"embed": 8, "hidden": 6, "context": 8},
    ),
    Entry(
        name="disan",
        target="regard.models.disan:DiSAN",
        tasks=("classification",),
        **_DISAN,
    ),
    Entry(
        name="disan-pair",
        target="regard.models.disan:DiSANPair",
        tasks=("entailment", "similarity"),
        **_DISAN,
    ),
)
