"""The characters of words, for models that read both."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.bilstm import BiLSTM
from regard.layers.embed import Embed
from regard.layers.layout import PackedLayout
from regard.layers.linear import linear
from regard.layers.rnn import last
from regard.protocols import PAD, Inputs, ids_of

__all__ = ["LetterLSTM", "Letters", "characters_of", "spelled"]


def spelled(source: Inputs, wanted: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Ids (B, T), lengths (B,), and the characters of each word where they are wanted.

    T and C are 1 or more.

    Raises:
        RequestError: they are wanted and not there, or are of another number of words.
    """
    ids, lengths = ids_of(source)
    more = max(0, 1 - ids.shape[1])  # not one word in the whole batch
    if not wanted:
        return F.pad(ids, (0, more)), lengths, None
    return F.pad(ids, (0, more)), lengths, characters_of(source)


def characters_of(source: Inputs) -> Int[Tensor, "batch t c"]:
    """The characters of each word (B, T, C); T and C are 1 or more.

    Raises:
        RequestError: they are not there, or are of another number of words.
    """
    shape, letters = tuple(source.values.shape), source.extras.get("characters")
    if letters is None or letters.shape[:2] != shape:
        got = "none" if letters is None else f"shape {tuple(letters.shape)}"
        raise RequestError(
            f"this model reads the characters of words, extras['characters'] {shape} "
            f"and one axis more, and got {got}: give task.characters=true"
        )
    more = max(0, 1 - shape[1])  # not one word in the whole batch
    return F.pad(letters, (0, max(0, 1 - letters.shape[2]), 0, more))


class Letters(nn.Module):
    r"""The characters of words in their context: a convolution over each word by itself.

    .. math:: c_k = \tanh(W [e_{k-m}; \dots; e_{k+m}] + b)

    Args:
        num_characters: how many there are.
        embed: size of a character's vector.
        filters: size of c.
        width: 2m + 1, characters that are read together; an odd number.

    Shapes:
        ids (*batch, C) to states (*batch, C, filters); padding is not masked
    """

    def __init__(self, num_characters: int, embed: int, filters: int, width: int = 3) -> None:
        super().__init__()
        if width % 2 == 0:
            raise RequestError(f"expected an odd number of characters together, got width={width}")
        self.width = width
        self.embed = Embed(num_characters, embed)
        self.filters = nn.Linear(width * embed, filters)

    def forward(self, ids: Int[Tensor, "*batch c"]) -> Float[Tensor, "*batch c filters"]:
        """Read each word."""
        around = F.pad(ids, (self.width // 2, self.width // 2)).unfold(-1, self.width, 1)
        return torch.tanh(linear(self.filters, self.embed(around).flatten(-2)))


class LetterLSTM(nn.Module):
    r"""A word as its characters spell it: the last states of an LSTM in both directions.

    .. math:: c = [\overrightarrow c_n; \overleftarrow c_1]

    Words that occur twice in a batch are read once.

    Args:
        num_characters: how many there are.
        embed: size of a character's vector.
        hidden: cells of each direction.

    Shapes:
        ids (N, C), padding on the right, to (N, 2 * hidden); zero for a word without characters
    """

    def __init__(self, num_characters: int, embed: int, hidden: int) -> None:
        super().__init__()
        self.embed = Embed(num_characters, embed)
        self.lstm = BiLSTM(embed, hidden, bias=True)
        self.size = 2 * hidden

    def forward(self, ids: Int[Tensor, "n c"]) -> Float[Tensor, "n both"]:
        """Read each word."""
        words, which = ids.unique(dim=0, return_inverse=True)
        real = words != PAD
        if not bool(real.any()):
            return self.embed.weight.new_zeros(len(ids), self.size)
        layout = PackedLayout(real)
        states = layout.put(self.lstm.packed(self.embed(layout.take(words)), layout))
        ahead, back = states.chunk(2, -1)
        spelled = torch.cat([last(ahead, real.sum(1)), back[:, 0]], -1)
        return spelled.index_select(0, which)
