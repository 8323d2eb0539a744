r"""Structured self-attentive sentence embedding.

Lin, Feng, dos Santos, Yu, Xiang, Zhou and Bengio, "A Structured Self-Attentive Sentence Embedding",
ICLR 2017, arXiv 1703.03130.

    h_t = [→h_t ; ←h_t]                          a bidirectional LSTM, H = (h_1, …, h_n)     (1-4)
    A   = softmax(W_s2 tanh(W_s1 H^T))           r hops, each a distribution over the words    (6)
    M   = A H                                    the sentence: a matrix of r vectors           (7)
    P   = ‖A A^T - I‖_F²                         penalty: hops differ, and each looks at few   (8)
    y   = W_o relu(W_f vec(M) + b_f) + b_o       loss = cross-entropy + w mean(P)
    pruned (appendix A): row i of M feeds p hidden units of its own, column j feeds q of its own
    pair: row i of F is (M_1 W_1)_i ⊙ (M_2 W_2)_i, each row with two matrices of its own, and F is
    classified in place of M (section 4.3; the form of the gated encoder is the released code's)

W_s1 and W_s2 have no biases. The rows of W_s2 are r learned queries, tanh(W_s1 h_t) are the keys
and h_t the values: attention with a dot-product score, which fused kernels compute. The softmax
runs over the words of the sentence; padding is masked before it.

Shapes: source (B, T) ids; states H (B, T, 2u); A (B, r, T), M (B, r, 2u); logits
(B, num_classes). The weighted mean of P over the batch is in `Output.extra["penalty"]` while
training, if `penalty` is above 0; of a pair it is the mean of both sentences' P.

**Departs from the paper**: word vectors start at random (the paper's are word2vec or GloVe, trained
further). Each gate of the LSTM has two bias vectors, as in PyTorch. All other weights start as
PyTorch's layers do. Dropout is on M and on the hidden units, as in the released code;
`score_dropout` is that code's other dropout, on the states and on the tanh where they are scored.
The released code averages the squares of P over its r x r entries: `reduction="mean"`. A sentence
without words has M = 0. Adding squared weights to the loss is the optimizer's part.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended, Attention, Dot, Lengths
from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout, dropout_relu
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.models._sentence import features_of
from regard.protocols import Inputs, Output, states_of, unpacked

__all__ = ["GatedEncoder", "Pruned", "SelfAttentive", "SelfAttentivePair", "penalization"]

REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda squares: squares.sum((-2, -1)),
    "mean": lambda squares: squares.mean((-2, -1)),
}
"""Over the r x r entries: the paper's norm, and the released code's mean."""


def penalization(
    weights: Float[Tensor, "*batch hop word"], reduction: str = "sum"
) -> Float[Tensor, " *batch"]:
    r"""How much the hops of a sentence overlap, and how widely each of them looks.

    .. math:: P = \lVert A A^\top - I \rVert_F^2

    Computed in single precision or better, under autocast too.

    Args:
        weights: A.
        reduction: "sum" of the squared entries, or their "mean".

    Source: Lin et al. (2017), eq. 8.
    """
    a = weights.to(torch.promote_types(weights.dtype, torch.float32))
    with torch.autocast(a.device.type, enabled=False):
        identity = torch.eye(a.shape[-2], dtype=a.dtype, device=a.device)
        return REDUCTIONS[reduction]((a @ a.mT - identity).square())


class Pruned(nn.Module):
    """The first layer of the classifier with most connections taken out (appendix A).

    Args:
        hops: r, rows of M.
        size: 2u, columns of M.
        per_row: p, hidden units that one row feeds.
        per_column: q, hidden units that one column feeds.

    Shapes:
        M (B, r, 2u) to (B, r p + 2u q), before the activation
    """

    def __init__(self, hops: int, size: int, per_row: int, per_column: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(hops, size, per_row))
        self.columns = nn.Parameter(torch.empty(size, hops, per_column))
        self.bias = nn.Parameter(torch.empty(hops * per_row + size * per_column))
        for weight in (self.rows, self.columns):  # as nn.Linear's
            nn.init.uniform_(weight, -(weight.shape[1] ** -0.5), weight.shape[1] ** -0.5)
        nn.init.uniform_(self.bias, -(size**-0.5), size**-0.5)

    def forward(self, sentence: Float[Tensor, "batch hop size"]) -> Float[Tensor, "batch units"]:
        """Multiply each row and each column by a matrix of its own."""
        of_rows = torch.bmm(sentence.transpose(0, 1), self.rows)  # (r, B, p)
        of_columns = torch.bmm(sentence.permute(2, 0, 1), self.columns)  # (2u, B, q)
        joined = [part.transpose(0, 1).flatten(1) for part in (of_rows, of_columns)]
        return torch.cat(joined, -1) + self.bias

    def extra_repr(self) -> str:
        """Say the sizes."""
        (hops, size, per_row), per_column = self.rows.shape, self.columns.shape[-1]
        return f"{hops} x {per_row} + {size} x {per_column}"


class GatedEncoder(nn.Module):
    r"""Two matrices joined row by row: :math:`F_i = (M^1_i W^1_i) \odot (M^2_i W^2_i)`.

    Args:
        hops: r, rows of both.
        size: 2u, columns of both.

    Shapes:
        (B, r, 2u) and (B, r, 2u) to (B, r, 2u)
    """

    def __init__(self, hops: int, size: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(hops, size, size))
        self.second = nn.Parameter(torch.empty(hops, size, size))
        for weight in (self.first, self.second):  # as nn.Linear's
            nn.init.uniform_(weight, -(size**-0.5), size**-0.5)

    def forward(
        self, first: Float[Tensor, "batch hop size"], second: Float[Tensor, "batch hop size"]
    ) -> Float[Tensor, "batch hop size"]:
        """Multiply each, and one with the other."""
        one = torch.bmm(first.transpose(0, 1), self.first)
        other = torch.bmm(second.transpose(0, 1), self.second)
        return (one * other).transpose(0, 1)

    def extra_repr(self) -> str:
        """Say the sizes."""
        return f"{self.first.shape[0]} x {self.first.shape[1]}"


class SelfAttentive(nn.Module):
    """A classifier of sentences that looks at each of them r times.

    `hops` is A for who watches: a row for each hop, a column for each word.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        hidden: u, LSTM cells of one direction.
        attention: d_a, size of a query and of a key.
        hops: r, rows of A and of M.
        ffn_dim: hidden units of the classifier; 3000 for Yelp, 4000 for SNLI.
        pruned: [p, q]: connect each row of M to p hidden units and each column to q, in place of
            `ffn_dim` units that see all of M.
        penalty: w, the weight of P in the loss; 0 for none.
        reduction: of P over its entries: "sum" as printed, or "mean" as in the released code.
        dropout: on M and on the hidden units.
        score_dropout: on the states and on the keys, where they are scored.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 100,
        hidden: int = 300,
        attention: int = 350,
        hops: int = 30,
        ffn_dim: int = 2000,
        pruned: Sequence[int] | None = None,
        penalty: float = 1.0,
        reduction: str = "sum",
        dropout: float = 0.5,
        score_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_classes < 1 or hops < 1:
            raise RequestError(
                f"SelfAttentive expected a class and a hop or more, got num_classes={num_classes} "
                f"and hops={hops}"
            )
        if reduction not in REDUCTIONS:
            raise RequestError(
                f"SelfAttentive has no reduction {reduction!r}: {nearest(reduction, REDUCTIONS)}"
            )
        if pruned is not None and len(pruned) != 2:
            raise RequestError(
                "pruned: expected two numbers, hidden units for each row and for each column of M, "
                f"got {list(pruned)}"
            )
        self.vocab_size, self.num_classes = vocab_size, num_classes
        self.penalty, self.reduction = penalty, reduction
        self.dropout, self.score_dropout = dropout, score_dropout
        states = 2 * hidden
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.lstm = BiLSTM(embed, hidden, bias=True)
        self.key = nn.Linear(states, attention, bias=False)  # W_s1
        self.queries = nn.Parameter(torch.empty(hops, attention))  # W_s2
        nn.init.uniform_(self.queries, -(attention**-0.5), attention**-0.5)
        self.hops = Attention(score=Dot(), role="word")
        self.ffn: nn.Module
        if pruned is None:
            units = ffn_dim
            self.ffn = nn.Linear(hops * states, units)
        else:
            units = hops * pruned[0] + states * pruned[1]
            self.ffn = Pruned(hops, states, *pruned)
        self.output = nn.Linear(units, num_classes)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of sentences (B, T), or of `Inputs` with those."""
        penalized = self.training and self.penalty > 0
        sentence, weights, *_ = self.embedding(source, lengths, need_weights=penalized)
        logits = self.classify(sentence)
        if weights is None or not penalized:
            return Output(logits, {})
        each = penalization(weights, self.reduction)
        return Output(logits, {"penalty": self.penalty * each.mean()})

    def classify(
        self, sentence: Float[Tensor, "batch hop size"], *features: Float[Tensor, "batch _"]
    ) -> Float[Tensor, "batch classes"]:
        """The logits of M; features join the hidden units."""
        m = dropout(sentence, self.dropout, self.training)
        units = self.ffn(m) if isinstance(self.ffn, Pruned) else linear(self.ffn, m.flatten(1))
        hidden = dropout_relu(units, self.dropout, self.training)
        logits: Tensor = self.output(torch.cat([hidden, *features], -1) if features else hidden)
        return logits

    def embedding(
        self,
        source: Tensor | Inputs,
        lengths: Tensor | None = None,
        *,
        need_weights: bool = False,
    ) -> Attended:
        """Read sentences; their embeddings M are the `context` (B, r, 2u), A is the `weights`."""
        ids, lengths = unpacked(source, lengths)
        if ids.dim() != 2 or ids.is_floating_point():
            raise RequestError(
                "SelfAttentive expected sentences as ids (batch, words), "
                f"got {ids.dtype} of shape {tuple(ids.shape)}"
            )
        assert lengths is not None
        if not ids.shape[1]:  # not one word in the whole batch
            ids = F.pad(ids, (0, 1))
        states = self.lstm(self.embed(ids, states_of(source, ids)), lengths)  # H
        scored = dropout(states, self.score_dropout, self.training)
        keys = dropout(torch.tanh(self.key(scored)), self.score_dropout, self.training)
        queries = self.queries.expand(len(ids), -1, -1)
        memory = self.hops.remember(keys, states, mask=Lengths(lengths))
        looked: Attended = self.hops(queries, memory, need_weights=need_weights)
        return looked._replace(context=looked.context.to(states.dtype))


class SelfAttentivePair(nn.Module):
    """A classifier of pairs of sentences, each embedded as a matrix, by a gated encoder.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair; they join the hidden units.
        embed, hidden, attention, hops, ffn_dim, penalty, reduction: as in `SelfAttentive`; the
            defaults are the paper's for SNLI.
        dropout: on F and on the hidden units; the paper has none, the released command 0.5.
        score_dropout: on the states and on the keys, where they are scored.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        hidden: int = 300,
        attention: int = 150,
        hops: int = 30,
        ffn_dim: int = 4000,
        penalty: float = 0.3,
        reduction: str = "sum",
        dropout: float = 0.0,
        score_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.sentence = SelfAttentive(
            vocab_size,
            num_classes,
            embed=embed,
            hidden=hidden,
            attention=attention,
            hops=hops,
            ffn_dim=ffn_dim,
            penalty=penalty,
            reduction=reduction,
            dropout=dropout,
            score_dropout=score_dropout,
        )
        if num_features:
            self.sentence.output = nn.Linear(ffn_dim + num_features, num_classes)
        self.gate = GatedEncoder(hops, 2 * hidden)

    @property
    def embed(self) -> Embed:
        """The word vectors."""
        return self.sentence.embed

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary."""
        return self.sentence.vocab_size

    @property
    def num_classes(self) -> int:
        """Of the output."""
        return self.sentence.num_classes

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        own = self.sentence
        penalized = self.training and own.penalty > 0
        read = [
            own.embedding(source, given, need_weights=penalized)
            for source, given in ((first, lengths), (second, second_lengths))
        ]
        f = self.gate(*(attended.context for attended in read))
        logits = own.classify(f, *features_of(first, self.num_features, f))
        if not penalized:
            return Output(logits, {})
        each = [penalization(a.weights, own.reduction) for a in read if a.weights is not None]
        return Output(logits, {"penalty": own.penalty * torch.cat(each).mean()})
