"""Models of pairs of sentences."""

from regard._catalog.entry import SOFT, Entry

__all__ = ["PAIRS"]

TASKS = ("entailment", "similarity")

PAIRS: tuple[Entry, ...] = (
    Entry(
        name="word-by-word",
        target="regard.models.word_by_word:WordByWord",
        title="Reasoning about Entailment with Neural Attention",
        authors="Rocktäschel, Grefenstette, Hermann, Kočiský and Blunsom",
        year=2015,
        url="https://arxiv.org/abs/1509.06664",
        tasks=TASKS,
        axes={
            "score": "additive",
            "select": "softmax",
            "query": "each state of the hypothesis, with what was read before",
            "body": "LSTM, conditional encoding",
            "parallel": "no",
            "sequences": "distinctive: a premise and a hypothesis",
            **SOFT,
        },
        tiny={"embed": 8, "hidden": 8, "dropout": 0.0},
    ),
    Entry(
        name="abcnn",
        target="regard.models.abcnn:ABCNN",
        title="ABCNN: Attention-Based Convolutional Neural Network for Modeling Sentence Pairs",
        authors="Yin, Schütze, Xiang and Zhou",
        year=2015,
        url="https://arxiv.org/abs/1512.05193",
        tasks=TASKS,
        axes={
            "score": "inverse Euclidean distance",
            "select": "none: the scores themselves",
            "query": "every word of either sentence, then every column of a convolution",
            "body": "wide convolutions",
            "parallel": "yes",
            "sequences": "co-attention: two sentences",
            "levels": "several: words and the blocks above them",
            "positions": "soft",
            "representations": "one",
        },
        tiny={"embed": 8, "filters": 6, "width": 3, "length": 8},
    ),
    Entry(
        name="mpcnn",
        target="regard.models.mpcnn:MPCNN",
        title="Multi-Perspective Sentence Similarity Modeling with Convolutional Neural Networks",
        authors="He, Gimpel and Lin",
        year=2015,
        url="https://aclanthology.org/D15-1181",
        tasks=("similarity", "entailment"),
        axes={
            "score": "cosine",
            "select": "sums over the other sentence, then a softmax over the words",
            "query": "every word of either sentence",
            "body": "convolutions of all dimensions and of each",
            "parallel": "yes",
            "sequences": "co-attention: two sentences",
            "levels": "single",
            "positions": "soft",
            "representations": "several: pools of filters of several widths",
        },
        tiny={
            "embed": 8,
            "filters": 16,
            "dim_filters": 2,
            "width": 2,
            "interaction": "attention",
            "ffn_dim": 12,
        },
    ),
    Entry(
        name="decomposable",
        target="regard.models.decomposable:Decomposable",
        title="A Decomposable Attention Model for Natural Language Inference",
        authors="Parikh, Täckström, Das and Uszkoreit",
        year=2016,
        url="https://arxiv.org/abs/1606.01933",
        tasks=TASKS,
        axes={
            "score": "dot of two perceptrons",
            "select": "softmax over either sentence",
            "query": "every word of either sentence",
            "body": "none: projected word vectors",
            "parallel": "yes",
            "sequences": "co-attention: a premise and a hypothesis",
            **SOFT,
        },
        tiny={"embed": 8, "dim": 8, "hidden": 12, "dropout": 0.0},
    ),
)
