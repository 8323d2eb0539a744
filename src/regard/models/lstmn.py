r"""Long short-term memory-network. Cheng, Dong and Lapata, EMNLP 2016, arXiv 1601.06733.

"Long Short-Term Memory-Networks for Machine Reading". A cell keeps a slot for each word it has read
and attends to all of them, where an LSTM has its last state alone.

    a_i = v^T tanh(W_h h_i + W_x x_t + W_h̃ h̃_{t-1}),  s = softmax_i(a)         intra-attention
    [h̃_t; c̃_t] = Σ_i s_i [h_i; c_i]                                            i < t
    i, f, o = σ(W [h̃_t; x_t] + b),  ĉ = tanh(W_c [h̃_t; x_t] + b_c)
    c_t = f ⊙ c̃_t + i ⊙ ĉ,   h_t = o ⊙ tanh(c_t)
    one sentence:  y = head(mean_t h_t)
    two, with the slots γ_j (hidden) and α_j (memory) of the first:
    "shallow":  p = softmax_j(u^T tanh(W_γ γ_j + W_q h_t)),  h'_t = tanh(W_s [h_t; Σ_j p_j γ_j])
    "deep":     b_j = u^T tanh(W_γ γ_j + W_x x_t + W_γ̃ γ̃_{t-1}),  p = softmax_j(b)
                [γ̃_t; α̃_t] = Σ_j p_j [γ_j; α_j],  r = σ(W_r [γ̃_t; x_t] + b_r)
                c_t = r ⊙ α̃_t + f ⊙ c̃_t + i ⊙ ĉ,  h'_t = o ⊙ tanh(c_t)
    y = head([mean_j γ_j; mean_t h'_t])

The gates read h̃_t, never h_{t-1}. A word does not look at itself. Before the first word there is a
slot of zeros, as in the released code, or, reading the second sentence, the last one of the first.

Shapes: sentences (B, T) and (B, U) ids; s (B, 1, t) at step t, p (B, 1, T) at each of U steps, or
(B, U, T) at once; logits (B, num_classes).

**Departs from the paper**: word vectors start at random (paper: GloVe; the task can load and freeze
them). The released encoder leaves W_h̃ h̃_{t-1} out; the equation has it. How shallow fusion joins
h_t and what it found is our choice. Layers are stacked without skip connections. A sentence without
words has the mean 0, and nothing is found in it.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Additive, Attention, Lengths
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.pool import mean_pool
from regard.layers.rnn import last
from regard.layers.tape import TapeLSTM, TapeRead
from regard.models._sentence import Head, SentenceClassifier, features_of, words_of
from regard.protocols import Inputs, Output, QueryKeyTexts, states_of

__all__ = ["LSTMNClassifier", "LSTMNPair"]


class LSTMNSentence(nn.Module):
    """The mean of the states of a sentence.

    Args:
        vocab_size: size of the vocabulary.
        embed, hidden, layers, dropout: see `LSTMNClassifier`.

    Shapes:
        ids (B, T) to (B, hidden)
    """

    def __init__(
        self, vocab_size: int, *, embed: int, hidden: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        if layers < 1:
            raise RequestError(f"LSTMN expected a layer or more, got layers={layers}")
        self.dropout = dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        sizes = [embed, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(TapeLSTM(size, hidden) for size in sizes)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """Read sentences."""
        x, lengths = _words(self.embed, source)
        reading = TapeRead.right(lengths, x.shape[1])
        for layer in self.layers:
            x, _ = layer(dropout(x, self.dropout, self.training), reading)
        return mean_pool(x, lengths)


class LSTMNClassifier(SentenceClassifier):
    """A classifier of sentences read with a tape.

    `encoder.layers.K.tape` is s for who watches, a step for each word.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        hidden: size of a slot.
        layers: of cells.
        ffn_dim: hidden units of the classifier.
        dropout: on the inputs of every layer and of the classifier's.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 300,
        hidden: int = 168,
        layers: int = 1,
        ffn_dim: int = 168,
        dropout: float = 0.5,
    ) -> None:
        encoder = LSTMNSentence(
            vocab_size, embed=embed, hidden=hidden, layers=layers, dropout=dropout
        )
        super().__init__(encoder, Head(hidden, num_classes, ffn_dim=ffn_dim, dropout=dropout))


class Shallow(nn.Module):
    """The second sentence is read by itself, and each state looks at the first.

    `decoder.tape` and `cross` are s and p for who watches.

    Args:
        inputs: size of a word vector.
        hidden: size of a slot.

    Shapes:
        x (B, U, inputs), slots of the first sentence (B, T, hidden) to states (B, U, hidden)
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {
        "decoder.tape": (1, 1),
        "cross": (1, 0),
    }

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.decoder = TapeLSTM(inputs, hidden)
        self.cross = Attention(Additive(hidden, hidden, hidden), role="cross")
        self.join = nn.Linear(2 * hidden, hidden)  # W_s

    def forward(
        self,
        x: Float[Tensor, "batch u inputs"],
        reading: TapeRead,
        hidden: Float[Tensor, "batch t hidden"],
        cells: Float[Tensor, "batch t hidden"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch u hidden"]:
        """Read the second sentence."""
        states, _ = self.decoder(x, reading, _end(hidden, cells, lengths))
        found = self.cross(states, hidden, mask=Lengths(lengths)).context
        return torch.tanh(linear(self.join, torch.cat([states, found.to(states.dtype)], -1)))


class Deep(nn.Module):
    """Each cell reads the tapes of both sentences; arguments and shapes as of `Shallow`."""

    query_key_texts: ClassVar[QueryKeyTexts] = {
        "decoder.tape": (1, 1),
        "cross": (1, 0),
    }

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.decoder = TapeLSTM(inputs, hidden)
        self.cross = Attention(Additive(inputs + hidden, hidden, hidden), role="cross")
        self.input = nn.Linear(inputs, hidden)  # W_r, of x and of what was found
        self.found = nn.Linear(hidden, hidden, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch u inputs"],
        reading: TapeRead,
        hidden: Float[Tensor, "batch t hidden"],
        cells: Float[Tensor, "batch t hidden"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch u hidden"]:
        """Read the second sentence."""
        decoder = self.decoder
        tape = decoder.start(*_end(hidden, cells, lengths))
        memory = self.cross.remember(hidden, torch.cat([hidden, cells], -1))
        gates, shares, words = (
            y.unbind(1) for y in (linear(decoder.input, x), linear(self.input, x), x)
        )
        gamma, states = torch.zeros_like(hidden[:, 0]), list[Tensor]()
        everyone = torch.ones_like(lengths, dtype=torch.bool)
        live = [everyone] * x.shape[1] if reading.live is None else reading.live.unbind()
        for t, there in enumerate(live):
            query = torch.cat([words[t], gamma.to(x.dtype)], -1)[:, None]
            read = self.cross(query, memory, mask=Lengths(lengths * there)).context[:, 0]
            gamma, alpha = read.to(hidden.dtype).chunk(2, -1)
            r = torch.sigmoid(shares[t] + self.found(gamma))
            summary, kept = decoder.look(words[t], tape, reading.masks[t])
            i, f, g, o = (gates[t] + decoder.recurrent(summary)).chunk(4, -1)
            c = r * alpha + torch.sigmoid(f) * kept + torch.sigmoid(i) * torch.tanh(g)
            c = c.to(hidden.dtype)
            h = (torch.sigmoid(o) * torch.tanh(c)).to(hidden.dtype)
            tape = decoder.write(tape, h, c, summary, there)
            states.append(h)
        return torch.stack(states, 1)


FUSIONS: Mapping[str, Callable[[int, int], nn.Module]] = {"shallow": Shallow, "deep": Deep}
"""How the second sentence looks at the first."""


class LSTMNPair(nn.Module):
    """A classifier of pairs: the second sentence is read with the tapes of the first.

    `encoder.tape`, `fusion.decoder.tape` and `fusion.cross` are for who watches.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to what the classifier reads.
        embed: size of a word vector.
        hidden: size of a slot; the paper has 100, 300 and 450.
        fusion: "shallow" or "deep".
        ffn_dim: hidden units of the classifier.
        dropout: on word vectors and before each layer of the classifier.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        hidden: int = 450,
        fusion: str = "deep",
        ffn_dim: int = 450,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if fusion not in FUSIONS:
            raise RequestError(f"LSTMN has no fusion {fusion!r}: {nearest(fusion, FUSIONS)}")
        self.vocab_size, self.num_classes, self.num_features = vocab_size, num_classes, num_features
        self.dropout = dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.encoder = TapeLSTM(embed, hidden)
        self.fusion = FUSIONS[fusion](embed, hidden)
        size = 2 * hidden + num_features
        self.head = Head(size, num_classes, ffn_dim=ffn_dim, dropout=dropout)

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        a, here = _words(self.embed, first, lengths)
        b, there = _words(self.embed, second, second_lengths)
        a, b = (dropout(x, self.dropout, self.training) for x in (a, b))
        hidden, cells = self.encoder(a, TapeRead.right(here, a.shape[1]))
        states = self.fusion(b, TapeRead.right(there, b.shape[1]), hidden, cells, here)
        joined = [mean_pool(hidden, here), mean_pool(states, there)]
        joined += features_of(first, self.num_features, joined[0])
        return Output(self.head(torch.cat(joined, -1)), {})


def _words(
    embed: Embed, source: Tensor | Inputs, lengths: Tensor | None = None
) -> tuple[Float[Tensor, "batch time dim"], Int[Tensor, " batch"]]:
    """Word vectors, of one word at least, and how many are real."""
    ids, lengths = words_of(source, lengths)
    return embed(ids, states_of(source, ids)), lengths


def _end(
    hidden: Float[Tensor, "batch t hidden"],
    cells: Float[Tensor, "batch t hidden"],
    lengths: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]:
    """The last slot of a sentence; zeros of one without words."""
    there = (lengths > 0)[:, None]
    return last(hidden, lengths) * there, last(cells, lengths) * there
