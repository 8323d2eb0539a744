r"""CMLA: aspect and opinion terms tagged by two attentions that read each other's prototypes.

Wang, Pan, Dahlmeier and Xiao, "Coupled Multi-Layer Attentions for Co-Extraction of Aspect and
Opinion Terms", AAAI 2017.

    h_i     = GRU([e(w_{i-1}); e(w_i); e(w_{i+1})], h_{i-1})                 words in a window of 3
    f_i^a   = [tanh(h_i^T G^a_k m^a); tanh(h_i^T D^a_k m^o)]                 K slices k each
    f_i^o   = [tanh(h_i^T G^o_k m^o); tanh(h_i^T D^o_k m^a)]
    r_i     = GRU(f_i, r_{i-1}),   α = softmax_i(v^T r_i),   o = Σ_i α_i h_i     of a, and of o
    m'      = tanh(m M) + o                                                  for the next layer
    y_i     = softmax(W Σ_l r_i^l + b)                                       sum over the layers

m^a and m^o are learned in the first layer. All layers have the same G, D, v and M. The last layer's
prototypes are not read. Tags come from r; the weights α only make the next prototypes.

Shapes: source (B, T) ids; logits of aspects (B, T, num_tags), `extra["auxiliary"]` of opinions
(B, T, num_auxiliary); at padding they mean nothing.

**Departs from the paper**: word vectors start at random (paper: pretrained). Nothing stands beyond
a sentence: its window has zeros there. As in the released code, dropout is of input weights (the
encoder's and the tensors G and D); one mask serves a whole batch (the code reads one sentence at a
time). `activation="identity"` leaves out the tanh around the tensor products, as that code does.
The gated units have the reset gate before the recurrent product; the paper does not print them.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Lengths
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.rnn import GRU
from regard.models._tagging import WordBatch
from regard.protocols import Inputs, Output

__all__ = ["ACTIVATIONS", "CMLA", "CoupledAttention"]

Products = Callable[[Tensor], Tensor]
ACTIVATIONS: Mapping[str, Products] = {"tanh": torch.tanh, "identity": lambda x: x}
"""What is around the tensor products: that of the paper, or nothing, as released."""


class CoupledAttention(nn.Module):
    """One of the two: what it knows of each word, and the next prototype.

    Args:
        hidden: size of h and of a prototype.
        slices: K.
        activation: one of `ACTIVATIONS`.
        dropout: of G and D in training.

    Shapes:
        states (B, T, H), the own and the other prototype (B, H) to features r (B, T, 2K) and the
        next own prototype (B, H)
    """

    def __init__(self, hidden: int, slices: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise RequestError(
                f"CMLA has no activation {activation!r}: {nearest(activation, ACTIVATIONS)}"
            )
        self.activation, self.dropout = activation, dropout
        self.prototype = nn.Parameter(torch.empty(hidden))  # m of the first layer
        self.own = nn.Parameter(torch.empty(slices, hidden, hidden))  # G
        self.other = nn.Parameter(torch.empty(slices, hidden, hidden))  # D
        self.start = nn.Parameter(torch.empty(2 * slices))  # r_0
        self.gru = GRU(2 * slices, 2 * slices, bias=False)
        self.query = nn.Parameter(torch.empty(2 * slices))  # v
        self.attention = Attention(Dot(), role="word")
        self.update = nn.Parameter(torch.empty(hidden, hidden))  # M

    def forward(
        self,
        states: Float[Tensor, "batch time hidden"],
        own: Float[Tensor, "batch hidden"],
        other: Float[Tensor, "batch hidden"],
        batch: WordBatch,
    ) -> tuple[Float[Tensor, "batch time features"], Float[Tensor, "batch hidden"]]:
        """One layer."""
        products = [
            torch.einsum("bth,bkh->btk", states, torch.einsum("khj,bj->bkh", self._kept(g), m))
            for g, m in ((self.own, own), (self.other, other))
        ]
        f = ACTIVATIONS[self.activation](torch.cat(products, -1))
        start = self.start.to(f.dtype).expand(len(f), -1)
        r, _ = self.gru(f, batch.lengths, start)
        query = self.query.to(r.dtype).expand(len(r), 1, -1)
        read = self.attention(query, r, states, mask=Lengths(batch.lengths)).context[:, 0]
        return r, torch.tanh(own @ self.update) + read

    def _kept(self, weight: Tensor) -> Tensor:
        return dropout(weight, self.dropout, self.training)


class CMLA(nn.Module):
    """A tagger of aspects and, beside them, of opinions.

    Args:
        vocab_size: size of the vocabulary.
        num_tags: of aspects.
        num_auxiliary: tags of opinions.
        embed: size of a word vector.
        window: words that are read together; an odd number.
        hidden: of the encoder, and of a prototype.
        slices: K, of each of the four tensors.
        layers: of attention.
        activation: one of `ACTIVATIONS`.
        dropout: of input weights in training.

    Example:
        >>> output = CMLA(50, 3, embed=8, hidden=6, slices=2)(torch.tensor([[7, 8, 9]]))
        >>> output.logits.shape, output.extra["auxiliary"].shape
        (torch.Size([1, 3, 3]), torch.Size([1, 3, 3]))
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_tags: int,
        num_auxiliary: int = 3,
        *,
        embed: int = 200,
        window: int = 3,
        hidden: int = 50,
        slices: int = 20,
        layers: int = 2,
        activation: str = "tanh",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if window % 2 == 0:
            raise RequestError(f"expected an odd number of words together, got window={window}")
        self.vocab_size, self.num_tags, self.num_auxiliary = vocab_size, num_tags, num_auxiliary
        self.window, self.layers, self.dropout = window, layers, dropout
        self.gru = GRU(window * embed, hidden)
        self.start = nn.Parameter(torch.empty(hidden))  # h_0
        self.aspects, self.opinions = (
            CoupledAttention(hidden, slices, activation=activation, dropout=dropout)
            for _ in range(2)
        )
        self.output = nn.Linear(2 * slices, num_tags)
        self.auxiliary = nn.Linear(2 * slices, num_auxiliary)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.2, 0.2)
        self.embed = Embed(vocab_size, embed)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sentences: logits (B, T, num_tags) of aspects."""
        batch = WordBatch.of(source, lengths)
        h = self._encode(batch)
        m = [
            side.prototype.to(h.dtype).expand(len(h), -1) for side in (self.aspects, self.opinions)
        ]
        aspects = opinions = h.new_zeros(*h.shape[:2], self.output.in_features)
        for _ in range(self.layers):
            of_aspects, one = self.aspects(h, m[0], m[1], batch)
            of_opinions, two = self.opinions(h, m[1], m[0], batch)
            aspects, opinions, m = aspects + of_aspects, opinions + of_opinions, [one, two]
        auxiliary = batch.cut(linear(self.auxiliary, opinions))
        return Output(batch.cut(linear(self.output, aspects)), {"auxiliary": auxiliary})

    def _encode(self, batch: WordBatch) -> Float[Tensor, "batch time hidden"]:
        """The states h of words, each read with its neighbors."""
        side = self.window // 2
        around = F.pad(batch.ids, (side, side)).unfold(1, self.window, 1)
        x = self.embed(around).flatten(2)
        weight = dropout(self.gru.input.weight, self.dropout, self.training)
        gates = F.linear(x, weight, self.gru.input.bias)
        start = self.start.expand(len(x), -1)
        states = self.gru.recurrent.sequence(gates, start).to(gates.dtype)
        return states * batch.real[..., None]
