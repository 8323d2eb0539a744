r"""Attention via attention: words first, then the characters of the words that are favored.

Zhao and Zhang, "Attention-via-Attention Neural Machine Translation", AAAI 2018.

    s_1 … s_T   = BiLSTM(w_1 … w_T)                         the words
    α_w         = softmax_w(v^T tanh(W s_w + b))            which words matter
    c_w1 … c_wC = characters of word w, in their context    a convolution over the word
    α_{k|w}     = softmax_k(u^T tanh(U c_wk + Q s_w))       which characters of a word, knowing it
    α_wk        = α_w α_{k|w}                               which characters of the sentence
    "both":        z = [Σ_w α_w s_w ; Σ_wk α_wk c_wk]
    "words":       z = Σ_w α_w s_w
    "characters":  z = Σ_wk α_wk c_wk, every word alike: α_w = 1/T
    y = head(z)

The word level is computed first and passed down: characters are only read as far as their word is
favored. All α_wk of a sentence add up to 1 if each of its words has characters.

Shapes: sentences (B, T) ids, `extras["characters"]` (B, T, C); α_w (B, 1, T); α_{k|w} (B, T, 1, C);
logits (B, num_classes).

**Departs from the paper**: it is on translation, where a decoder's state looks at words and then at
characters; here a sentence is classified, with learned scores in place of the decoder's state. The
factors α_w α_{k|w} are our form of its idea: we wrote it without the paper's exact equations at
hand. Characters are read by a convolution over each word. A sentence without words has z = 0, and
so has the character part of a word without characters.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Additive, Attention, Dense, Lengths, SourceToToken, Uniform
from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.models._characters import Letters, spelled
from regard.models._sentence import Head, SentenceClassifier
from regard.protocols import PAD, Inputs, states_of

__all__ = ["AttentionViaAttention", "character_weights"]


def character_weights(
    words: Float[Tensor, "batch 1 time"], characters: Float[Tensor, "batch time 1 c"]
) -> Float[Tensor, "batch time c"]:
    r"""The weight of each character in the sentence, :math:`\alpha_{wk} = \alpha_w \alpha_{k|w}`.

    Args:
        words: α_w.
        characters: α_{k|w}.
    """
    return words[:, 0, :, None] * characters[:, :, 0]


class Level(NamedTuple):
    """What is read, and how words are scored.

    Args:
        words, characters: whether their states are in z.
        score: of words, by the sizes of a state and of the perceptron.
    """

    words: bool
    characters: bool
    score: Callable[[int, int], Any]


def _favored(size: int, attention: int) -> nn.Module:
    return SourceToToken(size, hidden=attention, activation=nn.Tanh())


LEVELS: Mapping[str, Level] = {
    "both": Level(True, True, _favored),
    "words": Level(True, False, _favored),
    "characters": Level(False, True, lambda size, attention: Uniform()),
}
"""Which levels of a sentence are read."""


class TwoLevels(nn.Module):
    """The vector z of a sentence; arguments as of `AttentionViaAttention`.

    `words` is α_w for who watches and `characters` α_{k|w}.

    Shapes:
        ids (B, T), with characters (B, T, C), to (B, size)
    """

    def __init__(
        self,
        vocab_size: int,
        num_characters: int,
        *,
        embed: int,
        hidden: int,
        attention: int,
        characters: int,
        filters: int,
        levels: str,
        dropout: float,
    ) -> None:
        super().__init__()
        if levels not in LEVELS:
            raise RequestError(
                f"AttentionViaAttention has no levels {levels!r}: {nearest(levels, LEVELS)}"
            )
        level = LEVELS[levels]
        if level.characters and not num_characters:
            raise RequestError(
                f"levels={levels!r} reads the characters of words, and there are none: give "
                "task.characters=true, or model.levels=words"
            )
        self.dropout, self.reads_words = dropout, level.words
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.lstm = BiLSTM(embed, hidden, bias=True)
        self.words = Attention(level.score(2 * hidden, attention), role="word")
        self.letters: Letters | None = None
        self.characters: Attention | None = None
        if level.characters:
            self.letters = Letters(num_characters, characters, filters)
            score = Additive(2 * hidden, filters, attention)
            self.characters = Attention(score, role="character")
        self.size = 2 * hidden * level.words + filters * level.characters

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """Read sentences."""
        ids, lengths, letters = spelled(source, self.letters is not None)
        x = dropout(self.embed(ids, states_of(source, ids)), self.dropout, self.training)
        states = self.lstm(x, lengths)
        values = [states] if self.reads_words else []
        if letters is not None:
            assert self.letters is not None
            assert self.characters is not None
            spelling = self.letters(letters)  # (B, T, C, filters)
            mask = Dense((letters != PAD)[:, :, None])
            read = self.characters(states[:, :, None], spelling, mask=mask).context[:, :, 0]
            values.append(read.to(states.dtype))
        value = torch.cat(values, -1)
        found: Tensor = self.words(states[:, :1], states, value, mask=Lengths(lengths)).context
        return found[:, 0].to(states.dtype)


class AttentionViaAttention(SentenceClassifier):
    """A classifier of sentences that looks at words, and through them at their characters.

    `encoder.words` is α_w for who watches and `encoder.characters` α_{k|w}; `character_weights` of
    both is the weight of each character in the sentence.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_characters: of the alphabet; 0: characters are not read (`levels="words"`).
        embed: size of a word vector.
        hidden: LSTM cells of one direction.
        attention: hidden units of the scores.
        characters: size of a character's vector.
        filters: of the convolution over the characters of a word.
        levels: "both", "words" or "characters".
        ffn_dim: hidden units of the classifier.
        dropout: on word vectors and before each layer of the classifier.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_characters: int = 0,
        *,
        embed: int = 300,
        hidden: int = 100,
        attention: int = 100,
        characters: int = 32,
        filters: int = 100,
        levels: str = "both",
        ffn_dim: int = 200,
        dropout: float = 0.2,
    ) -> None:
        encoder = TwoLevels(
            vocab_size,
            num_characters,
            embed=embed,
            hidden=hidden,
            attention=attention,
            characters=characters,
            filters=filters,
            levels=levels,
            dropout=dropout,
        )
        head = Head(encoder.size, num_classes, ffn_dim=ffn_dim, dropout=dropout)
        super().__init__(encoder, head)
        self.num_characters = num_characters
