"""Models of pairs of sentences."""

from regard._catalog.entry import SOFT, Entry

__all__ = ["PAIRS"]

TASKS = ("entailment", "similarity")

PAIRS: tuple[Entry, ...] = (
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
