r"""Attention-based bidirectional LSTM: a sentence with two marked words, and their relation.

Zhou, Shi, Tian, Qi, Li, Hao and Xu, "Attention-Based Bidirectional Long Short-Term Memory Networks
for Relation Classification", ACL 2016, P16-2034.

    h_t = →h_t + ←h_t                  a bidirectional LSTM, the directions added; H = (h_1, …, h_T)
    M   = tanh(H)
    α   = softmax(wᵀ M)                which words say the relation
    r   = H αᵀ
    s   = tanh(r)
    y   = W s + b                      the logits of the relations

The marks of the two words are tokens of the sentence: `<e1>`, `</e1>`, `<e2>` and `</e2>`. w is a
learned query, tanh(h_t) are the keys and h_t the values: attention with a dot-product score.
Padding is masked before the softmax.

Shapes: source (B, T) ids; H (B, T, hidden); α (B, 1, T); logits (B, num_classes).

**Departs from the paper**: the LSTM has no peepholes, and two bias vectors a gate, as in PyTorch.
Word vectors start at random (paper: GloVe of 100 numbers; `data.vectors` reads them). A direction
has as many cells as a word vector has numbers, unless told otherwise. Weights start as PyTorch's
layers do. A sentence without words has r = 0. Adding squared weights to the loss is
the optimizer's part.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, Dot, Lengths
from regard.catalog.parts import Chosen, chosen
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.models._sentence import Head, SentenceClassifier, words_of
from regard.protocols import Inputs, states_of

__all__ = ["AttBLSTM", "AttendedBLSTM"]


class AttendedBLSTM(nn.Module):
    """The encoder: (B, T) ids to s (B, hidden).

    Args:
        vocab_size: size of the vocabulary.
        embed: size of a word vector.
        hidden: LSTM cells of one direction.
        embed_dropout: on word vectors.
        lstm_dropout: on the states H.
        attention: parts in the place of the paper's.
    """

    def __init__(
        self,
        vocab_size: int,
        embed: int,
        hidden: int,
        embed_dropout: float,
        lstm_dropout: float,
        attention: Chosen | None = None,
    ) -> None:
        super().__init__()
        self.embed_dropout, self.lstm_dropout, self.size = embed_dropout, lstm_dropout, hidden
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.lstm = BiLSTM(embed, hidden, bias=True)
        self.query = nn.Parameter(torch.empty(hidden))  # w
        nn.init.uniform_(self.query, -(hidden**-0.5), hidden**-0.5)
        own = Attention(score=Dot(), role="word")
        self.attention = chosen(own, attention, query=hidden, key=hidden, hidden=hidden)

    def forward(self, source: Inputs) -> Float[Tensor, "batch hidden"]:
        """Read each sentence."""
        ids, lengths = words_of(source)
        x = dropout(self.embed(ids, states_of(source, ids)), self.embed_dropout, self.training)
        ahead, back = self.lstm(x, lengths).chunk(2, -1)
        states = dropout(ahead + back, self.lstm_dropout, self.training)  # H
        query = self.query.to(states.dtype).expand(len(ids), 1, -1)
        memory = self.attention.remember(torch.tanh(states), states, mask=Lengths(lengths))
        read: Tensor = self.attention(query, memory).context[:, 0]
        return torch.tanh(read.to(states.dtype))


class AttBLSTM(SentenceClassifier):
    """A classifier of the relation between two marked words of a sentence.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        hidden: LSTM cells of one direction, size of w.
        embed_dropout: on word vectors.
        lstm_dropout: on the states.
        dropout: on s, before the output.
        attention: parts in the place of the paper's, as `{score: general, select: sparsemax}`; see
            `catalog.parts`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 100,
        hidden: int = 100,
        embed_dropout: float = 0.3,
        lstm_dropout: float = 0.3,
        dropout: float = 0.5,
        attention: Chosen | None = None,
    ) -> None:
        encoder = AttendedBLSTM(vocab_size, embed, hidden, embed_dropout, lstm_dropout, attention)
        super().__init__(encoder, Head(encoder.size, num_classes, dropout=dropout))
