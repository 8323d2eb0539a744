"""Self-critical training and decoding of a summarizer against plain loops in PyTorch.

    python benchmarks/self_critical.py            # 32 texts of up to 60 words, one thread

Training: one update's loss and gradients, the cross-entropy and the rewards. The plain loops write
greedily, then draw with a gradient, step by step, until every headline has ended. Ours writes both
in one batch without a gradient, from which headlines leave, and scores what was drawn all at once.
`error` is the largest relative difference of the log-probabilities of one drawn batch.

Decoding: greedily; the program stops where a loop writes other headlines than ours.

The plain loops: `the model's own step`; `equations`, the paper's equations in PyTorch as they are
printed, so that W_out = tanh(W_emb W_proj) is made at every step, or `once`; `no cache`, the
teacher-forced model over what was written so far, for every word.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from paired import machine, paired, row
from torch import Tensor, nn

from regard.data.batch import PairBatch
from regard.decode import Greedy
from regard.layers.deferred_logits import deferring
from regard.losses.self_critical import SelfCritical, charged, plain, write_both
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.metrics.overlap import rouge_l
from regard.models.paulus import Paulus
from regard.protocols import BOS, EOS, PAD, UNK, Inputs

LIMIT = 20


def texts(rows: int, words: int, vocabulary: int) -> PairBatch:
    """Texts with words that the vocabulary lacks, and headlines of 3 to 16 words made of both."""
    lengths = torch.randint(words // 3, words + 1, (rows,))
    copies = torch.randint(UNK + 1, vocabulary + 6, (rows, words))
    copies[torch.arange(words) >= lengths[:, None]] = PAD
    copies[torch.arange(rows), lengths - 1] = EOS
    ids = torch.where(copies < vocabulary, copies, UNK)
    sizes = torch.randint(4, 18, (rows,))
    out = copies[:, : int(sizes.max())].clone()
    out[torch.arange(out.shape[1]) >= sizes[:, None]] = PAD
    out[torch.arange(rows), sizes - 1] = EOS
    into = torch.cat([torch.full((rows, 1), BOS), out[:, :-1]], 1)
    source = Inputs(ids, lengths, {"copies": copies})
    return PairBatch(source, lengths, into, out, list(range(rows)), int(sizes.sum()))


def ended_like(model: Paulus, batch: PairBatch) -> None:
    """Train until headlines have the lengths of headlines."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        (cross_entropy(model, batch) / batch.count).backward()
        optimizer.step()


def cross_entropy(model: nn.Module, batch: PairBatch) -> Tensor:
    with deferring():
        scores = model(batch.source, batch.target_in, batch.source_lengths).logits
    return smoothed_cross_entropy(scores, batch.target_out, normalized=True)


def plain_written(model: Paulus, batch: PairBatch, choose: Callable[[Tensor], Tensor]) -> Any:
    """Step by step until all have ended: ids (B, T), and the log-probabilities (B, T)."""
    decoding = model.start(model.encode(batch.source, batch.source_lengths))
    tokens = torch.full((len(batch), 1), BOS)
    ended = torch.zeros(len(batch), 1, dtype=torch.bool)
    out, each = [], []
    for _ in range(LIMIT):
        scores, decoding = model.step(tokens, decoding)
        tokens = choose(scores[:, 0].detach().exp())
        out.append(tokens.masked_fill(ended, PAD))
        each.append(scores[:, 0].gather(-1, tokens).masked_fill(ended, 0.0))
        ended = ended | (tokens == EOS)
        if ended.all():
            break
    return torch.cat(out, 1), torch.cat(each, 1)


def by_steps(model: Paulus, batch: PairBatch) -> Tensor:
    """Over the model's own `step`: greedy without a gradient, drawn with one."""
    with torch.no_grad():
        greedy, _ = plain_written(model, batch, lambda p: p.argmax(-1, keepdim=True))
    drawn = plain_written(model, batch, lambda p: p.multinomial(1))
    return plain_loss(greedy, *drawn, batch)


def from_equations(model: Paulus, batch: PairBatch, once: bool = False) -> Tensor:
    """By the equations: greedy without a gradient, drawn with one."""
    greedy = equations(model, batch.source, once)
    drawn = by_equations(model, batch.source, lambda p: p.multinomial(1)[:, 0], once)
    return plain_loss(greedy, *drawn, batch)


def plain_loss(greedy: Tensor, drawn: Tensor, each: Tensor, batch: PairBatch) -> Tensor:
    """The loss from what was written and its log-probabilities."""
    right = [plain(r) for r in batch.target_out.tolist()]
    first, second = (
        torch.tensor([rouge_l(plain(y), r) for y, r in zip(some.tolist(), right, strict=True)])
        for some in (greedy, drawn)
    )
    return ((first - second) * each.sum(1)).sum()


def update(model: Paulus, batch: PairBatch, reinforced: Callable[[Any, Any], Tensor]) -> None:
    model.zero_grad()
    loss = 0.0016 * cross_entropy(model, batch) + 0.9984 * reinforced(model, batch)
    loss.backward()


def error(model: Paulus, batch: PairBatch) -> float:
    """How far the teacher-forced Σ log p is from that of the steps, relative."""
    with torch.no_grad():
        drawn, each = plain_written(model, batch, lambda p: p.multinomial(1))
        found = charged(model, batch, drawn, torch.ones(len(batch)))
    return float((found - each.sum()).abs() / each.sum().abs())


@torch.inference_mode()
def equations(model: Paulus, source: Inputs, once: bool = False) -> Tensor:
    """Greedily, by the paper's equations; `once`: W_out is made once and not at each step."""
    return by_equations(model, source, lambda p: p.argmax(1), once)[0]


def by_equations(
    model: Paulus, source: Inputs, choose: Callable[[Tensor], Tensor], once: bool = False
) -> tuple[Tensor, Tensor]:
    """The paper's equations, one step after the other: ids and log-probabilities (B, T)."""
    encoded = model.encode(source)
    states, copies = encoded.states, encoded.extra["copies"]
    size = model.target_vocab_size + encoded.extra["own"].shape[1]
    real = torch.arange(states.shape[1]) < encoded.lengths[:, None]
    cell = model.decoder.stack
    h, c = (state[:, 0] for state in encoded.final)
    tokens, sums = torch.full((len(source),), BOS), None
    before: list[Tensor] = []
    out, each = [], []
    ended = torch.zeros(len(source), dtype=torch.bool)
    shared = output_weight(model) if once else None
    for _ in range(LIMIT):
        known = tokens.where(tokens < model.target_vocab_size, UNK)
        h, c = torch.lstm_cell(
            model.embed_target(known), (h, c), cell.weight_ih_l0, cell.weight_hh_l0,
            cell.bias_ih_l0, cell.bias_hh_l0,
        )  # fmt: skip
        e = torch.bmm(states, model.attention.score.project(h)[..., None])[..., 0]
        penalized = e if sums is None else e - sums  # in log space: the printed form overflows
        sums = e if sums is None else torch.logaddexp(sums, e)
        look = penalized.masked_fill(~real, -torch.inf).softmax(1)
        found = torch.bmm(look[:, None], states)[:, 0]
        own = torch.zeros_like(h)
        if before:
            past = torch.stack(before, 1)
            form = model.self_attention.score.project(h)
            weights = torch.bmm(past, form[..., None])[..., 0].softmax(1)
            own = torch.bmm(weights[:, None], past)[:, 0]
        before.append(h)
        q = torch.cat([h, found, own], 1)
        weight = output_weight(model) if shared is None else shared
        p = (q @ weight.T + model.bias).softmax(1)
        u = torch.sigmoid(model.switch(q))
        mixed = torch.cat([(1 - u) * p, p.new_zeros(len(p), size - p.shape[1])], 1)
        mixed = mixed.scatter_add(1, copies, u * look)
        allowed = mixed.detach().clone()
        allowed[:, : BOS + 1] = 0
        tokens = choose(allowed)
        log_prob = mixed.gather(1, tokens[:, None])[:, 0].log()
        each.append(log_prob.masked_fill(ended, 0.0))
        tokens = tokens.masked_fill(ended, PAD)
        out.append(tokens)
        ended = ended | (tokens == EOS)
        if ended.all():
            break
    return torch.stack(out, 1), torch.stack(each, 1)


def output_weight(model: Paulus) -> Tensor:
    """W_out = tanh(W_emb W_proj)."""
    return torch.tanh(model.project(model.embed_target.weight[: model.target_vocab_size]))


@torch.inference_mode()
def uncached(model: Paulus, source: Inputs) -> Tensor:
    """The whole model over what was written, for every new word."""
    read = torch.full((len(source), 1), BOS)
    ended = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(LIMIT):
        scores = model(source, read).logits[:, -1]
        scores[:, : BOS + 1] = -torch.inf
        tokens = scores.argmax(1).masked_fill(ended, PAD)
        read = torch.cat([read, tokens[:, None]], 1)
        ended |= tokens == EOS
        if ended.all():
            break
    return read[:, 1:]


def ids(rows: list[list[int]]) -> list[list[int]]:
    return [[i for i in r if i != PAD] for r in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--embed", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    size = given.vocabulary
    model = Paulus(size, size, embed=given.embed, hidden=given.hidden)
    batch = texts(given.rows, given.words, size)
    ended_like(model, batch)
    facts = {
        "shape": {k: getattr(given, k) for k in ("rows", "words", "embed", "hidden", "vocabulary")},
        "limit": LIMIT, "dtype": "float32", **machine(),
    }  # fmt: skip
    setting = SelfCritical(max_length=LIMIT)
    written = write_both(model, batch.source, batch.source_lengths, LIMIT)
    words = [round(float((y != PAD).sum(1).float().mean()), 1) for y in written]
    ours, apart = partial(update, model, batch, setting.loss), error(model, batch)
    for name, loss in {
        "the model's own step": by_steps, "equations": from_equations,
        "equations, W_out once": partial(from_equations, once=True),
    }.items():  # fmt: skip
        ratio = paired(ours, partial(update, model, batch, loss), given.repeats)
        row(
            id="self-critical/training", baseline=name, ratio=ratio, error=apart,
            words_written={"greedy": words[0], "drawn": words[1]}, **facts,
        )  # fmt: skip
    model.eval()
    decoder = Greedy(max_length=LIMIT, max_extra=LIMIT)
    decode = partial(decoder, model, batch.source)
    first = [h[0].tokens for h in decode()]
    loops = {
        "equations": equations, "equations, W_out once": partial(equations, once=True),
        "no cache": uncached,
    }  # fmt: skip
    for name, loop in loops.items():
        agreed = sum(
            a == b for a, b in zip(first, ids(loop(model, batch.source).tolist()), strict=True)
        )
        if agreed < len(first) - 1:  # one tie may fall differently
            raise SystemExit(f"{name} wrote the same as ours of {agreed} of {len(first)} texts")
        ratio = paired(decode, partial(loop, model, batch.source), given.repeats)
        row(id="self-critical/decoding", baseline=name, ratio=ratio, same=agreed, **facts)


if __name__ == "__main__":
    main()
