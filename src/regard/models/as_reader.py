r"""The Attention Sum reader. Kadlec, Schmid, Bajgar and Kleindienst, ACL 2016, arXiv 1603.01547.

"Text Understanding with the Attention Sum Reader Network".

    d_i = [→f_i ; ←f_i]              a bidirectional GRU over the document
    u   = [→g_|Q| ; ←g_1]            another one over the query: its two last states
    s_i = softmax_i(d_i · u)         the attention is the answer
    P(w | D, Q) = Σ_{i: D_i = w} s_i

The sum over the places of a word is the task's: the model points at places. For answers of several
words there are two pointers, at the first and at the last place (Wang and Jiang 2017, "boundary"):

    s^k_i = softmax_i((W^k d_i) · u)                                                 k = 1, 2

Shapes: documents (B, T), queries (B, Q), hidden H; d (B, T, 2H); log-probabilities (B, T), with two
pointers (B, 2, T), minus infinity at padding.

**Departs from the paper**: dropout (on word vectors and states; the paper has none). One bias
vector a gate. Recurrent matrices start orthogonal and word vectors uniform within ±0.05, both as in
Cui et al. (2017); the matrices on word vectors, and biases, start as those of `torch.nn.Linear`.
`reset="after"` puts the reset gate behind the product with U, as PyTorch does: another function,
which our recipes have.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Dot, Lengths, Pointer
from regard.errors import RequestError
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.rnn import BiGRU
from regard.protocols import Output, lengths_of

__all__ = ["ASReader", "Read"]

Read = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""States of document and query, lengths of both, and the query's last states (B, 2H)."""


class SumPointer(nn.Module):
    """One look at the document from the query's last states.

    Args:
        states: size of a state, 2H.
        project: a matrix W on the document's states (where there are several pointers).
    """

    def __init__(self, states: int, project: bool) -> None:
        super().__init__()
        self.project = nn.Linear(states, states, bias=False) if project else nn.Identity()
        self.document = Attention(score=Dot(), read=Pointer(), role="answer")

    def forward(self, read: Read) -> Float[Tensor, "batch places"]:
        """Log-probabilities of places."""
        document, _, lengths, _, summary = read
        looked = self.document(summary[:, None], self.project(document), mask=Lengths(lengths))
        assert looked.log_prob is not None
        log_s: Tensor = looked.log_prob[:, 0]
        return log_s


class ASReader(nn.Module):
    """Points at the places of a document where the answer to a query stands.

    Args:
        vocab_size: size of the vocabulary.
        num_pointers: 1 for a word, 2 for the first and the last word of a span.
        embed: size of a word vector.
        hidden: H, of one direction.
        dropout: on word vectors and on states.
        shared: document and query are read by the same GRUs.
        reset: the reset gate "before" U as Cho et al. (2014) print it, or "after".
    """

    normalized = True
    pointer: type[nn.Module] = SumPointer

    def __init__(
        self,
        vocab_size: int,
        num_pointers: int = 1,
        *,
        embed: int = 384,
        hidden: int = 256,
        dropout: float = 0.0,
        shared: bool = False,
        reset: str = "before",
    ) -> None:
        super().__init__()
        if num_pointers < 1:
            raise RequestError(f"a reader expected 1 pointer or more, got {num_pointers}")
        self.vocab_size, self.num_pointers, self.dropout = vocab_size, num_pointers, dropout
        self.embed = Embed(vocab_size, embed, dropout=dropout)
        nn.init.uniform_(self.embed.weight, -0.05, 0.05)
        self.embed.silence()
        self.document = BiGRU(embed, hidden, reset=reset)
        self.query = self.document if shared else BiGRU(embed, hidden, reset=reset)
        made = type(self).pointer
        self.pointers = nn.ModuleList(
            made(2 * hidden, num_pointers > 1) for _ in range(num_pointers)
        )

    def forward(
        self,
        document: Int[Tensor, "batch places"],
        query: Int[Tensor, "batch words"],
        lengths: Int[Tensor, " batch"] | None = None,
        query_lengths: Int[Tensor, " batch"] | None = None,
    ) -> Output:
        """Log-probabilities of places: (B, T), or (B, pointers, T) where there are several."""
        read = self.read(document, query, lengths, query_lengths)
        found = [pointer(read) for pointer in self.pointers]
        return Output(found[0] if self.num_pointers == 1 else torch.stack(found, 1), {})

    def read(
        self,
        document: Int[Tensor, "batch places"],
        query: Int[Tensor, "batch words"],
        lengths: Int[Tensor, " batch"] | None = None,
        query_lengths: Int[Tensor, " batch"] | None = None,
    ) -> Read:
        """Read both from both ends."""
        lengths = lengths_of(document, lengths)
        query_lengths = lengths_of(query, query_lengths)
        d, _, _ = self.document(self.embed(document), lengths)
        q, ahead, back = self.query(self.embed(query), query_lengths)
        summary = torch.cat([ahead, back], -1).to(q.dtype)
        d, q, summary = (dropout(x, self.dropout, self.training) for x in (d, q, summary))
        return d, q, lengths, query_lengths, summary
