r"""Reasoning about entailment with neural attention.

Rocktäschel, Grefenstette, Hermann, Kočiský and Blunsom, ICLR 2016, arXiv 1509.06664.

    y_1 … y_L = LSTM(premise),   h_1 … h_N = LSTM'(hypothesis), whose cells start as c_L
    "none":          h* = h_N                              conditional encoding
    "final":         M  = tanh(W^y Y + W^h h_N ⊗ e_L)      once, at the end             (7-11)
                     α  = softmax(w^T M),  r = Y α^T,  h* = tanh(W^p r + W^x h_N)
    "word-by-word":  M_t = tanh(W^y Y + (W^h h_t + W^r r_{t-1}) ⊗ e_L)                 (12-15)
                     α_t = softmax(w^T M_t),  r_t = Y α_t^T + tanh(W^t r_{t-1}),  r_0 = 0
                     h*  = tanh(W^p r_N + W^x h_N)
    two-way:         h* of both orders with the same weights, concatenated
    y = W_o h* + b_o

M is the hidden layer of an additive score with the keys y_j: its query is h_N, or [h_t; r_{t-1}]
with the joined matrix [W^h W^r]. W^y Y is computed once for each premise. Behind the end of a
hypothesis r stays as it is, and nothing is looked at.

Shapes: premises (B, T), hypotheses (B, U); Y (B, T, k); α (B, 1, T) once, or at each of U steps;
logits (B, num_classes).

**Departs from the paper**: word vectors start at random; the paper's are word2vec and fixed (the
task can load and freeze them). The projection of word vectors has a bias, which gives the paper's
numbers of parameters. Each gate of an LSTM has two bias vectors, as in PyTorch. There is no
delimiter between the sentences: the hypothesis starts with the output 0 and the cells c_L. Dropout
is on the inputs and the outputs of the LSTMs. A premise without words gives c_L = 0 and is read
as zeros; a hypothesis without words gives h_N = 0 and r_N = 0.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Additive, Attention, Lengths
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.lstm import LSTM
from regard.models._sentence import Head, features_of, words_of
from regard.protocols import Inputs, Output, QueryKeyTexts, states_of

__all__ = ["WordByWord"]

Cells = tuple[Float[Tensor, "batch 1 k"], Float[Tensor, "batch 1 k"]]


class Conditional(nn.Module):
    """No attention: the last state of the hypothesis.

    Args:
        k: size of a state.
    """

    def __init__(self, k: int) -> None:
        super().__init__()

    def forward(
        self,
        premise: Float[Tensor, "batch t k"],
        states: Float[Tensor, "batch u k"],
        last: Float[Tensor, "batch k"],
        lengths: Int[Tensor, " batch"],
        second_lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch k"]:
        """Return h_N."""
        return last


class Final(nn.Module):
    """One look at the premise, with the last state of the hypothesis; `premise` for who watches.

    Args:
        k: size of a state.
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {"premise": (None, 0)}

    def __init__(self, k: int) -> None:
        super().__init__()
        self.premise = Attention(Additive(k, k, k), role="cross")
        self.read = nn.Linear(k, k, bias=False)  # W^p
        self.state = nn.Linear(k, k, bias=False)  # W^x

    def forward(
        self,
        premise: Float[Tensor, "batch t k"],
        states: Float[Tensor, "batch u k"],
        last: Float[Tensor, "batch k"],
        lengths: Int[Tensor, " batch"],
        second_lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch k"]:
        """Equations 7 to 11."""
        r = self.premise(last[:, None], premise, mask=Lengths(lengths)).context[:, 0]
        return self.joined(r, last)

    def joined(self, r: Tensor, last: Tensor) -> Float[Tensor, "batch k"]:
        """The representation of the pair."""
        return torch.tanh(self.read(r.to(last.dtype)) + self.state(last))


class EveryWord(Final):
    """A look at the premise with each word of the hypothesis; `premise` for who watches.

    Args:
        k: size of a state.
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {"premise": (1, 0)}

    def __init__(self, k: int) -> None:
        super().__init__(k)
        self.premise = Attention(Additive(2 * k, k, k), role="cross")  # its query: [W^h W^r]
        self.carry = nn.Linear(k, k, bias=False)  # W^t

    def forward(
        self,
        premise: Float[Tensor, "batch t k"],
        states: Float[Tensor, "batch u k"],
        last: Float[Tensor, "batch k"],
        lengths: Int[Tensor, " batch"],
        second_lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch k"]:
        """Equations 12 to 15, a step for each word of the hypothesis."""
        memory = self.premise.remember(premise)
        steps = torch.arange(states.shape[1], device=states.device)
        live = steps[:, None] < second_lengths  # (U, B)
        r = torch.zeros_like(last)
        for there, mask, h in zip(live, live * lengths, states.unbind(1), strict=True):
            query = torch.cat([h, r], -1)[:, None]
            read = self.premise(query, memory, mask=Lengths(mask)).context[:, 0]
            new = read.to(r.dtype) + torch.tanh(self.carry(r)).to(r.dtype)
            r = torch.where(there[:, None], new, r)
        return self.joined(r, last)


ATTENTIONS: Mapping[str, type[nn.Module]] = {
    "none": Conditional,
    "final": Final,
    "word-by-word": EveryWord,
}
"""How the hypothesis looks at the premise."""


class WordByWord(nn.Module):
    """A classifier of pairs that reads the hypothesis knowing the premise.

    `attention.premise` is α for who watches: once, or a step for each word of the hypothesis.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to what the last layer reads.
        embed: size of a word vector.
        hidden: k, size of a projected word vector and of a state.
        attention: "none", "final" or "word-by-word".
        shared: one LSTM reads both sentences, not one each.
        two_way: each sentence is also read knowing the other in the other order.
        dropout: on the inputs and the outputs of the LSTMs.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        hidden: int = 100,
        attention: str = "word-by-word",
        shared: bool = False,
        two_way: bool = False,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        if attention not in ATTENTIONS:
            raise RequestError(
                f"WordByWord has no attention {attention!r}: {nearest(attention, ATTENTIONS)}"
            )
        self.vocab_size, self.num_classes, self.num_features = vocab_size, num_classes, num_features
        self.two_way, self.dropout = two_way, dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.project = nn.Linear(embed, hidden)
        self.premise = LSTM(hidden, hidden, bias=True)
        self.hypothesis = self.premise if shared else LSTM(hidden, hidden, bias=True)
        self.attention = ATTENTIONS[attention](hidden)
        self.head = Head((1 + two_way) * hidden + num_features, num_classes)

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        a, b = self._words(first, lengths), self._words(second, second_lengths)
        joined = [self._paired(*a, *b)]
        if self.two_way:
            joined.append(self._paired(*b, *a))
        joined += features_of(first, self.num_features, joined[0])
        return Output(self.head(torch.cat(joined, -1)), {})

    def _words(
        self, source: Tensor | Inputs, lengths: Tensor | None
    ) -> tuple[Float[Tensor, "batch time k"], Int[Tensor, " batch"]]:
        """Projected word vectors and how many there are."""
        ids, lengths = words_of(source, lengths)
        x = self.embed(ids, states_of(source, ids))
        return dropout(linear(self.project, x), self.dropout, self.training), lengths

    def _paired(
        self, a: Tensor, lengths: Tensor, b: Tensor, second_lengths: Tensor
    ) -> Float[Tensor, "batch k"]:
        """h* of hypotheses b that are read knowing the premises a."""
        y, (_, cells) = self.premise(a, lengths)
        cells = cells * (lengths > 0)[:, None, None]  # an LSTM reads one word at least
        start = torch.zeros_like(cells), cells
        states, (end, _) = self.hypothesis(b, second_lengths, start)
        last = end[:, -1] * (second_lengths > 0)[:, None]
        y, states, last = (dropout(x, self.dropout, self.training) for x in (y, states, last))
        found: Tensor = self.attention(y, states, last, lengths, second_lengths)
        return found
