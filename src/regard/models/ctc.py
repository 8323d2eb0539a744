r"""CTC, the baseline without attention: a symbol or none for each frame.

Graves, Fernández, Gomez and Schmidhuber, "Connectionist Temporal Classification: Labelling
Unsegmented Sequence Data with Recurrent Neural Networks", ICML 2006.

    h_1 … h_T'   bidirectional layers over the frames
    p(k | t)     = softmax_k(W h_t + b), k a symbol or the blank        section 3
    p(y | x)     = Σ over all paths that become y when repeats and then blanks are taken out   (3)

Shapes: frames (B, T, D); logits (B, T', V) with T' = ceil(T / join); the blank is the padding's id.

**Departs from the paper**: gated units in place of LSTM cells, so that the encoder is that of the
attention model (`arsg`); several layers, joined frames and dropout can be asked for.
"""

from torch import Tensor, nn

from regard.layers.frame_encoder import FrameEncoder
from regard.protocols import Inputs, Output, frames_of

__all__ = ["CTC"]


class CTC(nn.Module):
    """Bidirectional GRU layers and one softmax for each joined frame.

    Args:
        source_dim: D, numbers of a frame.
        target_vocab_size: of the symbols; the padding's id is the blank.
        hidden: units of each direction.
        layers: of the encoder.
        join: neighboring frames that are read as one.
        dropout: on the states of each layer.
    """

    normalized = False

    def __init__(
        self,
        source_dim: int,
        target_vocab_size: int,
        *,
        hidden: int = 256,
        layers: int = 3,
        join: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_dim, self.target_vocab_size = source_dim, target_vocab_size
        self.encoder = FrameEncoder(source_dim, hidden, layers, join=join, dropout=dropout)
        self.output = nn.Linear(2 * hidden, target_vocab_size)
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Scores of the symbols in each joined frame; `extra["lengths"]`: how many there are."""
        states, short = self.encoder(*frames_of(source, lengths, self.source_dim))
        return Output(self.output(states), {"lengths": short})
