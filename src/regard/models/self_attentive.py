r"""Structured self-attentive sentence embedding.

Lin, Feng, dos Santos, Yu, Xiang, Zhou and Bengio, "A Structured Self-Attentive Sentence Embedding",
ICLR 2017, arXiv 1703.03130.

    h_t = [→h_t ; ←h_t]                          a bidirectional LSTM, H = (h_1, …, h_n)     (1-4)
    A   = softmax(W_s2 tanh(W_s1 H^T))           r hops, each a distribution over the words    (6)
    M   = A H                                    the sentence: a matrix of r vectors           (7)
    P   = ‖A A^T - I‖_F²                         penalty: hops differ, and each looks at few   (8)
    y   = W_o relu(W_f vec(M) + b_f) + b_o       loss = cross-entropy + w mean(P)
    pruned (appendix A): row i of M feeds p hidden units of its own, column j feeds q of its own

W_s1 and W_s2 have no biases. The rows of W_s2 are r learned queries, tanh(W_s1 h_t) are the keys
and h_t the values: attention with a dot-product score, which fused kernels compute. The softmax
runs over the words of the sentence; padding is masked before it.

Shapes: source (B, T) ids; states H (B, T, 2u); A (B, r, T), M (B, r, 2u); logits
(B, num_classes). The weighted mean of P over the batch is in `Output.extra["penalty"]` while
training, if `penalty` is above 0.

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
from regard.protocols import Inputs, Output, unpacked

__all__ = ["Pruned", "SelfAttentive", "penalization"]

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
        self.embed = Embed(vocab_size, embed)
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
        m = dropout(sentence, self.dropout, self.training)
        units = self.ffn(m) if isinstance(self.ffn, Pruned) else linear(self.ffn, m.flatten(1))
        logits = self.output(dropout_relu(units, self.dropout, self.training))
        if weights is None or not penalized:
            return Output(logits, {})
        each = penalization(weights, self.reduction)
        return Output(logits, {"penalty": self.penalty * each.mean()})

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
        states = self.lstm(self.embed(ids), lengths)  # H
        scored = dropout(states, self.score_dropout, self.training)
        keys = dropout(torch.tanh(self.key(scored)), self.score_dropout, self.training)
        queries = self.queries.expand(len(ids), -1, -1)
        memory = self.hops.remember(keys, states, mask=Lengths(lengths))
        looked: Attended = self.hops(queries, memory, need_weights=need_weights)
        return looked._replace(context=looked.context.to(states.dtype))
