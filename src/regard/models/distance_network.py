r"""Distance-based self-attention network. Im and Cho 2017, arXiv 1712.02047.

"Distance-based Self-Attention Network for Natural Language Inference".

    head = softmax(Q K^T / √d_k + M_dir - α |i - j|) V        each word looks at words near it
    H  = LN(MultiHead(x)),  F = σ(W^S x + W^H H + b)
    G  = F ⊙ W^S x + (1 - F) ⊙ W^H H                          the fusion gate
    y  = LN(G + FFN(G))                                       one block forward, one backward
    u  = [→y ; ←y]
    f_t = W ELU(W_1 u_t + b_1) + b_2,  P = softmax_t(f)       source2token: weights of each feature
    s  = [Σ_t P_t ⊙ u_t ; max_t u_t]
    o  = W_o relu(W_f [s_a; s_b; |s_a - s_b|; s_a ⊙ s_b] + b_f) + b_o

A word never looks at itself: M_dir leaves the words before it to the forward block and those behind
it to the backward block. Positions are not embedded; how far away a word is, is known by the
penalty α alone, and `alpha=0` is the network without it.

Shapes: sentences (B, T) ids; u (B, T, 2d); s (B, 4d); logits (B, num_classes).

**Departs from the paper**: word vectors start at random (paper: GloVe; the task can load and freeze
them). The paper's penalty α is a setting that we know from a public re-implementation alone (1.5).
A word that no other stands before (behind) has attention zero in that direction. A sentence without
words has s = 0. Dropout is in the blocks and before each layer of the classifier. Without word
vectors there are 4,688,403 parameters, in the paper 4.7 million. `DistanceClassifier` reads one
sentence, with the same classifier on s alone; it is not in the paper.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, FeatureSoftmax, FeatureSum, Lengths, SourceToToken
from regard.layers.distance import DistanceEncoder
from regard.layers.embed import Embed
from regard.layers.pool import max_pool
from regard.models._sentence import Head, SentenceClassifier, SentencePair, words_of
from regard.protocols import Inputs, states_of

__all__ = ["DistanceClassifier", "DistancePair"]


class DistanceSentence(nn.Module):
    """The vector s of a sentence.

    `blocks.forth.attention` and `blocks.back.attention` are the words' looks at each other for who
    watches, `words` is P, with weights for each feature.

    Args:
        vocab_size: size of the vocabulary.
        embed, heads, hidden, alpha, dropout: see `DistancePair`.

    Shapes:
        ids (B, T) to (B, 4 embed)
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        embed: int,
        heads: int,
        hidden: int | None,
        alpha: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.blocks = DistanceEncoder(embed, heads, hidden=hidden, alpha=alpha, dropout=dropout)
        self.words = Attention(
            SourceToToken(2 * embed, 2 * embed),
            select=FeatureSoftmax(),
            read=FeatureSum(),
            role="word",
        )

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """Read sentences."""
        ids, lengths = words_of(source)
        mask = Lengths(lengths)
        u = self.blocks(self.embed(ids, states_of(source, ids)), mask)
        read = self.words(u[:, :1], u, mask=mask).context[:, 0]
        return torch.cat([read.to(u.dtype), max_pool(u, lengths)], -1)


class DistanceClassifier(SentenceClassifier):
    """A classifier of sentences by attention that prefers words nearby.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed, heads, hidden, alpha, ffn_dim, dropout: see `DistancePair`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 300,
        heads: int = 5,
        hidden: int | None = None,
        alpha: float = 1.5,
        ffn_dim: int = 300,
        dropout: float = 0.1,
    ) -> None:
        encoder = DistanceSentence(
            vocab_size, embed=embed, heads=heads, hidden=hidden, alpha=alpha, dropout=dropout
        )
        super().__init__(encoder, Head(4 * embed, num_classes, ffn_dim=ffn_dim, dropout=dropout))


class DistancePair(SentencePair):
    """A classifier of pairs by attention that prefers words nearby; both are read alike.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to what the classifier reads.
        embed: d, size of a word vector and of each direction's states.
        heads: of each block.
        hidden: of the blocks' feed-forward layers; 4 d where not given.
        alpha: α, the penalty for each word of distance; 0 for none.
        ffn_dim: hidden units of the classifier.
        dropout: in the blocks and before each layer of the classifier.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        heads: int = 5,
        hidden: int | None = None,
        alpha: float = 1.5,
        ffn_dim: int = 300,
        dropout: float = 0.1,
    ) -> None:
        encoder = DistanceSentence(
            vocab_size, embed=embed, heads=heads, hidden=hidden, alpha=alpha, dropout=dropout
        )
        size = self.joined(4 * embed, "distance-product", num_features)
        head = Head(size, num_classes, ffn_dim=ffn_dim, dropout=dropout)
        super().__init__(encoder, head, num_features=num_features)
