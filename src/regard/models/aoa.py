r"""Attention over attention. Cui, Chen, Wei, Wang, Liu and Hu, ACL 2017, arXiv 1607.04423.

"Attention-over-Attention Neural Networks for Reading Comprehension".

    M_ij = h_doc(i)^T h_query(j)
    α(j) = softmax_i(M_1j, …, M_|D|j)        for each query word, over the document
    β(i) = softmax_j(M_i1, …, M_i|Q|)        for each place of the document, over the query
    β̄    = 1/|D| Σ_i β(i)
    s    = Σ_j α(j) β̄_j                      the attended attention
    P(w | D, Q) = Σ_{i: D_i = w} s_i         which is the task's

One matrix of scores is looked at along both axes: two attentions with the same queries and keys, of
which one selects over keys and the other over queries. How much each query word counts is thus
found, where the Attention Sum reader takes the query's last states for the whole of it.

Shapes: documents (B, T), queries (B, Q); α and β (B, Q, T); s (B, T), in log space.

**Departs from the paper**: dropout on the states as well as on word vectors. Two pointers for spans
are ours (each with a matrix W^k on the document's states). One bias vector a gate. Recurrent
matrices start orthogonal and word vectors uniform within ±0.05, as printed; the matrices on word
vectors, and biases, start as those of `torch.nn.Linear`. `reset="after"` is another function, which
our recipes have (see `as_reader`).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, Dot, Lengths, OverQueries, Pointer
from regard.models.as_reader import ASReader, Read

__all__ = ["AoA", "attended"]


class Given:
    """Scores that are there already, as queries: (B, 1, T)."""

    def prepare(self, key: Tensor) -> Tensor:
        """Leave the keys."""
        return key

    def __call__(
        self, query: Tensor, key: Tensor, *, at: int | Tensor = 0, features: Tensor | None = None
    ) -> Tensor:
        """The query itself."""
        return query

    def __repr__(self) -> str:
        return "Given()"


class AttendedPointer(nn.Module):
    """One look at the document by attention over attention.

    `document` is α, `query` is β and `attended` is s for who watches.

    Args:
        states: size of a state, 2H.
        project: a matrix W on the document's states (where there are several pointers).
    """

    def __init__(self, states: int, project: bool) -> None:
        super().__init__()
        self.project = nn.Linear(states, states, bias=False) if project else nn.Identity()
        self.document = Attention(score=Dot(), read=Pointer(), role="document")
        self.query = Attention(score=Dot(), select=OverQueries(), role="query")
        self.attended = Attention(score=Given(), read=Pointer(), role="answer")

    def forward(self, read: Read) -> Float[Tensor, "batch places"]:
        """Log-probabilities of places."""
        document, query, lengths, query_lengths, _ = read
        key, real = self.project(document), Lengths(lengths)
        words = torch.arange(query.shape[1], device=query.device) < query_lengths[:, None]
        alpha = self.document(query, key, mask=real).log_prob
        beta = self.query(query, key, mask=real & words[..., None], need_weights=True).weights
        assert alpha is not None
        assert beta is not None
        scores = attended(alpha, beta, lengths, words)[:, None]
        found = self.attended(scores, key, mask=real).log_prob
        assert found is not None
        log_s: Tensor = found[:, 0]
        return log_s


def attended(
    alpha: Float[Tensor, "batch words places"],
    beta: Float[Tensor, "batch words places"],
    lengths: Tensor,
    words: Tensor,
) -> Float[Tensor, "batch places"]:
    r"""The logarithm of the attended attention, :math:`\log \sum_j \alpha_{ij} \bar\beta_j`.

    Padding gets the lowest finite number: it has no logarithm and is masked afterwards.

    Args:
        alpha: log α.
        beta: β, zero at padding of either side.
        lengths: |D| of each document (B,).
        words: where queries are no padding (B, Q).

    Source: Cui et al. (2017), section 3.
    """
    lowest = torch.finfo(alpha.dtype).min / 4
    mean = beta.sum(-1) / lengths.clamp_min(1)[:, None]  # (B, Q), by the true length
    log_mean = mean.clamp_min(torch.finfo(mean.dtype).tiny).log().masked_fill(~words, lowest)
    return torch.logsumexp(alpha.clamp_min(lowest) + log_mean[..., None], 1)


class AoA(ASReader):
    """Points at the places where the answer stands, by attention over attention.

    Args:
        source, target, embed, hidden, dropout, shared, reset: as in `ASReader`; the paper's dropout
            is 0.1, its sizes are 384 and 256 (CNN) or 384 and 384 (Children's Book Test).
    """

    pointer = AttendedPointer

    def __init__(
        self,
        vocab_size: int,
        num_pointers: int = 1,
        *,
        embed: int = 384,
        hidden: int = 256,
        dropout: float = 0.1,
        shared: bool = False,
        reset: str = "before",
    ) -> None:
        super().__init__(
            vocab_size,
            num_pointers,
            embed=embed,
            hidden=hidden,
            dropout=dropout,
            shared=shared,
            reset=reset,
        )
