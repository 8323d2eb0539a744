r"""BiLSTM-CRF: a bidirectional LSTM over words and their characters, and a chain over the tags.

Huang, Xu and Yu, "Bidirectional LSTM-CRF Models for Sequence Tagging", 2015, arXiv 1508.01991;
Lample, Ballesteros, Subramanian, Kawakami and Dyer, "Neural Architectures for Named Entity
Recognition", NAACL 2016, arXiv 1603.01360.

    c(w)   = [→c_last; ←c_first]                              a bidirectional LSTM over characters
    x_t    = Dropout([e(w_t); c(w_t); e_1(t); …; m(1[t = p])])             e_k: of further columns
    h_t    = [→h_t; ←h_t]
    E_t    = W_o tanh(W_f h_t + b_f) + b_o                                 emissions
    s(y)   = b_{y_1} + Σ_t E_{t,y_t} + Σ_t A_{y_t,y_{t+1}} + e_{y_T}       score of a tagging

The logits are the emissions E; A, b and e are in `extra` under "transitions", "start" and "end",
for a loss and a search over whole taggings. Without `ffn_dim` there is no tanh layer, as in Huang
et al.; characters, further columns and marks are read where the model is built with them.

Shapes: source (B, T) ids, `extras["characters"]` (B, T, C), `extras["features"]` (B, T, F),
`extras["marks"]` (B, T); logits (B, T, num_tags), zero at padding; transitions (num_tags,
num_tags), start and end (num_tags,).

**Departs from the paper**: word vectors start at random (papers: pretrained). LSTMs are PyTorch's:
no peepholes, a forget gate of its own, two bias vectors (Lample et al.: peepholes and f = 1 - i).
Further columns have vectors and are read by the LSTM; Huang et al. connect them to the output as
well. Rare words stay as they are (Lample et al. train half of the singletons as unknown).
"""

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.layers.bilstm import BiLSTM
from regard.layers.crf import LinearChain
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.models._characters import LetterLSTM, characters_of
from regard.models._tagging import WordBatch
from regard.protocols import Inputs, Output

__all__ = ["BiLSTMCRF"]


class BiLSTMCRF(nn.Module):
    """A tagger with a linear chain on a bidirectional LSTM.

    Args:
        vocab_size: size of the vocabulary.
        num_tags: of the output.
        num_characters: how many there are; 0: words alone.
        num_features: ids of the further columns, in one table; 0: there are none.
        feature_columns: how many columns.
        embed: size of a word vector.
        character: size of a character's vector.
        character_hidden: cells of each direction over characters.
        feature: size of the vector of a further column.
        marks: whether a predicate is marked.
        mark: size of a mark's vector.
        hidden: cells of each direction over words.
        ffn_dim: units of the tanh layer; none: emissions come from the states.
        dropout: on what the LSTM reads.

    Raises:
        RequestError: ids of further columns without columns, or the other way round.

    Example:
        >>> output = BiLSTMCRF(50, 5, embed=8, hidden=6, ffn_dim=6)(torch.tensor([[7, 8, 9]]))
        >>> output.logits.shape, output.extra["transitions"].shape
        (torch.Size([1, 3, 5]), torch.Size([5, 5]))
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_tags: int,
        num_characters: int = 0,
        num_features: int = 0,
        feature_columns: int = 0,
        *,
        embed: int = 100,
        character: int = 25,
        character_hidden: int = 25,
        feature: int = 25,
        marks: bool = False,
        mark: int = 100,
        hidden: int = 100,
        ffn_dim: int | None = 100,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if bool(num_features) != bool(feature_columns):
            raise RequestError(
                "expected num_features and feature_columns together, got "
                f"num_features={num_features} and feature_columns={feature_columns}"
            )
        self.vocab_size, self.num_tags, self.num_characters = vocab_size, num_tags, num_characters
        self.num_features, self.feature_columns = num_features, feature_columns
        self.dropout = dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        read = embed + feature * feature_columns + mark * marks
        self.letters: LetterLSTM | None = None
        if num_characters:
            self.letters = LetterLSTM(num_characters, character, character_hidden)
            read += 2 * character_hidden
        self.feature = Embed(num_features, feature) if num_features else None
        self.mark = nn.Embedding(2, mark) if marks else None
        self.lstm = BiLSTM(read, hidden, bias=True)
        self.hidden = nn.Linear(2 * hidden, ffn_dim) if ffn_dim else None
        self.output = nn.Linear(ffn_dim or 2 * hidden, num_tags)
        self.chain = LinearChain(num_tags)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sentences: emissions (B, T, num_tags), and the chain in `extra`."""
        batch = WordBatch.of(source, lengths)
        layout = batch.layout
        parts = [self.embed(layout.take(batch.ids), batch.packed_states)]
        if self.letters is not None:
            parts.append(self.letters(layout.take(characters_of(batch.source))))
        if self.feature is not None:
            ids = layout.take(batch.features(self.feature_columns))
            parts.append(self.feature(ids).flatten(1))
        if self.mark is not None:
            parts.append(self.mark(layout.take(batch.marks)))
        x = dropout(torch.cat(parts, -1), self.dropout, self.training)
        h = self.lstm.packed(x, layout)
        if self.hidden is not None:
            h = torch.tanh(linear(self.hidden, h))
        emissions = batch.cut(layout.put(linear(self.output, h)))
        return Output(emissions, self.chain()._asdict())
