"""Training steps of DiSAN and HAN against plain PyTorch, as the papers' codes write them.

    OMP_NUM_THREADS=1 python benchmarks/sentences.py disan                 # 64 x 50 words, d 300
    OMP_NUM_THREADS=1 python benchmarks/sentences.py disan --size 100 --words 25
    OMP_NUM_THREADS=1 python benchmarks/sentences.py han                   # 64 documents, ragged
    OMP_NUM_THREADS=1 python benchmarks/sentences.py han --baseline packed

A step is forward, cross-entropy and backward of one batch. The plain DiSAN stores the tensor of
all pairs and features; the plain HAN pads sentences and documents to the longest, or with
`--baseline packed` has PyTorch's packed sequences. Both sides have the same weights; `error` is the
largest difference of logits, `gradient_error` of the gradients of the word vectors, each relative
to the largest value. Ratios are of CPU times, min, median and max over the repeats, the sides
taking turns; `mib` is what a process of its own adds to its peak while it does one step.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from paired import machine, paired, row
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.disan import DiSAN
from regard.models.han import HAN
from regard.protocols import Inputs

VOCABULARY, CLASSES, BATCH = 20_000, 5, 64


class PlainBlock(nn.Module):
    """A directional block that stores (B, T, T, D)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.map = nn.Linear(size, size)
        self.head, self.dependent = nn.Linear(size, size, bias=False), nn.Linear(size, size)
        self.of_sum, self.of_map = nn.Linear(size, size, bias=False), nn.Linear(size, size)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        """Words x (B, T, D); allowed (B, T, T): may i look at j?"""
        h = F.elu(self.map(x))
        pairs = self.head(h)[:, :, None] + self.dependent(h)[:, None]
        scores = 5.0 * torch.tanh(pairs / 5.0)
        weights = torch.softmax(scores.masked_fill(~allowed[..., None], -1e30), 2)
        s = (weights * allowed[..., None] * h[:, None]).sum(2)
        gate = torch.sigmoid(self.of_sum(s) + self.of_map(h))
        return gate * h + (1 - gate) * s


class PlainDiSAN(nn.Module):
    """Both directions and source2token."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, size, padding_idx=0)
        self.ahead, self.back = PlainBlock(size), PlainBlock(size)
        self.inner, self.outer = (nn.Linear(2 * size, 2 * size) for _ in range(2))
        self.hidden, self.output = nn.Linear(2 * size, 300), nn.Linear(300, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        real, x = ids != 0, self.embed(ids)
        pairs = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device)
        sides = (self.ahead, pairs.tril(-1)), (self.back, pairs.triu(1))
        u = torch.cat([block(x, side & real[:, None]) for block, side in sides], -1)
        scores = self.outer(F.elu(self.inner(u))).masked_fill(~real[..., None], -1e30)
        s = (torch.softmax(scores, 1) * u).sum(1)
        return self.output(F.elu(self.hidden(s)))

    def take(self, ours: DiSAN) -> "PlainDiSAN":
        """The same weights."""
        theirs = ours.encoder
        copied = [(self.embed, theirs.embed)]
        for mine, block in zip((self.ahead, self.back), theirs.blocks, strict=True):
            copied += [
                (mine.map, block.map), (mine.head, block.attention.score.query),
                (mine.dependent, block.attention.score.key), (mine.of_sum, block.gate_sum),
                (mine.of_map, block.gate_map),
            ]  # fmt: skip
        score = theirs.pool.attention.score
        copied += [(self.inner, score.key), (self.outer, score.out)]
        copied += [(self.hidden, ours.head.hidden[0]), (self.output, ours.head.output)]
        for to, own in copied:
            to.load_state_dict(own.state_dict())
        return self


class PlainLevel(nn.Module):
    """A bidirectional GRU over padded rows, and attention to its states."""

    def __init__(self, inputs: int, hidden: int, context: int, packed: bool) -> None:
        super().__init__()
        self.ahead = nn.GRU(inputs, hidden, batch_first=True)
        self.back = nn.GRU(inputs, hidden, batch_first=True)
        self.key, self.context = nn.Linear(2 * hidden, context), nn.Parameter(torch.empty(context))
        self.packed = packed

    def run(self, gru: nn.GRU, x: Tensor, lengths: Tensor) -> Tensor:
        if not self.packed:
            return gru(x)[0]
        packing = nn.utils.rnn.pack_padded_sequence(
            x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False
        )
        return nn.utils.rnn.pad_packed_sequence(gru(packing)[0], True, total_length=x.shape[1])[0]

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (N, T, inputs) to (N, 2H)."""
        steps = torch.arange(x.shape[1])
        mirrored = lengths[:, None] - 1 - steps
        index = torch.where(mirrored >= 0, mirrored, steps)[..., None]
        ahead = self.run(self.ahead, x, lengths)
        back = self.run(self.back, x.gather(1, index.expand_as(x)), lengths)
        h = torch.cat([ahead, back.gather(1, index.expand_as(back))], -1)
        real = steps < lengths[:, None]
        scores = (torch.tanh(self.key(h)) @ self.context).masked_fill(~real, -1e30)
        weights = torch.softmax(scores, 1) * real
        return (weights[..., None] * h).sum(1)

    def take(self, ours: nn.Module) -> None:
        """The same weights; PyTorch's z keeps what the paper's z takes."""
        for mine, unit in ((self.ahead, ours.gru.ahead), (self.back, ours.gru.back)):
            sign = torch.ones(len(unit.input.bias))
            size = len(sign) // 3
            sign[size : 2 * size] = -1
            mine.weight_ih_l0.copy_(unit.input.weight * sign[:, None])
            mine.bias_ih_l0.copy_(unit.input.bias * sign)
            mine.weight_hh_l0.copy_(unit.recurrent.weight * sign[:, None])
            mine.bias_hh_l0.zero_()
        self.key.load_state_dict(ours.read.key.state_dict())
        self.context.copy_(ours.read.context)


class PlainHAN(nn.Module):
    """Every sentence of every document padded, empty ones too."""

    def __init__(self, packed: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 200, padding_idx=0)
        self.words = PlainLevel(200, 50, 100, packed)
        self.sentences = PlainLevel(100, 50, 100, packed)
        self.output = nn.Linear(100, CLASSES)

    def forward(self, ids: Tensor, lengths: Tensor, words: Tensor) -> Tensor:
        """Logits."""
        s = self.words(self.embed(ids.flatten(0, 1)), words.flatten()).unflatten(0, words.shape)
        return self.output(self.sentences(s, lengths))

    @torch.no_grad()
    def take(self, ours: HAN) -> "PlainHAN":
        """The same weights."""
        for mine, own in ((self.embed, ours.embed), (self.output, ours.output)):
            mine.load_state_dict(own.state_dict())
        self.words.take(ours.words)
        self.sentences.take(ours.sentences)
        return self


def documents(sentences: int, words: int) -> tuple[Tensor, Tensor, Tensor]:
    """Documents of about so many sentences of about so many words: from a third to 5 / 3 of it."""
    lengths = torch.randint(sentences // 3, 5 * sentences // 3 + 1, (BATCH,))
    each = torch.randint(words // 3, 5 * words // 3 + 1, (BATCH, int(lengths.max())))
    each = each * (torch.arange(each.shape[1]) < lengths[:, None])
    ids = torch.randint(4, VOCABULARY, (*each.shape, int(each.max())))
    return ids * (torch.arange(ids.shape[2]) < each[..., None]), lengths, each


def sides(given: argparse.Namespace) -> tuple[dict[str, Callable[[], Tensor]], dict, int]:
    """How each side makes its logits, the models, and the number of words."""
    torch.manual_seed(1)
    if given.what == "disan":
        ours = DiSAN(VOCABULARY, CLASSES, embed=given.size, dropout=0.0)
        plain = PlainDiSAN(given.size).take(ours)
        ids = torch.randint(4, VOCABULARY, (BATCH, given.words or 50))
        runs = {"ours": lambda: ours(ids).logits, "plain": lambda: plain(ids)}
        return runs, {"ours": ours, "plain": plain}, ids.numel()
    han = HAN(VOCABULARY, CLASSES)
    padded = PlainHAN(given.baseline == "packed").take(han)
    ids, lengths, words = documents(given.sentences, given.words or 20)
    batch = Inputs(ids, lengths, {"words": words})
    runs = {"ours": lambda: han(batch).logits, "plain": lambda: padded(ids, lengths, words)}
    return runs, {"ours": han, "plain": padded}, int(words.sum())


def step(run: Callable[[], Tensor], model: nn.Module) -> Tensor:
    """One training step without its update."""
    model.zero_grad()
    logits = run()
    labels = torch.arange(len(logits)) % CLASSES
    F.cross_entropy(logits, labels).backward()
    return logits.detach()


def peak() -> float:
    """The most resident memory this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def added_memory(way: str) -> float:
    """What one step adds to the peak of a process of its own, in MiB."""
    command = [sys.executable, __file__, *sys.argv[1:], "--memory", way]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["mib"])


def relative(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float(f"{((one - other).abs().max() / other.abs().max()).item():.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["disan", "han"])
    parser.add_argument("--size", type=int, default=300, help="of a word vector of DiSAN")
    parser.add_argument("--words", type=int, help="of a sentence; default 50, in documents 20")
    parser.add_argument("--sentences", type=int, default=12, help="of a document")
    parser.add_argument("--baseline", choices=["padded", "packed"], default="padded")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    # First of all: a process starts with the peak of the one that made it.
    mib = {} if given.memory else {way: round(added_memory(way), 1) for way in ("ours", "plain")}
    runs, models, words = sides(given)
    if given.memory:
        kept = given.words, given.sentences
        given.words, given.sentences = (
            3,
            3,
        )  # what is loaded and built at a first call is not memory
        small, others, _ = sides(given)
        step(small[given.memory], others[given.memory])
        given.words, given.sentences = kept
        before = peak()
        step(runs[given.memory], models[given.memory])
        print(json.dumps({"mib": peak() - before}))
        return
    logits = {way: step(runs[way], models[way]) for way in runs}
    gradients = [models[way].embed.weight.grad for way in runs]
    started = time.process_time()
    step(runs["ours"], models["ours"])
    spent = time.process_time() - started
    ratio = paired(*(lambda way=way: step(runs[way], models[way]) for way in runs), given.repeats)
    row(
        id=given.what, size=given.size if given.what == "disan" else 200, words=words,
        baseline=given.baseline if given.what == "han" else "all pairs stored",
        tokens_per_second=round(words / spent), ratio=ratio,
        mib=mib,
        error=relative(logits["ours"], logits["plain"]), gradient_error=relative(*gradients),
        **machine(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
