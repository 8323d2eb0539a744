r"""A translator with sparsely gated mixtures of experts between its LSTM layers.

Shazeer, Mirhoseini, Maziarz, Davis, Le, Hinton and Dean, "Outrageously Large Neural Networks: The
Sparsely-Gated Mixture-of-Experts Layer", ICLR 2017, arXiv 1701.06538, appendix E.

    encoder: LSTM both ways, LSTM, experts, LSTM             each with its input added
    decoder: LSTM (asks the source), experts, LSTM           likewise
    y_t^1  = LSTM_1([e(w_{t-1}) ; a_t]) + e(w_{t-1})         a_t: what attention read with y_{t-1}^1
    G(x)   = softmax(top_k(x W_g + ε softplus(x W_noise)))   eq. 3-5, see `layers.experts`
    A(x_j, y_t) = Σ_d V_d tanh(x_j U)_d tanh(y_t W)_d        its attention: a product, no sum
    loss   = cross-entropy + w (CV(Importance)² + CV(Load)²)      for each layer of experts

It is GNMT cut to 3 and 2 layers. Inputs and outputs of all layers have D = 512 features; LSTMs have
2048 cells and project to D. The first decoder layer alone asks the source and hears the answer (in
GNMT every decoder layer hears it). Dropout is on the output of every embedding, LSTM and mixture,
before the residual is added. The attention's score is a dot product of two projections, so fused
kernels do it.

Shapes: source (B, S) and target (B, T) ids; annotations (B, S, D); logits (B, T, V). The penalty
is in `Output.extra` and counts while training.

**Departs from the paper**: gates are flat (the paper's largest are hierarchical, two of a level's
groups and two experts in each, four in all); experts are chosen token by token, not in strictly
balanced batches. The two directions of the first layer are added up. What attention read stands
behind the word in the first decoder layer's input, which so has 2 D features. It is asked for with
h, which dropout and the residual have not touched. Decoders start from zero states and look before
the first layer's step, as in `gnmt`. The padding's vector is zero. V starts at 1 over the root of
its size: at 1 a trained model's attention was one-hot, on wrong words (docs/papers/moe.md).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Lengths, Memory
from regard.errors import RequestError
from regard.layers.bilstm import BiLSTM
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.experts import Experts
from regard.layers.lstm import LSTM
from regard.layers.pool import real
from regard.protocols import PAD, Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["MoE"]


class MoE(nn.Module):
    """Five LSTM layers and two mixtures of experts.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        dim: D, features of every layer's input and output.
        hidden: cells of an LSTM.
        experts: E, in each of the two mixtures.
        k: how many experts work on a token.
        ffn_dim: units of an expert.
        align: size of the attention's projections.
        balance: w, the weight of the penalties.
        dropout: on the output of every embedding, LSTM and mixture.
        scale: embeddings, LSTMs, attention and output start between -scale and scale; None is
            PyTorch's own start. Experts and gates keep theirs.
        forget_bias: what is added to the forget gates' biases at the start (Jozefowicz et al. 2015
            advise 1), so that cells remember from the first update on.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        dim: int = 512,
        hidden: int = 2048,
        experts: int = 2048,
        k: int = 4,
        ffn_dim: int = 2048,
        align: int = 512,
        balance: float = 0.01,
        dropout: float = 0.4,
        scale: float | None = None,
        forget_bias: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dim = dim
        self.balance, self.dropout = balance, dropout
        if hidden < dim:
            raise RequestError(f"model.hidden: expected dim={dim} cells or more, got {hidden}")
        project = dim if dim < hidden else 0

        def lstm(inputs: int) -> LSTM:
            return LSTM(inputs, hidden, bias=True, project=project)

        def mixture() -> Experts:
            return Experts(dim, ffn_dim, experts, k)

        self.embed_source = Embed(source_vocab_size, dim, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, dim, dropout=dropout)
        self.both = BiLSTM(dim, hidden, bias=True, project=project)
        self.second, self.encoder_experts, self.third = lstm(dim), mixture(), lstm(dim)
        self.query = nn.Linear(dim, align, bias=False)  # W
        self.key = nn.Linear(dim, align, bias=False)  # U
        self.v = nn.Parameter(torch.full((align,), align**-0.5))  # V
        self.attention = Attention(score=Dot(), role="cross")
        self.first, self.decoder_experts, self.last = lstm(2 * dim), mixture(), lstm(dim)
        self.output = nn.Linear(dim, target_vocab_size)
        self._initialize(scale, forget_bias)

    def _initialize(self, scale: float | None, forget_bias: float) -> None:
        mixtures = self.encoder_experts, self.decoder_experts
        kept = {id(self.v), *(id(weight) for layer in mixtures for weight in layer.parameters())}
        if scale is not None:
            for weight in self.parameters():
                if id(weight) not in kept:
                    nn.init.uniform_(weight, -scale, scale)
            self.embed_source.silence()
            self.embed_target.silence()
        if forget_bias:
            for layer in self.modules():
                if isinstance(layer, LSTM):
                    layer.remember(forget_bias)

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Annotations (B, S, D); `extra` has the experts' penalty."""
        source, lengths = ids_of(source, lengths)
        x = self.embed_source(source)
        ahead, back = self.both(x, lengths).chunk(2, -1)
        x = x + self._drop(ahead + back)
        x = x + self._drop(self.second(x, lengths)[0])
        mixed, penalty = self.encoder_experts(x, real(lengths, source))
        x = x + self._drop(mixed)
        x = x + self._drop(self.third(x, lengths)[0])
        return Encoded(x, lengths, extra={"penalty": penalty})

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: the first layer step by step, the rest over all of T."""
        encoded = self.encode(source, lengths)
        memory = self._remember(encoded)
        vectors = self.embed_target(target_in)  # (B, T, D)
        words = self._word(vectors)
        reading = self._reading()
        h, c = (state[:, 0, 0] for state in self._zeros(encoded))
        states = []
        for word in words.unbind(1):
            context = self._look(h[:, None], memory)[:, 0]  # (B, D)
            (h,), (c,) = self.first.step(word + F.linear(context, reading), [h], [c])
            states.append(h)
        x = vectors + self._drop(torch.stack(states, 1))
        mixed, penalty = self.decoder_experts(x, target_in != PAD)
        x = x + self._drop(mixed)
        x = x + self._drop(self.last(x)[0])
        total = self.balance * (penalty + encoded.extra["penalty"])
        return Output(project(self.output, x), {"penalty": total} if self.training else {})

    def start(self, encoded: Encoded) -> Decoding:
        """Prepare the source's keys; both layers' states are zero."""
        h, c = self._zeros(encoded)
        return Decoding({"source": self._remember(encoded)}, {"h": h, "c": c})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        h, c = (decoding.carried[k] for k in ("h", "c"))
        context = self._look(h[:, :, 0], decoding.memories["source"]).flatten(0, 1)
        h, c = ([state for state in x.flatten(0, 1).split(1, 1)] for x in (h, c))
        vectors = self.embed_target(tokens).flatten(0, 1)
        gates = self._word(vectors) + F.linear(context, self._reading())
        (low,), (low_c,) = self.first.step(gates, [h[0][:, 0]], [c[0][:, 0]])
        x = vectors + self._drop(low)
        x = x + self._drop(self.decoder_experts(x)[0])
        (high,), (high_c,) = self.last.step(self.last.project(x), [h[1][:, 0]], [c[1][:, 0]])
        logits: Tensor = self.output(x + self._drop(high)).unflatten(0, tokens.shape)
        carried = {
            name: torch.stack(pair, 1).unflatten(0, tokens.shape)
            for name, pair in (("h", (low, high)), ("c", (low_c, high_c)))
        }
        return logits, decoding.advance(**carried)

    def _zeros(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """Both decoder layers' h (B, 1, 2, D) and c (B, 1, 2, cells)."""
        size, zeros = (len(encoded.states), 1, 2), encoded.states.new_zeros
        return zeros(*size, self.dim), zeros(*size, self.first.hidden)

    def _remember(self, encoded: Encoded) -> Memory:
        keys = torch.tanh(self.key(encoded.states))
        return self.attention.remember(keys, encoded.states, mask=Lengths(encoded.lengths))

    def _look(self, states: Tensor, memory: Memory) -> Tensor:
        """What attention reads, for any number of steps or hypotheses: (B, Q, D)."""
        context: Tensor = self.attention(self.v * torch.tanh(self.query(states)), memory).context
        return context.to(states.dtype)

    def _word(self, vectors: Tensor) -> Tensor:
        return self.first.project(vectors, slice(self.dim))

    def _reading(self) -> Tensor:
        """The columns of the first decoder layer that meet what attention read."""
        return self.first.stack.get_parameter("weight_ih_l0")[:, self.dim :]

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
