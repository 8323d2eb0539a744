r"""A deep highway LSTM whose directions alternate from layer to layer, for semantic roles.

He, Lee, Lewis and Zettlemoyer, "Deep Semantic Role Labeling: What Works and What's Next", ACL 2017.

    x_t^1     = [e(w_t); m(1[t = p])]                         p: the predicate asked about
    i,f,o,r,j = σ, σ, σ, σ, tanh of W x_t + U h_{t'} + b      t' = t - 1, in even layers t + 1
    c_t       = f ⊙ c_{t'} + i ⊙ j
    h_t       = z ⊙ (r ⊙ o ⊙ tanh c_t + (1 - r) ⊙ (W_k x_t + b_k))
    x_t^{l+1} = h_t^l,   y_t = softmax(W_o h_t^L + b_o)

z is the recurrent dropout: one mask for each sentence and layer, the same at every step, applied
behind the highway. Each word is tagged by itself; that I-X follows only B-X or I-X is left to
decoding.

Shapes: source (B, T) ids, `extras["marks"]` (B, T); logits (B, T, num_tags); zero at padding.

**Departs from the paper**: word vectors start at random (paper: GloVe). Dropout divides by 1 - p in
training (the released code multiplies h by 1 - p afterwards); h is only read through products, so
this is the same family of functions. The forget gate's 1 is the start of its bias (the code adds it
to a bias that starts at 0), which is the same function. A model without marks (`marks=False`) tags
sentences as such; there is none in the paper.
"""

import torch
from torch import Tensor, nn

from regard.layers.embed import Embed
from regard.layers.highway import HighwayLSTM
from regard.layers.linear import linear
from regard.models._tagging import WordBatch
from regard.protocols import Inputs, Output

__all__ = ["HighwayBiLSTM"]


class HighwayBiLSTM(nn.Module):
    """A tagger of highway LSTM layers, forward and backward in turns.

    Args:
        vocab_size: size of the vocabulary.
        num_tags: of the output.
        embed: size of a word vector.
        marks: whether a predicate is marked.
        mark: size of a mark's vector.
        hidden: cells of each layer.
        layers: the first one reads forward.
        dropout: of h, from step to step and to the next layer.

    Example:
        >>> model = HighwayBiLSTM(50, 5, embed=8, marks=False, hidden=6, layers=2)
        >>> model(torch.tensor([[7, 8, 9]])).logits.shape
        torch.Size([1, 3, 5])
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_tags: int,
        *,
        embed: int = 100,
        marks: bool = True,
        mark: int = 100,
        hidden: int = 300,
        layers: int = 8,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.vocab_size, self.num_tags = vocab_size, num_tags
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.mark = nn.Embedding(2, mark) if marks else None
        first = embed + mark if marks else embed
        self.layers = nn.ModuleList(
            HighwayLSTM(hidden if i else first, hidden, dropout=dropout) for i in range(layers)
        )
        self.output = nn.Linear(hidden, num_tags)
        nn.init.normal_(self.output.weight, std=0.01)
        nn.init.zeros_(self.output.bias)
        if self.mark is not None:
            nn.init.normal_(self.mark.weight, std=0.01)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sentences with their marks: logits (B, T, num_tags)."""
        batch = WordBatch.of(source, lengths)
        layout = batch.layout
        x = self.embed(layout.take(batch.ids), batch.packed_states)
        if self.mark is not None:
            x = torch.cat([x, self.mark(layout.take(batch.marks))], -1)
        for i, layer in enumerate(self.layers):
            x = layer(x, layout, backward=i % 2 == 1)
        return Output(batch.cut(layout.put(linear(self.output, x))), {})
