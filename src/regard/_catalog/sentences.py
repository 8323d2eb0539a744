"""Models of sentences and documents: what is read is embedded, and the embedding classified."""

from typing import Any

from regard._catalog.entry import NO_ATTENTION, SOFT, Entry

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

_INFERSENT: dict[str, Any] = {
    "title": "Supervised Learning of Universal Sentence Representations from Natural Language"
    " Inference Data",
    "authors": "Conneau, Kiela, Schwenk, Barrault and Bordes",
    "year": 2017,
    "url": "https://arxiv.org/abs/1705.02364",
    "axes": {**NO_ATTENTION, "body": "bidirectional LSTM", "parallel": "no"},
    "tiny": {"embed": 8, "hidden": 6, "ffn_dim": 12},
}

_BAG: dict[str, Any] = {
    "title": "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification",
    "authors": "Wang and Manning",
    "year": 2012,
    "url": "https://aclanthology.org/P12-2018/",
    "axes": {**NO_ATTENTION, "body": "none: words and n-grams, each once", "parallel": "yes"},
    "tiny": {"ngrams": 2, "buckets": 16},
}

SENTENCES: tuple[Entry, ...] = (
    Entry(
        name="bag-of-ngrams",
        target="regard.models.bag_of_ngrams:BagOfNgrams",
        tasks=("classification",),
        **_BAG,
    ),
    Entry(
        name="bag-of-ngrams-pair",
        target="regard.models.bag_of_ngrams:BagOfNgramsPair",
        tasks=("entailment", "similarity"),
        **_BAG,
    ),
    Entry(
        name="cnn",
        target="regard.models.kim_cnn:KimCNN",
        title="Convolutional Neural Networks for Sentence Classification",
        authors="Kim",
        year=2014,
        url="https://arxiv.org/abs/1408.5882",
        tasks=("classification",),
        axes={**NO_ATTENTION, "body": "convolutions of several widths", "parallel": "yes"},
        tiny={"embed": 8, "widths": [2, 3], "filters": 6, "dropout": 0.0},
    ),
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
        name="bilstm",
        target="regard.models.bilstm_pool:BiLSTMPool",
        tasks=("classification",),
        **_INFERSENT,
    ),
    Entry(
        name="bilstm-pair",
        target="regard.models.bilstm_pool:BiLSTMPair",
        tasks=("entailment", "similarity"),
        **_INFERSENT,
    ),
    Entry(
        name="att-blstm",
        target="regard.models.att_blstm:AttBLSTM",
        title="Attention-Based Bidirectional Long Short-Term Memory Networks for Relation"
        " Classification",
        authors="Zhou, Shi, Tian, Qi, Li, Hao and Xu",
        year=2016,
        url="https://aclanthology.org/P16-2034/",
        tasks=("relation-classification", "classification"),
        axes={
            "score": "dot with tanh of the key",
            "select": "softmax",
            "query": "learned",
            "body": "bidirectional LSTM, directions added",
            "parallel": "no",
            "sequences": "self",
            **SOFT,
        },
        tiny={"embed": 8, "hidden": 6},
    ),
    Entry(
        name="self-attentive-pair",
        target="regard.models.self_attentive:SelfAttentivePair",
        title="A Structured Self-Attentive Sentence Embedding",
        authors="Lin, Feng, dos Santos, Yu, Xiang, Zhou and Bengio",
        year=2017,
        url="https://arxiv.org/abs/1703.03130",
        tasks=("entailment", "similarity"),
        axes={
            "score": "dot with a perceptron of the key",
            "select": "softmax",
            "query": "learned, one for each hop",
            "body": "bidirectional LSTM",
            "parallel": "no",
            "sequences": "self, of each sentence",
            **SOFT,
            "representations": "several: a vector for each hop",
        },
        tiny={"embed": 8, "hidden": 6, "attention": 8, "hops": 3, "ffn_dim": 12},
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
