r"""LSTMN as a language model. Cheng, Dong and Lapata, EMNLP 2016, section 5.1, arXiv 1601.06733.

    h_t = LSTMN(x_1 … x_t)          each cell looks at the slots of all words before, see `lstmn`
    p(x_{t+1} | x_1 … x_t) = softmax(W_o h_t + b_o)

A step costs time in the number of words before it, and training on T words memory in its square:
read text in stretches.

Shapes: tokens (B, T); logits (B, T, V) of the word behind each.

**Departs from the paper**: layers are stacked without skip connections; dropout is on the inputs of
every layer and on the last states. Before the first word there is a slot of zeros, as in the
released code.
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RequestError
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.tape import Tape, TapeLSTM, TapeRead
from regard.protocols import PAD, Decoding, Output

__all__ = ["LSTMNLanguage"]


class LSTMNLanguage(nn.Module):
    """Predicts a word by looking at all states before it.

    `layers.K.tape` is for who watches, a step for each word.

    Args:
        vocab_size: size of the vocabulary.
        embed: size of a word vector.
        hidden: size of a slot.
        layers: of cells.
        dropout: on the inputs of every layer and on the last states.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        *,
        embed: int = 150,
        hidden: int = 300,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise RequestError(f"LSTMN expected a layer or more, got layers={layers}")
        self.vocab_size, self.dropout = vocab_size, dropout
        self.embed = Embed(vocab_size, embed)
        sizes = [embed, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(TapeLSTM(size, hidden) for size in sizes)
        self.out = nn.Linear(hidden, vocab_size)

    def forward(self, tokens: Int[Tensor, "batch token"], last: int | None = None) -> Output:
        """Score the word behind every token, or behind the `last` ones alone: logits (B, T, V).

        Padding is never looked at.
        """
        x, reading = self.embed(tokens), TapeRead.anywhere(tokens != PAD)
        for layer in self.layers:
            x, _ = layer(self._drop(x), reading)
        x = x if last is None else x[:, x.shape[1] - last :]
        return Output(linear(self.out, self._drop(x)), {})

    def start(self, batch: int) -> Decoding:
        """The decoding before the first token of this many texts."""
        made = {}
        for k, layer in enumerate(self.layers):
            assert isinstance(layer, TapeLSTM)
            nothing = self.embed.weight.new_zeros(batch, 1, layer.hidden)
            made[f"tape {k}"] = tuple(layer.start(nothing, nothing))
        return Decoding({}, made)

    def step(
        self, tokens: Int[Tensor, "batch beam"], decoding: Decoding
    ) -> tuple[Float[Tensor, "batch beam target"], Decoding]:
        """Read a token of each hypothesis; score the next."""
        x, made = self.embed(tokens), {}
        for k, layer in enumerate(self.layers):
            assert isinstance(layer, TapeLSTM)
            x = self._drop(x)
            tape = Tape(*decoding.carried[f"tape {k}"])
            x, _, tape = layer.step(linear(layer.input, x), x, tape)
            made[f"tape {k}"] = tuple(tape)
        return linear(self.out, self._drop(x)), decoding.advance(**made)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
