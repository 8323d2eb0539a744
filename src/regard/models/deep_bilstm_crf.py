r"""A deep LSTM whose directions alternate, with a chain over the tags, for semantic roles.

Zhou and Xu, "End-to-end Learning of Semantic Role Labeling Using Recurrent Neural Networks", ACL
2015.

    x_t     = [e(w_t); e(w_p); e(w_{p-2}); …; e(w_{p+2}); m(1[|t - p| <= 2])]
    z_t^1   = W_1 x_t + b_1
    h_t^l   = LSTM(z_t^l, h_{t'}^l)                          t' = t - 1 in odd layers, t + 1 in even
    z_t^l+1 = W_{l+1} [z_t^l; h_t^l] + b_{l+1}               of the lower layer's input and output
    E_t     = W_o [z_t^L; h_t^L] + b_o                       emissions
    s(y)    = b_{y_1} + Σ_t E_{t,y_t} + Σ_t A_{y_t,y_{t+1}} + e_{y_T}

p is the predicate, the first marked word. Its word, the words around it and the sentence's words
share one table e; beyond the sentence the vector is 0. The logits are the emissions E; A, b and e
are in `extra` under "transitions", "start" and "end".

Shapes: source (B, T) ids, `extras["marks"]` (B, T); logits (B, T, num_tags), zero at padding;
transitions (num_tags, num_tags), start and end (num_tags,).

**Departs from the paper**: word vectors start at random (paper: pretrained). LSTMs are PyTorch's,
with two bias vectors and without peepholes. z has as many numbers as an LSTM has cells. The sizes
of z, of h and of a mark are our choice. A model without marks (`marks=False`) reads words alone;
there is none in the paper.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.crf import LinearChain
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.lstm import LSTM
from regard.models._tagging import WordBatch
from regard.protocols import PAD, Inputs, Output

__all__ = ["DeepBiLSTMCRF"]


class DeepBiLSTMCRF(nn.Module):
    """A tagger with a linear chain on LSTM layers, forward and backward in turns.

    Args:
        vocab_size: size of the vocabulary.
        num_tags: of the output.
        embed: size of a word vector.
        marks: whether a predicate is marked.
        mark: size of the vector of the mark of the region.
        window: words around the predicate, itself among them; an odd number.
        hidden: cells of each layer.
        layers: L; the first one reads forward.
        dropout: on what each layer is projected from; the paper has none.

    Example:
        >>> model = DeepBiLSTMCRF(50, 5, embed=8, marks=False, hidden=6, layers=2)
        >>> model(torch.tensor([[7, 8, 9]])).logits.shape
        torch.Size([1, 3, 5])
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_tags: int,
        *,
        embed: int = 32,
        marks: bool = True,
        mark: int = 5,
        window: int = 5,
        hidden: int = 128,
        layers: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if window % 2 == 0:
            raise RequestError(
                f"expected an odd number of words around the predicate, got window={window}"
            )
        self.vocab_size, self.num_tags = vocab_size, num_tags
        self.window, self.dropout = window, dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.mark = nn.Embedding(2, mark) if marks else None
        first = embed * (2 + window) + mark if marks else embed
        self.project = nn.ModuleList(
            nn.Linear(2 * hidden if i else first, hidden) for i in range(layers)
        )
        self.layers = nn.ModuleList(LSTM(hidden, hidden, bias=True) for _ in range(layers))
        self.output = nn.Linear(2 * hidden, num_tags)
        self.chain = LinearChain(num_tags)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sentences with their marks: emissions (B, T, num_tags), the chain in `extra`."""
        batch = WordBatch.of(source, lengths)
        layout = batch.layout
        x = self.embed(layout.take(batch.ids), batch.packed_states)
        if self.mark is not None:
            context, region = self._predicate(batch)
            mark = self.mark(layout.take(region))
            x = torch.cat([x, layout.take(context), mark], -1)
        for i, (project, layer) in enumerate(zip(self.project, self.layers, strict=True)):
            z = linear(project, dropout(x, self.dropout, self.training))
            h = layer.packed(z, layout, backward=i % 2 == 1)  # type: ignore[operator]
            x = torch.cat([z, h.to(z.dtype)], -1)
        emissions = batch.cut(layout.put(linear(self.output, x)))
        return Output(emissions, self.chain()._asdict())

    def _predicate(
        self, batch: WordBatch
    ) -> tuple[Float[Tensor, "batch time context"], Int[Tensor, "batch time"]]:
        """Of each word: the predicate and the words around it, and whether it is one of these."""
        side, time = self.window // 2, batch.ids.shape[1]
        marked = batch.marks
        at, there = marked.argmax(1), marked.any(1, keepdim=True)  # the first of the largest
        around = at[:, None] + torch.arange(self.window, device=at.device)  # in a padded sentence
        words = F.pad(batch.ids, (side, side), value=PAD).gather(1, around).where(there, PAD)
        read = torch.cat([words[:, side : side + 1], words], 1)
        states = None
        if batch.states is not None:
            rows = torch.arange(len(at), device=at.device)[:, None]
            near = F.pad(batch.states, (0, 0, 0, 0, side, side))[rows, around]
            near = near * there[..., None, None]
            states = torch.cat([near[:, side : side + 1], near], 1)
        context = self.embed(read, states).flatten(1)
        far = (torch.arange(time, device=at.device) - at[:, None]).abs()
        region = ((far <= side) & there).long()
        return context[:, None].expand(-1, time, -1), region
