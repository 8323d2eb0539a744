r"""A Transformer for parsing (Vaswani et al. 2017, section 6.3) that is told the next word.

The decoder's input also has the encoder's state of the next word, as in `lstm_a`; this is ours:

    w_t   = Σ_{j<t} reads(y_j)             how many words have been written about
    input : Dropout(E y_{t-1} sqrt(d) + PE) + Dropout(W_f h_{w_t})         h: the encoder's states

Everything else is `transformer`, and so are the settings.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.mask import take
from regard.layers.dropout import dropout
from regard.layers.layout import BatchLayout
from regard.models.transformer import Transformer
from regard.protocols import Decoding, Encoded

__all__ = ["FollowingTransformer"]


class FollowingTransformer(Transformer):
    """A Transformer whose decoder reads the state of the next word that is not written about yet.

    Its settings are those of `Transformer`. The buffer `reads` (V,) is 1 for symbols that stand for
    a word, 0 for others; the task fills it in.
    """

    follow = True
    reads: Tensor

    def _add_decoder_input(self) -> None:
        self.follower = nn.Linear(self.dim, self.dim, bias=False)  # W_f
        self.register_buffer("reads", torch.zeros(self.target_vocab_size, dtype=torch.int64))

    def start(self, encoded: Encoded) -> Decoding:
        """Keep the encoder's states; no word is written about yet."""
        memories = dict(super().start(encoded).memories)
        memories |= {"states": encoded.states, "last": encoded.lengths - 1}
        return Decoding(memories, {"place": torch.zeros_like(encoded.lengths)[:, None]})

    def _decoder_input(self, target_in: Tensor, states: Tensor, memory: BatchLayout) -> Tensor:
        places = self.reads[target_in].cumsum(1)
        plain = super()._decoder_input(target_in, states, memory)
        return plain + self._following(places, memory.pad(states), memory.lengths - 1)

    def _step_input(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, dict[str, Any]]:
        place = decoding.carried["place"] + self.reads[tokens]
        states, last = decoding.memories["states"], decoding.memories["last"]
        plain, carried = super()._step_input(tokens, decoding)
        return plain + self._following(place, states, last), {**carried, "place": place}

    def _following(self, places: Tensor, states: Tensor, last: Tensor) -> Tensor:
        """W_f of the next words' states: places (B, Q), states (B, S, D), to (B, Q, D)."""
        next_words = take(states, torch.minimum(places, last[:, None]))
        return dropout(self.follower(next_words), self.dropout, self.training)
