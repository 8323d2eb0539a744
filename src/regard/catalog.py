"""The catalogue: every paper's model, where its class is, and where it stands among the others.

Nothing heavy is imported here; `load` imports one model's module, on demand. Adding a paper is one
file under `models/` and one row in this table: the contract battery, `regard models` and recipes
read it.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.errors import RequestError, nearest

__all__ = ["AXES", "ENTRIES", "Entry", "entry", "load", "names"]

AXES: Mapping[str, str] = {
    "score": "how well does a key match the query?",
    "select": "how do scores become weights?",
    "query": "which state looks: the one before the decoder's step, after it, or every layer's",
    "body": "what the sequences are read with",
    "parallel": "are all target positions computed at once in training?",
    "sequences": "distinctive (two sequences), self (one), co-attention (several attended jointly)",
    "levels": "single, or several levels of abstraction",
    "positions": "soft (all, weighted), hard (sampled), local (a window)",
    "representations": "one, several of the same input, or weights per feature",
}
"""What the axes ask. The last four are our reading of the axes of Chaudhari et al. (2019),
"An Attentive Survey of Attention Models", arXiv 1904.02874."""


@dataclass(frozen=True)
class Entry:
    """One row: a paper's model.

    Args:
        name: what recipes and the command line call it.
        target: "module:Class".
        title: the paper's title.
        authors: as cited.
        year: of the first public version.
        url: where the paper is.
        tasks: the tasks it is used for here.
        axes: its value on each of `AXES` that applies.
        tiny: keyword arguments of the constructor for tests, no width above 16.
    """

    name: str
    target: str
    title: str
    authors: str
    year: int
    url: str
    tasks: tuple[str, ...]
    axes: Mapping[str, str]
    tiny: Mapping[str, Any] = field(default_factory=dict)


_GENERATION = ("translation", "pronunciation")
_NO_ATTENTION = {"score": "none", "select": "none", "query": "none", "levels": "single"}
_SOFT = {"levels": "single", "positions": "soft", "representations": "one"}

ENTRIES: tuple[Entry, ...] = (
    Entry(
        name="seq2seq",
        target="regard.models.seq2seq:Seq2Seq",
        title="Sequence to Sequence Learning with Neural Networks",
        authors="Sutskever, Vinyals and Le",
        year=2014,
        url="https://arxiv.org/abs/1409.3215",
        tasks=_GENERATION,
        axes={**_NO_ATTENTION, "body": "LSTM", "parallel": "no"},
        tiny={"embed": 8, "hidden": 12, "layers": 2},
    ),
    Entry(
        name="rnn-encoder-decoder",
        target="regard.models.rnn_encoder_decoder:RNNEncoderDecoder",
        title="Learning Phrase Representations using RNN Encoder-Decoder"
        " for Statistical Machine Translation",
        authors="Cho, van Merriënboer, Gulcehre, Bahdanau, Bougares, Schwenk and Bengio",
        year=2014,
        url="https://arxiv.org/abs/1406.1078",
        tasks=_GENERATION,
        axes={**_NO_ATTENTION, "body": "GRU (reset before)", "parallel": "no"},
        tiny={"embed": 8, "hidden": 12, "maxout": 6, "scale": 0.2},
    ),
    Entry(
        name="rnnsearch",
        target="regard.models.rnnsearch:RNNsearch",
        title="Neural Machine Translation by Jointly Learning to Align and Translate",
        authors="Bahdanau, Cho and Bengio",
        year=2014,
        url="https://arxiv.org/abs/1409.0473",
        tasks=_GENERATION,
        axes={
            "score": "additive",
            "select": "softmax",
            "query": "before: the previous decoder state",
            "body": "bidirectional GRU (reset before)",
            "parallel": "no",
            "sequences": "distinctive",
            **_SOFT,
        },
        tiny={"embed": 8, "hidden": 12, "align": 8, "maxout": 6, "scale": 0.2},
    ),
    Entry(
        name="lstm-a",
        target="regard.models.lstm_a:LSTMA",
        title="Grammar as a Foreign Language",
        authors="Vinyals, Kaiser, Koo, Petrov, Sutskever and Hinton",
        year=2014,
        url="https://arxiv.org/abs/1412.7449",
        tasks=("parsing", *_GENERATION),
        axes={
            "score": "additive",
            "select": "softmax",
            "query": "after: the current decoder state",
            "body": "bidirectional LSTM, LSTM",
            "parallel": "yes: no input feeding",
            "sequences": "distinctive",
            **_SOFT,
        },
        tiny={"embed": 8, "hidden": 8, "layers": 2, "align": 6, "follow": True},
    ),
    Entry(
        name="luong",
        target="regard.models.luong:Luong",
        title="Effective Approaches to Attention-based Neural Machine Translation",
        authors="Luong, Pham and Manning",
        year=2015,
        url="https://arxiv.org/abs/1508.04025",
        tasks=_GENERATION,
        axes={
            "score": "dot, general, concat or location",
            "select": "softmax",
            "query": "after: the current decoder state",
            "body": "LSTM",
            "parallel": "no: input feeding",
            "sequences": "distinctive",
            **_SOFT,
        },
        tiny={"embed": 8, "hidden": 12, "layers": 2, "dropout": 0.0},
    ),
    Entry(
        name="memn2n",
        target="regard.models.memn2n:MemN2N",
        title="End-To-End Memory Networks",
        authors="Sukhbaatar, Szlam, Weston and Fergus",
        year=2015,
        url="https://arxiv.org/abs/1503.08895",
        tasks=("memory",),
        axes={
            "score": "dot",
            "select": "softmax",
            "query": "the question, then what the hops before have read",
            "body": "none: weighted sums of words",
            "parallel": "yes",
            "sequences": "a story's facts",
            **_SOFT,
            "levels": "several: hops",
        },
        tiny={"dim": 16, "hops": 2, "memory": 8, "scale": 0.5},
    ),
    Entry(
        name="memn2n-lm",
        target="regard.models.memn2n_lm:MemN2NLM",
        title="End-To-End Memory Networks",
        authors="Sukhbaatar, Szlam, Weston and Fergus",
        year=2015,
        url="https://arxiv.org/abs/1503.08895",
        tasks=("language",),
        axes={
            "score": "dot",
            "select": "softmax",
            "query": "a constant, then what the hops before have read",
            "body": "none: word vectors and times",
            "parallel": "yes",
            "sequences": "self, over the last words",
            **_SOFT,
            "levels": "several: hops",
            "positions": "local: the last words, softly",
        },
        tiny={"dim": 8, "hops": 2, "memory": 5, "scale": 0.5},
    ),
    Entry(
        name="as-reader",
        target="regard.models.as_reader:ASReader",
        title="Text Understanding with the Attention Sum Reader Network",
        authors="Kadlec, Schmid, Bajgar and Kleindienst",
        year=2016,
        url="https://arxiv.org/abs/1603.01547",
        tasks=("reading",),
        axes={
            "score": "dot",
            "select": "softmax",
            "query": "the last states over the question",
            "body": "bidirectional GRU (reset after)",
            "parallel": "no",
            "sequences": "distinctive: a document and a question",
            **_SOFT,
        },
        tiny={"embed": 8, "hidden": 6, "dropout": 0.0},
    ),
    Entry(
        name="aoa",
        target="regard.models.aoa:AoA",
        title="Attention-over-Attention Neural Networks for Reading Comprehension",
        authors="Cui, Chen, Wei, Wang, Liu and Hu",
        year=2016,
        url="https://arxiv.org/abs/1607.04423",
        tasks=("reading",),
        axes={
            "score": "dot",
            "select": "softmax over the document and over the question, and their product",
            "query": "every state over the question",
            "body": "bidirectional GRU (reset after)",
            "parallel": "no",
            "sequences": "co-attention: a document and a question",
            **_SOFT,
        },
        tiny={"embed": 8, "hidden": 6, "dropout": 0.0},
    ),
    Entry(
        name="bytenet",
        target="regard.models.bytenet:ByteNet",
        title="Neural Machine Translation in Linear Time",
        authors="Kalchbrenner, Espeholt, Simonyan, van den Oord, Graves and Kavukcuoglu",
        year=2016,
        url="https://arxiv.org/abs/1610.10099",
        tasks=_GENERATION,
        axes={
            **_NO_ATTENTION,
            "body": "dilated convolutions, the decoder stacked on the encoder",
            "parallel": "yes",
        },
        tiny={"dim": 8, "dilations": (1, 2, 4), "sets": 1},
    ),
    Entry(
        name="deep-att",
        target="regard.models.deep_att:DeepAtt",
        title="Deep Recurrent Models with Fast-Forward Connections for Neural Machine Translation",
        authors="Zhou, Cao, Wang, Li and Xu",
        year=2016,
        url="https://arxiv.org/abs/1606.04199",
        tasks=_GENERATION,
        axes={
            "score": "additive",
            "select": "softmax",
            "query": "before: the first decoder layer's previous output",
            "body": "LSTM with fast-forward connections, two interleaved columns",
            "parallel": "no: the first decoder layer",
            "sequences": "distinctive",
            **_SOFT,
        },
        tiny={
            "embed": 8,
            "hidden": 8,
            "layers": 2,
            "decoder_layers": 2,
            "align": 8,
            "dropout": 0.0,
        },
    ),
    Entry(
        name="gnmt",
        target="regard.models.gnmt:GNMT",
        title="Google's Neural Machine Translation System:"
        " Bridging the Gap between Human and Machine Translation",
        authors="Wu, Schuster, Chen, Le, Norouzi and others",
        year=2016,
        url="https://arxiv.org/abs/1609.08144",
        tasks=_GENERATION,
        axes={
            "score": "additive",
            "select": "softmax",
            "query": "before: the first decoder layer's previous output, for all layers",
            "body": "residual LSTM, its first layer bidirectional",
            "parallel": "no: the first decoder layer",
            "sequences": "distinctive",
            **_SOFT,
        },
        tiny={
            "embed": 8,
            "hidden": 10,
            "layers": 3,
            "align": 8,
            "dropout": 0.0,
            "scale": 0.3,
        },
    ),
    Entry(
        name="convs2s",
        target="regard.models.convs2s:ConvS2S",
        title="Convolutional Sequence to Sequence Learning",
        authors="Gehring, Auli, Grangier, Yarats and Dauphin",
        year=2017,
        url="https://arxiv.org/abs/1705.03122",
        tasks=_GENERATION,
        axes={
            "score": "dot",
            "select": "softmax",
            "query": "every layer's, with the previous target word",
            "body": "gated convolutions",
            "parallel": "yes",
            "sequences": "distinctive",
            **_SOFT,
            "levels": "several: every decoder layer looks again",
        },
        tiny={
            "embed": 8,
            "encoder": [[2, 12, 3], [1, 16, 1]],
            "decoder": [[2, 12, 3]],
            "dropout": 0.0,
        },
    ),
    Entry(
        name="moe",
        target="regard.models.moe:MoE",
        title="Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer",
        authors="Shazeer, Mirhoseini, Maziarz, Davis, Le, Hinton and Dean",
        year=2017,
        url="https://arxiv.org/abs/1701.06538",
        tasks=_GENERATION,
        axes={
            "score": "product of two perceptrons",
            "select": "softmax",
            "query": "before: the first decoder layer's previous output, for both layers",
            "body": "LSTM and sparsely gated experts",
            "parallel": "no: the first decoder layer",
            "sequences": "distinctive",
            **_SOFT,
        },
        tiny={
            "dim": 8,
            "hidden": 12,
            "experts": 4,
            "k": 2,
            "expert_hidden": 8,
            "align": 8,
            "dropout": 0.0,
        },
    ),
    Entry(
        name="transformer",
        target="regard.models.transformer:Transformer",
        title="Attention Is All You Need",
        authors="Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser and Polosukhin",
        year=2017,
        url="https://arxiv.org/abs/1706.03762",
        tasks=_GENERATION,
        axes={
            "score": "scaled dot",
            "select": "softmax",
            "query": "every layer's, several heads",
            "body": "attention and feed-forward",
            "parallel": "yes",
            "sequences": "self, and distinctive in the decoder",
            **_SOFT,
        },
        tiny={"dim": 16, "heads": 2, "layers": 2, "hidden": 16, "dropout": 0.0},
    ),
    Entry(
        name="gcn",
        target="regard.models.gcn:GCN",
        title="Semi-Supervised Classification with Graph Convolutional Networks",
        authors="Kipf and Welling",
        year=2017,
        url="https://arxiv.org/abs/1609.02907",
        tasks=("graphs",),
        axes={
            **_NO_ATTENTION,
            "body": "graph convolution",
            "parallel": "yes",
            "sequences": "a node's neighbors",
        },
        tiny={"hidden": 8, "dropout": 0.0},
    ),
    Entry(
        name="gat",
        target="regard.models.gat:GAT",
        title="Graph Attention Networks",
        authors="Veličković, Cucurull, Casanova, Romero, Liò and Bengio",
        year=2018,
        url="https://arxiv.org/abs/1710.10903",
        tasks=("graphs",),
        axes={
            "score": "split linear, leaky ReLU",
            "select": "softmax over neighbors",
            "query": "each node's, several heads",
            "body": "none",
            "parallel": "yes",
            "sequences": "self, over a node's neighbors",
            **_SOFT,
        },
        tiny={"hidden": 4, "heads": 2, "dropout": 0.0, "attention_dropout": 0.0},
    ),
    Entry(
        name="marian",
        target="regard.models.marian:Marian",
        title="Marian: Fast Neural Machine Translation in C++",
        authors="Junczys-Dowmunt, Grundkiewicz, Dwojak, Hoang, Heafield, Neckermann, Seide,"
        " Germann, Aji, Bogoychev, Martins and Birch",
        year=2018,
        url="https://arxiv.org/abs/1804.00344",
        tasks=_GENERATION,
        axes={
            "score": "scaled dot",
            "select": "softmax",
            "query": "every layer's, several heads",
            "body": "attention and feed-forward",
            "parallel": "yes",
            "sequences": "self, and distinctive in the decoder",
            **_SOFT,
        },
        tiny={"dim": 16, "heads": 2, "layers": 2, "hidden": 16, "dropout": 0.0, "norm": "pre"},
    ),
)

_BY_NAME: Mapping[str, Entry] = {e.name: e for e in ENTRIES}


def names(task: str | None = None) -> list[str]:
    """The names of all models, oldest paper first, or of those used for one task."""
    return [e.name for e in ENTRIES if task is None or task in e.tasks]


def entry(name: str) -> Entry:
    """The row called `name`.

    Raises:
        RequestError: no such model; the nearest name is in the message.

    Example:
        >>> entry("rnnsearch").year
        2014
    """
    if name not in _BY_NAME:
        raise RequestError(f"no model is called {name!r}: {nearest(name, _BY_NAME)}")
    return _BY_NAME[name]


def load(name: str) -> type[Any]:
    """Import the class of the model called `name` (this imports torch)."""
    module, _, attribute = entry(name).target.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), attribute)
    return found
