"""Models of sentences and documents: what is read is embedded, and the embedding classified."""

from regard._catalog.entry import SOFT, Entry

__all__ = ["SENTENCES"]

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
)
