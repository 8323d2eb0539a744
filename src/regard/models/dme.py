r"""Dynamic meta-embeddings. Kiela, Wang and Cho, EMNLP 2018, arXiv 1804.07983.

"Dynamic Meta-Embeddings for Improved Sentence Representations". A word has n representations, and
a sentence chooses among them, word by word.

    w'_ij = P_i w_ij + b_i                            representation i of word j, all of one size
    "dynamic":     α_ij = softmax_i(a^T (A w'_ij + c) + b)                           DME
    "contextual":  h_ij = BiLSTM_j(w'_i1 … w'_iT),  α_ij = softmax_i(a^T h_ij)       CDME
    "sum":         α_ij = 1                                                          unweighted
    w_j   = relu(Σ_i α_ij w'_ij)
    s     = max_t BiLSTM(w_1 … w_T)_t
    y     = head(s), or of a pair head([u; v; |u - v|; u ⊙ v])

A, c, a and b are shared by all representations, 517 numbers at the paper's sizes; there is nothing
between the two linear maps. The BiLSTM of CDME has 2 cells a direction and reads each
representation of the sentence by itself, with shared weights.

The representations here: word vectors (`embed`: the task can load and freeze them), further tables
of word vectors that are learned (`more`), and, where the task gives characters, the largest of each
feature of a convolution over the characters of the word. n is 2 or more.

Shapes: sentences (B, T) ids, `extras["characters"]` (B, T, C); α (B, T, 1, n); s (B, 2 hidden);
logits (B, num_classes).

**Departs from the paper**: its representations are six sets of vectors learned elsewhere; tables
beside the first are learned here, and characters are read by a convolution. b of CDME is left out:
added to all scores, it changes no softmax (that of DME is kept, for the paper's 517). The paper's
gate, a sigmoid in place of the softmax, is not implemented. The hidden layer of the classifier of
single sentences is our choice. A sentence without words has s = 0.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Dot, SourceToToken
from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout_relu
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.pool import max_pool
from regard.models._characters import Letters, spelled
from regard.models._sentence import Head, SentenceClassifier, SentencePair
from regard.protocols import PAD, Inputs, states_of

__all__ = ["DME", "DMEPair"]


class Dynamic(nn.Module):
    """Each word chooses by its representations alone; `sets` is α for who watches.

    Args:
        dim: size of a representation.
        attention: units between the two linear maps.

    Shapes:
        (B, T, n, dim) and lengths (B,) to (B, T, dim)
    """

    def __init__(self, dim: int, attention: int) -> None:
        super().__init__()
        score = SourceToToken(dim, hidden=attention, activation=nn.Identity())
        self.sets = Attention(score, role="representation")

    def forward(
        self, sets: Float[Tensor, "batch time n dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch time dim"]:
        """Mix."""
        mixed: Tensor = self.sets(sets[:, :, :1], sets).context
        return mixed[:, :, 0]


class Contextual(nn.Module):
    """Each word chooses by its representations in the sentence; `sets` is α for who watches.

    Args:
        dim: size of a representation.
        attention: LSTM cells of one direction.

    Shapes:
        (B, T, n, dim) and lengths (B,) to (B, T, dim)
    """

    def __init__(self, dim: int, attention: int) -> None:
        super().__init__()
        self.lstm = BiLSTM(dim, attention, bias=True)
        self.query = nn.Parameter(torch.empty(2 * attention))  # a
        nn.init.uniform_(self.query, -((2 * attention) ** -0.5), (2 * attention) ** -0.5)
        self.sets = Attention(Dot(), role="representation")

    def forward(
        self, sets: Float[Tensor, "batch time n dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch time dim"]:
        """Mix."""
        batch, time, n, _ = sets.shape
        each = sets.transpose(1, 2).flatten(0, 1)  # (B n, T, dim)
        states = self.lstm(each, lengths.repeat_interleave(n)).unflatten(0, (batch, n))
        keys = states.transpose(1, 2)  # (B, T, n, 2 attention)
        query = self.query.to(keys.dtype).expand(batch, time, 1, -1)
        mixed: Tensor = self.sets(query, keys, sets).context
        return mixed[:, :, 0]


class Unweighted(nn.Module):
    """The sum of all representations."""

    def __init__(self, dim: int, attention: int) -> None:
        super().__init__()

    def forward(
        self, sets: Float[Tensor, "batch time n dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch time dim"]:
        """Mix."""
        return sets.sum(2)


MIXES: Mapping[str, Callable[[int, int], nn.Module]] = {
    "dynamic": Dynamic,
    "contextual": Contextual,
    "sum": Unweighted,
}
"""How the representations of a word become one vector."""


class DMESentence(nn.Module):
    """The vector s of a sentence; arguments as of `DME`.

    Shapes:
        ids (B, T), with characters (B, T, C), to (B, 2 hidden)
    """

    def __init__(
        self,
        vocab_size: int,
        num_characters: int,
        *,
        embed: int,
        more: Sequence[int],
        characters: int,
        filters: int,
        dim: int,
        mix: str,
        attention: int,
        hidden: int,
        dropout: float,
    ) -> None:
        super().__init__()
        if mix not in MIXES:
            raise RequestError(f"DME has no mix {mix!r}: {nearest(mix, MIXES)}")
        sizes = [embed, *more, *[filters] * (num_characters > 0)]
        if len(sizes) < 2:
            raise RequestError(
                "DME mixes two representations of a word or more, and has one: give "
                f"task.characters=true, or further word vectors as model.more=[{embed}]"
            )
        self.dropout = dropout
        self.embed = Embed(vocab_size, embed, contextual=True, apart=dim)
        self.more = nn.ModuleList(Embed(vocab_size, size) for size in more)
        self.letters = Letters(num_characters, characters, filters) if num_characters else None
        self.projections = nn.ModuleList(nn.Linear(size, dim) for size in sizes)
        self.mix = MIXES[mix](dim, attention)
        self.lstm = BiLSTM(dim, hidden, bias=True)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """Read sentences."""
        ids, lengths, letters = spelled(source, self.letters is not None)
        vectors = [embed(ids) for embed in (self.embed, *self.more)]
        if letters is not None:
            vectors.append(self._letters(letters))
        projected = [linear(p, x) for p, x in zip(self.projections, vectors, strict=True)]
        if self.embed.states is not None:  # brought to d by a layer of its own
            states = self.embed.in_context(states_of(source, ids))
            projected.append(states.to(projected[0].dtype))
        mixed = self.mix(torch.stack(projected, 2), lengths).to(projected[0].dtype)
        words = dropout_relu(mixed, self.dropout, self.training)
        return max_pool(self.lstm(words, lengths), lengths)

    def _letters(self, letters: Int[Tensor, "batch time c"]) -> Float[Tensor, "batch time filters"]:
        """The representation of each word by its characters; 0 of a word without any."""
        assert self.letters is not None
        there = (letters != PAD).flatten(0, 1).sum(1)
        states = self.letters(letters.flatten(0, 1))
        found: Tensor = max_pool(states, there).unflatten(0, letters.shape[:2])
        return found


class DME(SentenceClassifier):
    """A classifier of sentences whose words choose among several representations.

    `encoder.mix.sets` is α for who watches: of each word, a weight for each representation.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_characters: of the alphabet; 0: characters are not read.
        embed: size of a word vector.
        more: sizes of further word vectors, each of a table of its own.
        characters: size of a character's vector.
        filters: of the convolution over characters.
        dim: size of a projected representation.
        mix: "dynamic" (DME), "contextual" (CDME), or "sum".
        attention: units of the mixing: between its linear maps, or LSTM cells of one direction.
        hidden: LSTM cells of one direction.
        ffn_dim: hidden units of the classifier.
        dropout: on mixed words, and before each layer of the classifier.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_characters: int = 0,
        *,
        embed: int = 300,
        more: Sequence[int] = (),
        characters: int = 32,
        filters: int = 128,
        dim: int = 256,
        mix: str = "dynamic",
        attention: int = 2,
        hidden: int = 512,
        ffn_dim: int = 512,
        dropout: float = 0.2,
    ) -> None:
        encoder = DMESentence(
            vocab_size,
            num_characters,
            embed=embed,
            more=more,
            characters=characters,
            filters=filters,
            dim=dim,
            mix=mix,
            attention=attention,
            hidden=hidden,
            dropout=dropout,
        )
        super().__init__(encoder, Head(2 * hidden, num_classes, ffn_dim=ffn_dim, dropout=dropout))
        self.num_characters = num_characters


class DMEPair(SentencePair):
    """A classifier of pairs of such sentences.

    `encoder.mix.sets` is α for who watches, of the first sentence and then of the second.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to what the classifier reads.
        num_characters: of the alphabet; 0: characters are not read.
        embed, more, characters, filters, dim, mix, attention, hidden, dropout: see `DME`.
        ffn_dim: units of each of the two hidden layers of the classifier.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        num_characters: int = 0,
        *,
        embed: int = 300,
        more: Sequence[int] = (),
        characters: int = 32,
        filters: int = 128,
        dim: int = 256,
        mix: str = "dynamic",
        attention: int = 2,
        hidden: int = 512,
        ffn_dim: int = 1024,
        dropout: float = 0.2,
    ) -> None:
        encoder = DMESentence(
            vocab_size,
            num_characters,
            embed=embed,
            more=more,
            characters=characters,
            filters=filters,
            dim=dim,
            mix=mix,
            attention=attention,
            hidden=hidden,
            dropout=dropout,
        )
        size = self.joined(2 * hidden, "distance-product", num_features)
        head = Head(size, num_classes, ffn_dim=ffn_dim, layers=2, dropout=dropout)
        super().__init__(encoder, head, num_features=num_features)
        self.num_characters = num_characters
