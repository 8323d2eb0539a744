"""Models of sentences, some of them also of pairs: by distance, representations and tapes."""

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
