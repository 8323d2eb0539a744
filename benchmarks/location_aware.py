"""Location-aware attention (Chorowski et al. 2015) beside plain PyTorch: training and decoding.

    OMP_NUM_THREADS=1 python benchmarks/location_aware.py                # sizes of the paper
    OMP_NUM_THREADS=1 python benchmarks/location_aware.py --frames 100 --state 96 --align 96
    OMP_NUM_THREADS=1 python benchmarks/location_aware.py --sounds 1     # decode one sound

The plain form is what a careful user writes: V h once for each sound, then in a Python loop over
the symbols a convolution of the last weights, two linear layers, tanh, softmax, a product with the
states, and a gated unit. Its beam search has a row for each hypothesis, so states and keys are
repeated. Both sides have the same weights and begin at the states of the encoder, which is the same
for both; dropout is 0 and every search gives exactly `--symbols` symbols.

`error` is the largest difference of logits (training) or of the log-probabilities of the best
hypotheses (decoding), `gradient_error` that of the gradients of V and F, each relative to the
largest value. Ratios are of CPU times, the sides taking turns.
"""

import argparse
import time
from functools import partial

import torch
from paired import machine, paired, row
from torch import Tensor
from torch.nn import functional as F

from regard.attention import kernels
from regard.decode import Beam, Greedy
from regard.layers.maxout import maxout
from regard.models.arsg import ARSG
from regard.protocols import BOS, EOS, PAD, Encoded

VOCABULARY = 40


class Plain:
    """The decoder of ARSG in plain PyTorch, with the weights of ours."""

    def __init__(self, ours: ARSG) -> None:
        self.ours, self.score = ours, ours.attention.score
        self.size = ours.recurrent.hidden

    def look(self, state: Tensor, keys: Tensor, states: Tensor, outside: Tensor, last: Tensor):
        """Context (B, 2H) and weights (B, T)."""
        score = self.score
        f = F.conv1d(last[:, None], score.filters.weight, padding=score.filters.padding[0])
        located = score.features(f.transpose(1, 2))
        e = torch.tanh(score.query(state)[:, None] + keys + located) @ score.v
        weights = torch.softmax(e.masked_fill(outside, -torch.inf), -1)
        return torch.bmm(weights[:, None], states)[:, 0], weights

    def advance(self, word: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """A gated unit whose reset gate comes before the product, as the paper's."""
        model, two = self.ours, 2 * self.size
        inputs = word + model.context(context)
        weight = model.recurrent.weight
        r, z = torch.sigmoid(inputs[:, :two] + F.linear(state, weight[:two])).chunk(2, -1)
        new = torch.tanh(inputs[:, two:] + F.linear(r * state, weight[two:]))
        return (1 - z) * state + z * new

    def begin(self, states: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """V h, what lies outside, s_0, the first weights."""
        outside = torch.arange(states.shape[1]) >= lengths[:, None]
        last = torch.zeros(states.shape[:2])
        last[:, 0] = 1
        return self.score.key(states), outside, self.ours.first.expand(len(states), -1), last

    def output(self, states: Tensor, contexts: Tensor) -> Tensor:
        """Logits."""
        model = self.ours
        read = maxout(model.readout.linear(torch.cat([states, contexts], -1)))
        return model.output(read)

    def forward(self, states: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Logits (B, U, V), teacher forced."""
        keys, outside, state, last = self.begin(states, lengths)
        words = self.ours.word(self.ours.embed_target(target[:, 1:]))
        seen, read = [], []
        for i in range(target.shape[1]):
            if i:
                state = self.advance(words[:, i - 1], read[-1], state)
            context, last = self.look(state, keys, states, outside, last)
            seen.append(state)
            read.append(context)
        return self.output(torch.stack(seen, 1), torch.stack(read, 1))

    @torch.inference_mode()
    def search(self, encoded: Encoded, beam: int, symbols: int) -> Tensor:
        """Log-probabilities (B,) of the best hypotheses."""
        count = len(encoded.states)
        states = encoded.states.repeat_interleave(beam, 0)
        lengths = encoded.lengths.repeat_interleave(beam, 0)
        keys, outside, state, last = self.begin(states, lengths)
        total = torch.full((count, beam), -torch.inf)
        total[:, 0] = 0
        context, token = None, None
        start = torch.arange(count)[:, None] * beam
        for step in range(symbols):
            if context is not None:
                words = self.ours.word(self.ours.embed_target(token))
                state = self.advance(words, context, state)
            context, last = self.look(state, keys, states, outside, last)
            logs = self.output(state, context).log_softmax(-1)
            logs[:, : EOS + (step < symbols - 1)] = -torch.inf
            every = (total[..., None] + logs.view(count, beam, -1)).flatten(1)
            total, place = every.topk(beam)
            parent = (start + place // VOCABULARY).flatten()
            token = (place % VOCABULARY).flatten()
            state, context, last = state[parent], context[parent], last[parent]
        return total[:, 0]


class Frozen:
    """A model whose encoder has already read the sounds."""

    def __init__(self, model: ARSG, encoded: Encoded) -> None:
        self.model, self.encoded = model, encoded

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)


def problem(given: argparse.Namespace) -> tuple[ARSG, Encoded, Tensor]:
    """A model, states of sounds of half to all of `--frames` frames, and symbols."""
    model = ARSG(
        given.hidden, VOCABULARY, hidden=given.hidden, layers=1, state=given.state,
        align=given.align, width=given.width, scale=None,
    )  # fmt: skip
    states = torch.randn(given.sounds, given.frames, 2 * given.hidden)
    lengths = torch.randint(given.frames // 2, given.frames + 1, (given.sounds,))
    lengths[0] = given.frames
    target = torch.randint(EOS + 1, VOCABULARY, (given.sounds, given.symbols))
    target[:, 0] = BOS
    return model, Encoded(states, lengths), target


def training(given: argparse.Namespace) -> None:
    """Forward, cross-entropy and backward of the decoder."""
    model, encoded, target = problem(given)
    states, lengths = encoded.states.requires_grad_(), encoded.lengths
    plain = Plain(model)
    model.encode = lambda source, lengths=None: encoded  # the same states for both
    read = F.pad(target[:, 1:], (0, 1), value=EOS)

    def ours() -> Tensor:
        return model(states, target).logits

    def step(logits) -> dict[str, Tensor]:
        model.zero_grad()
        F.cross_entropy(logits().flatten(0, 1), read.flatten(), ignore_index=PAD).backward()
        score = model.attention.score
        return {"V": score.key.weight.grad, "F": score.filters.weight.grad}

    theirs = partial(plain.forward, states, lengths, target)
    with torch.no_grad():
        expected, found = theirs(), ours()
    error = float((expected - found).abs().max() / expected.abs().max())
    right, got = step(theirs), step(ours)
    apart = max(float((got[n] - right[n]).abs().max() / right[n].abs().max()) for n in right)
    start = time.process_time()
    step(ours)
    spent = time.process_time() - start
    baselines = {"plain": partial(step, theirs), "reference": partial(forced, partial(step, ours))}
    for name, baseline in baselines.items():
        row(
            id="location-aware/training", baseline=name,
            ratio=paired(partial(step, ours), baseline, given.repeats),
            symbols_per_second=round(target.numel() / spent), error=f"{error:.1e}",
            gradient_error=f"{apart:.1e}", **said(given),
        )  # fmt: skip


def forced(f):
    """With the parts as written, no kernel."""
    with kernels("reference"):
        return f()


def decoding(given: argparse.Namespace) -> None:
    """Greedy and beam search from the states of the encoder."""
    model, encoded, _ = problem(given)
    model.eval()
    plain = Plain(model)
    model.encode = lambda source, lengths=None: encoded
    frames = torch.zeros(given.sounds, given.frames, given.hidden)
    fixed = {"min_length": given.symbols, "max_length": given.symbols, "length_penalty": 0.0}
    for beam in dict.fromkeys((1, given.beam)):
        decoder = Greedy(**fixed) if beam == 1 else Beam(beam, **fixed)
        ours = partial(decoder, model, frames, encoded.lengths)
        start = time.process_time()
        best = ours()
        spent = time.process_time() - start
        theirs = partial(plain.search, encoded, beam, given.symbols)
        expected = theirs()
        found = torch.tensor([one[0].score for one in best])
        error = float((found - expected).abs().max() / expected.abs().max())
        row(
            id=f"location-aware/beam{beam}", baseline="plain",
            ratio=paired(ours, theirs, given.repeats),
            symbols_per_second=round(given.sounds * given.symbols / spent), error=f"{error:.1e}",
            **said(given),
        )  # fmt: skip


def said(given: argparse.Namespace) -> dict[str, object]:
    """What was measured, and on what."""
    names = ("sounds", "frames", "symbols", "hidden", "state", "align", "width")
    return {"shape": {n: getattr(given, n) for n in names}, "dtype": "float32", **machine()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sounds", type=int, default=8)
    parser.add_argument("--frames", type=int, default=300, help="states of the longest sound")
    parser.add_argument("--symbols", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=256, help="of each direction of the encoder")
    parser.add_argument("--state", type=int, default=256)
    parser.add_argument("--align", type=int, default=512)
    parser.add_argument("--width", type=int, default=201)
    parser.add_argument("--beam", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    training(given)
    decoding(given)


if __name__ == "__main__":
    main()
