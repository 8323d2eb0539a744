r"""Hierarchical attention network: a document of sentences of words.

Yang, Yang, Dyer, He, Smola and Hovy, "Hierarchical Attention Networks for Document Classification",
NAACL 2016.

    h_it = [→GRU ; ←GRU](W_e w_it)             the words of sentence i, in their context     (1-5)
    u_it = tanh(W_w h_it + b_w)
    α_it = softmax_t(u_it^T u_w)               which words matter
    s_i  = Σ_t α_it h_it                       a vector for each sentence                    (5-7)
    h_i  = [→GRU ; ←GRU](s_i)                  the sentences, in their context
    u_i  = tanh(W_s h_i + b_s),  α_i = softmax_i(u_i^T u_s),  v = Σ_i α_i h_i               (8-10)
    y    = W_c v + b_c                         the logits of the document                     (11)
    GRU:   r, z = σ(W x + U h + b),  n = tanh(W_h x + r ⊙ (U_h h) + b_h),  h' = (1 - z) ⊙ h + z ⊙ n

The context vectors u_w and u_s are learned queries; u_it are keys and h_it the values, so this is
attention with a dot-product score. `read` takes the place of both levels' attention: "attention" is
the paper's HN-ATT, "mean" its HN-AVE, "max" its HN-MAX.

Shapes: documents (B, S, W) ids, `lengths` (B,) sentences of each, `extras["words"]` (B, S) words of
each sentence; or (B, T) ids, a document of one sentence each. Logits (B, num_classes). Weights of
`words.read` (N, 1, W) are of the N sentences that have words, whose documents and places are in the
`rows` of the record; of `sentences.read` (B, 1, S).

Nothing is computed for padding: words and sentences run step by step through the recurrences, those
that have ended left out. Where sentences differ very much in length, those of similar length are
read together. A sentence without words is left out wherever it stands; a document without words has
v = 0.

**Departs from the paper**: word vectors start at random (paper: word2vec of the same texts). Other
weights start as PyTorch's linear layers do, recurrent ones orthogonal; the paper does not say how.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dense, Dot, Uniform, rows_of
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.layout import PackedLayout
from regard.layers.linear import linear
from regard.layers.rnn import BiGRU
from regard.protocols import PAD, Inputs, Output, unpacked

__all__ = ["HAN", "HANLevel"]

AREA = 1 << 16
"""Words and padding that are read together, however much of it is padding."""


class _Attended(nn.Module):
    """Values weighted by how well their keys match a learned context vector.

    Shapes:
        states (N, D) in a layout of (B, T) to (B, D)
    """

    def __init__(self, size: int, context: int, role: str) -> None:
        super().__init__()
        self.key = nn.Linear(size, context)  # W, b
        self.context = nn.Parameter(torch.empty(context))  # u
        nn.init.uniform_(self.context, -(context**-0.5), context**-0.5)
        self.attention = Attention(score=Dot(), role=role)

    def forward(
        self, states: Float[Tensor, "n size"], layout: PackedLayout
    ) -> Float[Tensor, "batch size"]:
        """Read each sequence."""
        keys = layout.put(torch.tanh(linear(self.key, states)))
        query = self.context.to(keys.dtype).expand(len(layout.real), 1, -1)
        mask = Dense(layout.real[:, None])
        read: Tensor = self.attention(query, keys, layout.put(states), mask=mask).context
        return read[:, 0]


class _Mean(nn.Module):
    """The mean of the states: attention with equal weights."""

    def __init__(self, size: int, context: int, role: str) -> None:
        super().__init__()
        self.attention = Attention(score=Uniform(), role=role)

    def forward(
        self, states: Float[Tensor, "n size"], layout: PackedLayout
    ) -> Float[Tensor, "batch size"]:
        """Read each sequence."""
        values = layout.put(states)
        mask = Dense(layout.real[:, None])
        read: Tensor = self.attention(values[:, :1], values, values, mask=mask).context
        return read[:, 0]


class _Max(nn.Module):
    """The largest of each feature of the states; 0 of a sequence of nothing."""

    def __init__(self, size: int, context: int, role: str) -> None:
        super().__init__()

    def forward(
        self, states: Float[Tensor, "n size"], layout: PackedLayout
    ) -> Float[Tensor, "batch size"]:
        """Read each sequence."""
        hidden = ~layout.real[..., None]
        largest = layout.put(states).masked_fill(hidden, -torch.inf).amax(1)
        return largest.masked_fill(hidden.all(1), 0.0)


READS: Mapping[str, Callable[[int, int, str], nn.Module]] = {
    "attention": _Attended,
    "mean": _Mean,
    "max": _Max,
}
"""How a level makes one vector of many: HN-ATT, HN-AVE and HN-MAX."""


class HANLevel(nn.Module):
    """A bidirectional GRU over the items of each sequence, and one vector read from its states.

    Args:
        inputs: size of an item.
        hidden: GRU units of one direction.
        context: size of the context vector u.
        read: one of "attention", "mean", "max".
        role: what looks at what, for those who watch.

    Shapes:
        states (N, 2H) in a layout of (B, T) to (B, 2H)
    """

    def __init__(self, inputs: int, hidden: int, context: int, read: str, role: str) -> None:
        super().__init__()
        if read not in READS:
            raise RequestError(f"HAN has no read {read!r}: {nearest(read, READS)}")
        self.gru = BiGRU(inputs, hidden, reset="after", update="take")
        self.read = READS[read](2 * hidden, context, role)


class HAN(nn.Module):
    """A classifier of documents that reads sentences first, then the document.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        hidden: GRU units of one direction, on both levels.
        context: size of the context vectors u_w and u_s.
        read: how words make a sentence and sentences a document: "attention", "mean" or "max".
        dropout: on word vectors, sentence vectors and document vectors; the paper has none.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 200,
        hidden: int = 50,
        context: int = 100,
        read: str = "attention",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise RequestError(f"HAN expected a class or more, got num_classes={num_classes}")
        self.vocab_size, self.num_classes, self.dropout = vocab_size, num_classes, dropout
        self.embed = Embed(vocab_size, embed, dropout=dropout)
        self.words = HANLevel(embed, hidden, context, read, "word")
        self.sentences = HANLevel(2 * hidden, hidden, context, read, "sentence")
        self.output = nn.Linear(2 * hidden, num_classes)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of documents (B, S, W), or of single sentences (B, T)."""
        document = self.embedding(source, lengths)
        return Output(self.output(dropout(document, self.dropout, self.training)), {})

    def embedding(
        self, source: Tensor | Inputs, lengths: Tensor | None = None
    ) -> Float[Tensor, "batch size"]:
        """The vector v of each document."""
        ids, words = _documents(source, lengths)
        real = words > 0
        rows = real.flatten().nonzero()[:, 0]
        vectors = self._sentences(ids.flatten(0, 1), words.flatten(), rows, ids.shape[1])
        vectors = dropout(vectors, self.dropout, self.training)
        every = vectors.new_zeros(real.numel(), vectors.shape[-1]).index_copy(0, rows, vectors)
        layout = PackedLayout(real)
        states = self.sentences.gru.packed(layout.take(every.unflatten(0, real.shape)), layout)
        document: Tensor = self.sentences.read(states, layout)
        return document

    def _sentences(
        self,
        ids: Int[Tensor, "rows word"],
        words: Int[Tensor, " rows"],
        rows: Int[Tensor, " sentences"],
        count: int,
    ) -> Float[Tensor, "sentences size"]:
        """The vectors s of the sentences `rows`; `count` rows are a document."""
        found: list[tuple[Tensor, Tensor]] = []
        order = words[rows].argsort(descending=True, stable=True)
        for part in order.split(_together(words[rows[order]].tolist())):
            part = part.sort().values
            own = rows[part]
            longest = int(words[own].max()) if len(own) else 1
            steps = torch.arange(longest, device=ids.device)
            layout = PackedLayout(steps < words[own, None])
            taken = layout.take(ids[own, :longest])
            states = self.words.gru.packed_words(self.embed, taken, layout)
            with rows_of(example=own // count, sentence=own % count):
                found.append((part, self.words.read(states, layout)))
        if len(found) == 1:
            return found[0][1]
        back = torch.cat([part for part, _ in found]).argsort()
        return torch.cat([vectors for _, vectors in found])[back]


def _documents(source: Tensor | Inputs, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Ids (B, S, W), S and W at least 1, and the words of each sentence (B, S)."""
    ids, lengths = unpacked(source, lengths)
    if ids.is_floating_point() or ids.dim() not in (2, 3):
        raise RequestError(
            "HAN expected documents as ids (batch, sentences, words), or sentences as ids "
            f"(batch, words), got {ids.dtype} of shape {tuple(ids.shape)}"
        )
    if ids.dim() == 2:
        assert lengths is not None
        ids, words = ids[:, None], lengths[:, None]
    else:
        given = source.extras.get("words") if isinstance(source, Inputs) else None
        words = (ids != PAD).sum(-1) if given is None else given
        if words.shape != ids.shape[:2]:
            raise RequestError(
                f"HAN expected extras['words'] of shape {tuple(ids.shape[:2])}, a number for each "
                f"sentence, got {tuple(words.shape)}"
            )
        if lengths is not None:
            places = torch.arange(ids.shape[1], device=ids.device)
            words = words * (places < lengths.to(ids.device)[:, None])
    words = words.to(ids.device)
    more = [max(0, 1 - size) for size in ids.shape[1:]]
    if any(more):  # not one sentence, or not one word, in the whole batch
        ids, words = F.pad(ids, (0, more[1], 0, more[0])), F.pad(words, (0, more[0]))
    return ids, words


def _together(lengths: list[int]) -> list[int]:
    """How many sentences, the longest first, are read at once: few words of padding in all."""
    return list(_parts(lengths)) or [0]


def _parts(lengths: list[int]) -> Iterator[int]:
    start, words = 0, 0
    for i, length in enumerate(lengths):
        area = (i + 1 - start) * lengths[start]
        if area > max(2 * (words + length), AREA):
            yield i - start
            start, words = i, 0
        words += length
    if lengths:
        yield len(lengths) - start
