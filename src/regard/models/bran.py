r"""BRAN: relations between the concepts of a whole document, all of them at once.

Verga, Strubell and McCallum, "Simultaneously Self-Attending to All Mentions for Full-Abstract
Biological Relation Extraction", NAACL 2018, arXiv 1802.10569.

    b^0_i   = √d s(w_i) + p_i                             word pieces and learned positions
    m       = LN(b + MultiHead(b))                        4 heads
    b       = LN(m + C_1(C_5(C_1(m))))                    C_k: convolution of width k, then ReLU
    e^h_i   = W_2 ReLU(W_1 b_i),   e^t_i alike            a head's and a tail's view of a piece
    A_irj   = [e^h_i ; 1]^T L_r [e^t_j ; 1]               bi-affine, for each relation r
    s_r     = log Σ_{i ∈ M(h), j ∈ M(t)} exp A_irj        over all mentions of both concepts
    P(r)    = softmax_r s_r                               "no relation" is one of them
    names   = W b_i                                       tags of the pieces, learned beside it

Shapes: source (B, T) ids; logits (P, R), a row for each pair of the batch; names (B, T, K).

**Departs from the paper**: the paper and the authors' program differ, and both are here.
`attention: rectified` is the program's (ReLU on queries, keys and values, biases, no output
projection), `multihead` the paper's text (the ordinary Transformer's, without biases).
`connection: residual` is the paper's around the convolutions, `none` the program's, which adds m
to a variable that it does not return. The bi-affine form has the bias on both sides, as in the
program. All pieces of a mention count as its places. Dropout stands where the Transformer has it,
on what a sub-layer adds; the program drops its inputs.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, MultiHead, WeightedSum
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout as drop
from regard.layers.embed import Embed
from regard.layers.layout import BatchLayout
from regard.layers.positional_encoding import LearnedPositions
from regard.layers.segments import POOLS
from regard.models._mentions import cells_of, classes_of, without_concepts
from regard.native.gemm import linear
from regard.protocols import UNK, Inputs, Output, ids_of, states_of

__all__ = ["BRAN"]


class Rectified(nn.Linear):
    """A linear layer whose output is rectified."""

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(W x + b)."""
        return super().forward(x).relu()


def multihead(dim: int, heads: int, dropout: float) -> MultiHead:
    """As the paper's text has it: with an output projection."""
    return MultiHead(dim, heads, Attention(read=WeightedSum(dropout), role="self"))


def rectified(dim: int, heads: int, dropout: float) -> MultiHead:
    """As the authors' program has it: rectified projections, and none of the output."""
    made = MultiHead(dim, heads, Attention(read=WeightedSum(dropout), role="self"), bias=True)
    made.query, made.key, made.value = (Rectified(dim, dim) for _ in range(3))
    made.out = nn.Identity()  # type: ignore[assignment]
    return made


ATTENTIONS: Mapping[str, Callable[[int, int, float], MultiHead | None]] = {
    "multihead": multihead,
    "rectified": rectified,
    "none": lambda dim, heads, dropout: None,
}
CONNECTIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "residual": torch.add,
    "none": lambda x, found: found,
}


class BRAN(nn.Module):
    """Relations between concepts by bi-affine scores of their mentions, pooled over all of these.

    `Inputs.extras` say what is asked (see `protocols.RelationClassifier`); without them there are
    no pairs, and the tags of the pieces alone are given.

    Args:
        vocab_size: word pieces.
        num_relations: R, "no relation" among them.
        num_names: K, tags of pieces.
        num_features: numbers that describe a pair, `Inputs.extras["features"]` (B, P, F); 0: none.
        num_cues: words about a pair, each of which has a score, `Inputs.extras["cues"]` (B, P, C),
            padded with -1; 0: none.
        embed: size of a piece's vector, which is brought to d by a linear layer; None: d.
        dim: d.
        heads: of the attention.
        blocks: B.
        attention: "rectified" as in the authors' program, "multihead" as in the paper's text, or
            "none" (the ablation "CNN only").
        widths: of the convolutions; [1, 1, 1] is the ablation "no width-5".
        connection: around the convolutions: "residual" (paper) or "none" (program).
        pool: over pairs of mentions: "logsumexp" (paper), "max" or "mean".
        max_length: positions that there are.
        feature: hidden units of the scores that are made of them.
        distances: classes of the distance between two places to either side, of which each has a
            score; 0: distances are not looked at.
        word_dropout: share of pieces that are read as unknown.
        concept_dropout: share of concepts all of whose pieces are read as unknown.
        cue_dropout: share of cues that are left out.
        embed_dropout: on the embedded pieces.
        dropout: on what a sub-layer adds, and between convolutions.
        attention_dropout: on attention weights.
        output_dropout: on heads and tails.

    Example:
        >>> model = BRAN(20, 2, 5, dim=8, heads=2, blocks=1, max_length=30).eval()
        >>> extras = {"places": torch.tensor([[0, 1, 4]]), "entities": torch.tensor([[0, 0, 1]])}
        >>> given = Inputs(torch.tensor([[4, 5, 6, 7, 8]]), None, {**extras,
        ...                "pairs": torch.tensor([[[0, 1]]])})
        >>> model(given).logits.shape, model(given).extra["names"].shape
        (torch.Size([1, 2]), torch.Size([1, 5, 5]))
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_relations: int,
        num_names: int,
        num_features: int = 0,
        num_cues: int = 0,
        *,
        embed: int | None = None,
        dim: int = 64,
        heads: int = 4,
        blocks: int = 2,
        attention: str = "rectified",
        widths: Sequence[int] = (1, 5, 1),
        connection: str = "residual",
        pool: str = "logsumexp",
        max_length: int = 10_000,
        feature: int = 32,
        distances: int = 0,
        word_dropout: float = 0.15,
        concept_dropout: float = 0.0,
        cue_dropout: float = 0.5,
        embed_dropout: float = 0.5,
        dropout: float = 0.05,
        attention_dropout: float = 0.05,
        output_dropout: float = 0.65,
    ) -> None:
        super().__init__()
        for name, given, known in (
            ("attention", attention, ATTENTIONS),
            ("connection", connection, CONNECTIONS),
            ("pool", pool, POOLS),
        ):
            if given not in known:
                raise RequestError(f"no {name} is called {given!r}; {nearest(given, known)}")
        self.vocab_size, self.num_relations, self.num_names = vocab_size, num_relations, num_names
        self.num_features, self.num_cues = num_features, num_cues
        self.word_dropout, self.concept_dropout = word_dropout, concept_dropout
        self.embed_dropout, self.cue_dropout = embed_dropout, cue_dropout
        self.output_dropout, self.pool = output_dropout, pool
        size = embed or dim
        self.embed = Embed(vocab_size, size, scale=math.sqrt(size), contextual=True)
        self.project = None if embed in (None, dim) else nn.Linear(embed or dim, dim, bias=False)
        self.position = LearnedPositions(dim, max_length)
        self.blocks = nn.ModuleList(
            DocumentBlock(
                dim,
                ATTENTIONS[attention](dim, heads, attention_dropout),
                Convolutions(dim, widths, dropout),
                connection,
                dropout,
            )
            for _ in range(blocks)
        )
        self.head, self.tail = (
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)) for _ in range(2)
        )
        # The same for all relations, as in the program: at first no pair says anything.
        same = nn.init.orthogonal_(torch.empty(dim + 1, dim + 1))
        self.biaffine = nn.Parameter(same[:, None].repeat(1, num_relations, 1))  # L
        self.names = nn.Linear(dim, num_names)
        self.features = None
        if num_features:
            self.features = nn.Sequential(
                nn.Linear(num_features, feature), nn.ReLU(), nn.Linear(feature, num_relations)
            )
        self.cues = None
        if num_cues:
            self.cues = nn.EmbeddingBag(num_cues, num_relations, mode="sum")
            nn.init.zeros_(self.cues.weight)
        self.distances = None
        if distances:
            self.distances = nn.Parameter(torch.zeros(2 * distances + 1, num_relations))

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Score all pairs: logits (P, R); `extra["names"]` (B, T, K)."""
        ids, lengths = ids_of(source, lengths)
        given, read = states_of(source, ids), ids
        if self.training and self.concept_dropout and isinstance(source, Inputs):
            read = without_concepts(ids, source.extras, self.concept_dropout)
            given = None if given is None else given * (read == ids)[..., None, None]
        states = self.encode(read, lengths, given)
        extra = {"names": self.names(states)}
        if not isinstance(source, Inputs) or "pairs" not in source.extras:
            return Output(states.new_zeros(0, self.num_relations), extra)
        asked = source.extras
        logits = self.score(states, asked["places"], asked["entities"], asked["pairs"])
        real = (asked["pairs"] >= 0).all(-1)
        if self.features is not None:
            logits = logits + self.features(asked["features"][real].to(states.dtype))
        if self.cues is not None:
            logits = logits + self.cued(asked["cues"][real]).to(states.dtype)
        return Output(logits, extra)

    def cued(self, cues: Int[Tensor, "pairs cues"]) -> Float[Tensor, "pairs relations"]:
        """What the cues of each pair say, summed; -1 says nothing."""
        assert self.cues is not None
        there = cues >= 0
        flat = cues[there]
        sizes = there.sum(1)
        weight = drop(
            torch.ones(len(flat), device=cues.device, dtype=self.cues.weight.dtype),
            self.cue_dropout,
            self.training,
        )
        found: Tensor = self.cues(flat, sizes.cumsum(0) - sizes, per_sample_weights=weight)
        return found

    def encode(
        self,
        ids: Int[Tensor, "batch t"],
        lengths: Int[Tensor, " batch"],
        given: Float[Tensor, "batch t layers size"] | None = None,
    ) -> Float[Tensor, "batch t dim"]:
        """The states of all pieces.

        Args:
            given: those of an encoder, where one is read.
        """
        if self.training and self.word_dropout:
            hidden = torch.rand(ids.shape, device=ids.device) < self.word_dropout
            ids = ids.masked_fill(hidden, UNK)
            given = None if given is None else given * ~hidden[..., None, None]
        x = self.embed(ids, given)
        x = drop(
            self.position(self.project(x) if self.project else x), self.embed_dropout, self.training
        )
        layout = BatchLayout(lengths, ids.shape[1], self._is_ragged(lengths, ids.shape[1]))
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        x = layout.unpad(x)
        for block in self.blocks:
            x = block(x, layout, inside)
        padded: Tensor = layout.pad(x)
        return padded

    def score(
        self,
        states: Float[Tensor, "batch t dim"],
        places: Int[Tensor, "batch n"],
        entities: Int[Tensor, "batch n"],
        pairs: Int[Tensor, "batch p 2"],
    ) -> Float[Tensor, "pairs relations"]:
        """S of every real pair, the pairs of the first document first.

        Only pieces of mentions are scored: (N, R, N) a document, not (T, R, T).
        """
        count = places.shape[1]
        at = places.clamp(min=0)[..., None].expand(-1, -1, states.shape[-1])
        found = states.gather(1, at)  # (B, N, D)
        head, tail = (
            F.pad(drop(part(found), self.output_dropout, self.training), (0, 1), value=1.0)
            for part in (self.head, self.tail)
        )
        projected = head @ self.biaffine.flatten(1).to(head.dtype)  # (B, N, R (d + 1))
        scores = projected.unflatten(-1, (self.num_relations, -1)).flatten(1, 2) @ tail.mT
        scores = scores.view(len(states), count, self.num_relations, count)
        scores = scores.transpose(2, 3).to(torch.promote_types(scores.dtype, torch.float32))
        cells, owners, size = cells_of(entities.masked_fill(places < 0, -1), pairs)
        picked = scores.flatten(0, 2).index_select(0, cells)  # (cells, R)
        if self.distances is not None:
            document, first = (cells // count).div(count, rounding_mode="floor"), cells // count
            apart = places.flatten()[first] - places[document, cells % count]
            picked = picked + self.distances[classes_of(apart, len(self.distances) // 2)]
        pooled: Tensor = POOLS[self.pool](picked, owners, size)
        return pooled.to(states.dtype)

    def _is_ragged(self, lengths: Tensor, size: int) -> bool:
        """Whether leaving out the padding pays."""
        first = self.blocks[0].attention if len(self.blocks) else None
        if first is None:
            return lengths.is_cpu and not torch.compiler.is_compiling()
        return isinstance(first, MultiHead) and first.ragged_is_faster(size)


class DocumentBlock(nn.Module):
    """Attention, then convolutions, a norm behind each.

    Args:
        attention: None: there is none, and no norm for it.
        connection: a key of `CONNECTIONS`.
    """

    def __init__(
        self,
        dim: int,
        attention: MultiHead | None,
        convolutions: "Convolutions",
        connection: str,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention, self.convolutions = attention, convolutions
        self.attention_norm = None if attention is None else nn.LayerNorm(dim)
        self.norm = nn.LayerNorm(dim)
        self.connection, self.dropout = connection, dropout

    def forward(self, x: Tensor, layout: BatchLayout, inside: Tensor) -> Tensor:
        """Padded states (B, T, D), or those of real pieces (N, D)."""
        if self.attention is not None and self.attention_norm is not None:
            given = layout(x)
            found = self.attention(given, given, mask=layout.mask).context
            x = self.attention_norm(x + drop(found, self.dropout, self.training))
        found = drop(self.convolutions(x, layout, inside), self.dropout, self.training)
        out: Tensor = self.norm(CONNECTIONS[self.connection](x, found))
        return out


class Convolutions(nn.Module):
    """Convolutions over the pieces of a document, ReLU behind each, the last one too.

    All but the last have 4 d channels. A window of width k is one row of k pieces, zeros outside
    of the document.
    """

    def __init__(self, dim: int, widths: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.widths, self.dropout = [int(width) for width in widths], dropout
        sizes = [dim, *[4 * dim] * (len(self.widths) - 1), dim]
        self.layers = nn.ModuleList(
            nn.Linear(width * a, b)
            for width, a, b in zip(self.widths, sizes[:-1], sizes[1:], strict=True)
        )
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, layout: BatchLayout, inside: Tensor) -> Tensor:
        """Of states as `layout` has them."""
        for number, (width, layer) in enumerate(zip(self.widths, self.layers, strict=True)):
            if number:
                x = drop(x, self.dropout, self.training)
            rows = x if width == 1 else layout.unpad(windows(layout.pad(x), width, inside))
            x = linear(layer, rows).relu()
        return x


def windows(
    x: Float[Tensor, "batch t dim"], width: int, inside: Tensor
) -> Float[Tensor, "batch t wide"]:
    """The pieces around each one, end to end: (B, T, k D), zeros outside of the document."""
    x = x.masked_fill(~inside[..., None], 0.0)
    before = (width - 1) // 2
    wide = F.pad(x, (0, 0, before, width - 1 - before))
    return torch.cat([wide[:, k : k + x.shape[1]] for k in range(width)], -1)
