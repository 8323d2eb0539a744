"""Training steps of taggers against the same models in plain PyTorch with padded batches.

    OMP_NUM_THREADS=1 python benchmarks/tagging.py deepatt                  # the paper's sizes
    OMP_NUM_THREADS=1 python benchmarks/tagging.py deepatt --order random
    OMP_NUM_THREADS=1 python benchmarks/tagging.py highway --layers 2

A step is forward, cross-entropy and backward of one batch. The plain DeepAtt has
`nn.MultiheadAttention`; the plain highway LSTM is a loop over the steps of padded batches, with the
products of the inputs computed before it. Lengths of sentences are drawn with mean 24, as in
newspapers. `sorted`: a batch has sentences of like length, as in `data.batch.plan`; `random`: as
they come. Both sides have the same weights; `error` is the largest difference of
the logits of words, relative to the largest. Ratios are of CPU times, min, median and max over the
repeats, the sides taking turns.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from paired import machine, paired, row
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batch import plan
from regard.layers.positional_encoding import sinusoid
from regard.models.highway_bilstm import HighwayBiLSTM
from regard.models.srl_attention import DeepAttTagger
from regard.protocols import Inputs

VOCABULARY, TAGS = 20_000, 105


class PlainLayer(nn.Module):
    """The feed-forward layer, then attention; each is added, then normalized."""

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.look = nn.MultiheadAttention(dim, 8, dropout=dropout / 2, batch_first=True)
        self.first, self.second = (nn.LayerNorm(dim, eps=1e-6) for _ in range(2))
        self.drop, self.drop_hidden = nn.Dropout(dropout), nn.Dropout(dropout / 2)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """x (B, T, d); hidden (B, T) is the padding."""
        x = self.first(x + self.drop(self.out(self.drop_hidden(torch.relu(self.into(x))))))
        seen = self.look(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
        return self.second(x + self.drop(seen))


class PlainDeepAtt(nn.Module):
    """The whole model, padded."""

    def __init__(self, ours: DeepAttTagger, dropout: float) -> None:
        super().__init__()
        self.words, self.mark = nn.Embedding(VOCABULARY, 100, padding_idx=0), nn.Embedding(2, 100)
        self.bias, self.drop = nn.Parameter(torch.zeros(200)), nn.Dropout(dropout)
        self.layers = nn.ModuleList(PlainLayer(200, dropout) for _ in ours.layers)
        self.output = nn.Linear(200, TAGS)
        self.take(ours)

    def forward(self, source: Inputs) -> Tensor:
        """Logits."""
        ids, hidden = source.values, source.values == 0
        x = torch.cat([self.words(ids), self.mark(source.extras["marks"])], -1)
        x = (x * math.sqrt(200)).masked_fill(hidden[..., None], 0.0) + self.bias
        x = self.drop(x + sinusoid(ids.shape[1], 200, "halves"))
        for layer in self.layers:
            x = layer(x, hidden)
        return self.output(x)

    @torch.no_grad()
    def take(self, ours: DeepAttTagger) -> None:
        """The same weights."""
        self.bias.copy_(ours.bias)
        pairs = [(self.words, ours.embed), (self.mark, ours.mark), (self.output, ours.output)]
        for mine, own in zip(self.layers, ours.layers, strict=True):
            inner, look = own.nonlinear.feedforward, own.attention
            pairs += [(mine.into, inner.into), (mine.out, inner.out)]
            pairs += [(mine.first, own.nonlinear_residual.norm)]
            pairs += [(mine.second, own.attention_residual.norm), (mine.look.out_proj, look.out)]
            three = (look.query, look.key, look.value)
            mine.look.in_proj_weight.copy_(torch.cat([one.weight for one in three]))
            mine.look.in_proj_bias.copy_(torch.cat([one.bias for one in three]))
        for to, own in pairs:
            to.load_state_dict(own.state_dict())


class PlainHighway(nn.Module):
    """A loop over steps with autograd; rows are turned whole words at a time, padding stays."""

    def __init__(self, ours: HighwayBiLSTM, dropout: float) -> None:
        super().__init__()
        self.ours, self.dropout = ours, dropout

    def forward(self, source: Inputs) -> Tensor:
        """Logits."""
        ids, lengths = source.values, source.lengths
        x = torch.cat([self.ours.embed(ids), self.ours.mark(source.extras["marks"])], -1)
        steps = torch.arange(ids.shape[1])
        mirrored = lengths[:, None] - 1 - steps
        turn = torch.where(mirrored >= 0, mirrored, steps)[..., None]
        for layer in self.ours.layers:
            size = layer.hidden
            gates = F.linear(x, layer.input.weight, layer.input.bias)
            h = c = x.new_zeros(len(x), size)
            kept = F.dropout(torch.ones_like(h), self.dropout, self.training)
            states = []
            for t in range(ids.shape[1]):
                own = gates[:, t]
                met = own[:, : 5 * size] + h @ layer.recurrent.t()
                i, f, o, r = torch.sigmoid(met[:, : 4 * size]).chunk(4, -1)
                c = f * c + i * torch.tanh(met[:, 4 * size :])
                h = (r * o * torch.tanh(c) + (1 - r) * own[:, 5 * size :]) * kept
                states.append(h)
            x = torch.stack(states, 1)
            x = x.gather(1, turn.expand_as(x))
        if len(self.ours.layers) % 2:
            x = x.gather(1, turn.expand_as(x))
        return self.ours.output(x)


def batch(tokens: int, order: str) -> Inputs:
    """One batch of about so many words."""
    random = np.random.default_rng(1)
    lengths = np.clip(random.gamma(5.0, 4.8, 4000).round(), 2, 100).astype(int)
    if order == "sorted":
        batches = plan(lengths[:, None], tokens=tokens)
        sizes = lengths[batches[len(batches) // 2]]
    else:
        sizes = lengths[: np.searchsorted(lengths.cumsum(), tokens)]
    each = torch.tensor(sizes)
    ids = torch.randint(4, VOCABULARY, (len(each), int(each.max())))
    ids *= torch.arange(ids.shape[1]) < each[:, None]
    marks = torch.zeros_like(ids)
    marks[torch.arange(len(each)), (torch.rand(len(each)) * each).long()] = 1
    return Inputs(ids, each, {"marks": marks})


def step(model: nn.Module, run: Callable[[], Tensor], gold: Tensor) -> Tensor:
    """One training step without its update."""
    model.zero_grad()
    logits = run()
    F.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=-100).backward()
    return logits.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["deepatt", "highway"])
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--order", choices=["sorted", "random"], default="sorted")
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.manual_seed(1)
    source = batch(given.tokens, given.order)
    real = source.values != 0
    gold = torch.randint(TAGS, real.shape).masked_fill(~real, -100)
    if given.what == "deepatt":
        rate = 0.2 if given.dropout is None else given.dropout
        own = {"dropout": rate, "attention_dropout": rate / 2, "activation_dropout": rate / 2}
        ours = DeepAttTagger(VOCABULARY, TAGS, layers=given.layers or 10, **own)
        plain = PlainDeepAtt(ours, rate)
    else:
        rate = 0.1 if given.dropout is None else given.dropout
        ours = HighwayBiLSTM(VOCABULARY, TAGS, layers=given.layers or 8, dropout=rate)
        plain = PlainHighway(ours, rate)

    def mine() -> Tensor:
        return step(ours, lambda: ours(source).logits, gold)

    def theirs() -> Tensor:
        return step(plain, lambda: plain(source), gold)

    with torch.no_grad():
        one, two = ours.eval()(source).logits[real], plain.eval()(source)[real]
    ours.train(), plain.train()
    mine()
    started = time.process_time()
    mine()
    spent = time.process_time() - started
    row(
        id=given.what, layers=len(ours.layers), order=given.order, shape=list(real.shape),
        words=int(real.sum()), dropout=rate, dtype="float32",
        error=float(f"{((one - two).abs().max() / two.abs().max()).item():.2g}"),
        words_per_second=round(int(real.sum()) / spent),
        ratio=paired(mine, theirs, given.repeats), **machine(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
