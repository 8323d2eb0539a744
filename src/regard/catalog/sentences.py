"""Models of sentences and documents: what is read is embedded, and the embedding classified."""

from typing import Any

from regard.catalog.row import NO_ATTENTION, SOFT, Entry

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

_SWEM: dict[str, Any] = {
    "title": "Baseline Needs More Love: On Simple Word-Embedding-Based Models and Associated"
    " Pooling Mechanisms",
    "authors": "Shen, Wang, Wang, Min, Su, Zhang, Li, Henao and Carin",
    "year": 2018,
    "url": "https://arxiv.org/abs/1805.09843",
    "axes": {**NO_ATTENTION, "body": "none: word vectors, pooled", "parallel": "yes"},
    "tiny": {"embed": 8},
}

_SHALLOW: tuple[Entry, ...] = (
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
        name="swem",
        target="regard.models.swem:SWEM",
        tasks=("classification",),
        **_SWEM,
    ),
    Entry(
        name="swem-pair",
        target="regard.models.swem:SWEMPair",
        tasks=("entailment", "similarity"),
        **_SWEM,
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


META = {
    "title": "Dynamic Meta-Embeddings for Improved Sentence Representations",
    "authors": "Kiela, Wang and Cho",
    "year": 2018,
    "url": "https://arxiv.org/abs/1804.07983",
    "axes": {
        "score": "linear in the key, or in a bidirectional LSTM over the keys of a sentence",
        "select": "softmax over the representations of a word",
        "query": "none",
        "body": "bidirectional LSTM",
        "parallel": "no",
        "sequences": "self",
        **SOFT,
        "representations": "several: vectors of the same word",
    },
    "tiny": {
        "embed": 8,
        "more": [6],
        "characters": 4,
        "filters": 6,
        "dim": 8,
        "hidden": 6,
        "ffn_dim": 12,
        "dropout": 0.0,
    },
}


TAPES = {
    "title": "Long Short-Term Memory-Networks for Machine Reading",
    "authors": "Cheng, Dong and Lapata",
    "year": 2016,
    "url": "https://arxiv.org/abs/1601.06733",
}


TAPE_AXES = {
    "score": "additive",
    "select": "softmax",
    "query": "the word that is read, with what was found before",
    "body": "LSTM cells with a slot for each word",
    "parallel": "no",
    "sequences": "self",
    **SOFT,
}


_DEEP: tuple[Entry, ...] = (
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
    Entry(
        name="dme",
        target="regard.models.dme:DME",
        tasks=("classification",),
        **META,  # type: ignore[arg-type]
    ),
    Entry(
        name="dme-pair",
        target="regard.models.dme:DMEPair",
        tasks=PAIR_TASKS,
        **META,  # type: ignore[arg-type]
    ),
    Entry(
        name="lstmn",
        target="regard.models.lstmn:LSTMNClassifier",
        tasks=("classification",),
        axes=TAPE_AXES,
        tiny={"embed": 8, "hidden": 6, "ffn_dim": 8, "dropout": 0.0},
        **TAPES,  # type: ignore[arg-type]
    ),
    Entry(
        name="lstmn-pair",
        target="regard.models.lstmn:LSTMNPair",
        tasks=PAIR_TASKS,
        axes={**TAPE_AXES, "sequences": "self, and distinctive: the second over the first"},
        tiny={"embed": 8, "hidden": 6, "ffn_dim": 8, "dropout": 0.0},
        **TAPES,  # type: ignore[arg-type]
    ),
    Entry(
        name="lstmn-lm",
        target="regard.models.lstmn_lm:LSTMNLanguage",
        tasks=("language",),
        axes=TAPE_AXES,
        tiny={"embed": 8, "hidden": 6},
        **TAPES,  # type: ignore[arg-type]
    ),
    Entry(
        name="attention-via-attention",
        target="regard.models.attention_via_attention:AttentionViaAttention",
        title="Attention-via-Attention Neural Machine Translation",
        authors="Zhao and Zhang",
        year=2018,
        url="https://paperexplained.cn/articles/paper/detail/b0a274852b09cd888ac46a4ff3833a990db92466",
        tasks=("classification",),
        axes={
            "score": "a perceptron of the key; additive",
            "select": "softmax over words, then over the characters of each word",
            "query": "none, then each word's state",
            "body": "bidirectional LSTM over words, convolution over characters",
            "parallel": "no",
            "sequences": "self",
            **SOFT,
            "levels": "several: words, then their characters",
        },
        tiny={
            "embed": 8,
            "hidden": 6,
            "attention": 6,
            "characters": 4,
            "filters": 6,
            "levels": "words",
            "ffn_dim": 8,
            "dropout": 0.0,
        },
    ),
)

SENTENCES: tuple[Entry, ...] = (*_SHALLOW, *_DEEP)
