"""Padding, batches, steps and beams are matters of bookkeeping: none may change a number."""

import pytest
import torch

from regard import catalog, decode
from regard.layers.deferred_logits import deferring
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.protocols import BOS, EOS, PAD
from tests.contract.battery import SIZE, Pairs, build, loss_of, mixed, pairs, real

PUTS_OFF = {"rnn-encoder-decoder": False, "convs2s": False}
"""Not where the last layer is two, or weight-normalized."""
TIGHT = {"rtol": 0, "atol": 1e-9}  # models are in float64 here
MODELS = catalog.names(task="translation")


def in_turns(settings):
    """Each model with one of the settings; with the others it is a slow test."""
    return [
        pytest.param(name, one, marks=() if (n - at) % len(settings) == 0 else pytest.mark.slow)
        for n, name in enumerate(MODELS)
        for at, one in enumerate(settings)
    ]


def padded(batch: Pairs, source: int, target: int) -> Pairs:
    def more(x, n):
        return torch.nn.functional.pad(x, (0, n), value=PAD)

    return Pairs(
        more(batch.source, source),
        batch.lengths,
        more(batch.target_in, target),
        more(batch.target_out, target),
        batch.target_lengths,
    )


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, **TIGHT)


def test_padding_changes_nothing(name):
    model, batch = build(name), mixed()
    wide = padded(batch, 3, 2)
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    other = model(wide.source, wide.target_in, wide.lengths).logits
    same(other[:, : batch.target_in.shape[1]][real(batch)], logits[real(batch)])
    loss_of(model, batch).backward()
    gradients = {path: p.grad.clone() for path, p in model.named_parameters()}
    model.zero_grad()
    loss_of(model, wide).backward()
    for path, p in model.named_parameters():
        same(p.grad, gradients[path])


def test_what_lies_behind_the_lengths_is_never_read(name):
    model, batch = build(name), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    rubbish = torch.where(batch.source == PAD, 7, batch.source)
    same(model(rubbish, batch.target_in, batch.lengths).logits, logits)
    same(model(batch.source, batch.target_in).logits, logits)  # lengths=None counts what is not PAD


def test_logits_that_are_put_off_change_no_gradient(name):
    model, batch = build(name), mixed()
    found = []
    for wanted in (True, False):
        with deferring(wanted):
            logits = model(batch.source, batch.target_in, batch.lengths).logits
        assert isinstance(logits, torch.Tensor) is not (wanted and PUTS_OFF.get(name, True))
        total = smoothed_cross_entropy(logits, batch.target_out, 0.1, normalized=model.normalized)
        found.append(torch.autograd.grad(total, list(model.parameters()), allow_unused=True))
    for one, two in zip(*found, strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            same(one, two)


def test_a_batch_of_one_is_a_row_of_a_batch_of_many(name):
    model, batch = build(name), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    for row, (length, target) in enumerate(zip(batch.lengths, batch.target_lengths, strict=True)):
        one = model(batch.source[row : row + 1, :length], batch.target_in[row : row + 1, :target])
        same(one.logits[0], logits[row, :target])


def test_the_order_of_a_batch_is_free(name):
    model, batch = build(name), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    order = torch.tensor([3, 1, 4, 0, 2])
    other = model(batch.source[order], batch.target_in[order], batch.lengths[order]).logits
    same(other, logits[order])


def test_no_token_sees_those_after_it(name):
    model, batch = build(name), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    for t in range(1, batch.target_in.shape[1]):
        later = batch.target_in.clone()
        later[:, t:] = (later[:, t:] + 5) % SIZE
        same(model(batch.source, later, batch.lengths).logits[:, :t], logits[:, :t])


def test_every_source_token_matters(name):
    model, batch = build(name), pairs([6, 6], [3, 3])
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    for place in range(5):
        other = batch.source.clone()
        other[:, place] = 4 + (other[:, place] - 3) % (SIZE - 4)
        moved = model(other, batch.target_in, batch.lengths).logits
        assert ((moved - logits).abs().amax((1, 2)) > 1e-9).all(), f"source token {place}"


def test_step_by_step_is_teacher_forcing(name):
    model, batch = build(name), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    decoding = model.start(model.encode(batch.source, batch.lengths))
    for t in range(batch.target_in.shape[1]):
        assert decoding.step == t
        step, decoding = model.step(batch.target_in[:, t : t + 1], decoding)
        same(step[:, 0][real(batch)[:, t]], logits[:, t][real(batch)[:, t]])


@pytest.mark.parametrize(("name", "grad"), in_turns([False, True]))
def test_beams_are_rearranged_with_all_they_carry(name, grad):
    """Random tokens, re-orderings, widths and departures: the same as teacher forcing of each."""
    model, batch = build(name), mixed()
    generator = torch.Generator().manual_seed(1 + grad)
    with torch.set_grad_enabled(grad):
        decoding = model.start(model.encode(batch.source, batch.lengths))
        left, read = torch.arange(5), torch.full((5, 1, 1), BOS)
        for width in (3, 4, 2, 3, 3, 1, 2):
            logits, decoding = model.step(read[..., -1], decoding)
            each = left.repeat_interleave(read.shape[1])
            forced = model(batch.source[each], read.flatten(0, 1), batch.lengths[each])
            same(logits.flatten(0, 1), forced.logits[:, -1])
            if len(left) > 2:  # one sentence leaves, the others change places
                keep = torch.randperm(len(left), generator=generator)[1:]
                decoding, read, left = decoding.rows(keep), read[keep], left[keep]
            index = torch.randint(read.shape[1], (len(left), width), generator=generator)
            decoding = decoding.select(index)
            read = read.gather(1, index[..., None].expand(-1, -1, read.shape[-1]))
            tokens = torch.randint(3, SIZE, (len(left), width, 1), generator=generator)
            read = torch.cat([read, tokens], -1)


def test_two_requests_may_share_a_model(name):
    model = build(name)
    one, two = pairs([4, 6], [4, 4], seed=1), pairs([2, 5, 3], [4, 4, 4], seed=2)
    first = model.start(model.encode(one.source, one.lengths))
    second = model.start(model.encode(two.source, two.lengths))
    for t in range(4):
        a, first = model.step(one.target_in[:, t : t + 1], first)
        b, second = model.step(two.target_in[:, t : t + 1], second)
        if t == 3:
            same(a[:, 0], model(one.source, one.target_in, one.lengths).logits[:, t])
            same(b[:, 0], model(two.source, two.target_in, two.lengths).logits[:, t])


DECODERS = [{"name": "greedy"}, {"beam_size": 3, "n_best": 3}, {"name": "sample", "n_best": 2}]


@pytest.mark.parametrize(("name", "config"), in_turns(DECODERS))
def test_decoders_score_as_teacher_forcing_does_and_in_any_batch(name, config):
    model, batch = build(name), mixed()
    decoder = decode.build({**config, "max_extra": 1, "max_length": 6})
    prefix = [[], [4], [], [5, 6, 7], [4, 4]]
    found = decoder(model, batch.source, batch.lengths, prefix)
    for row, hypotheses in enumerate(found):
        source = batch.source[row : row + 1, : batch.lengths[row]]
        longest = max(len(h.tokens) for h in hypotheses)
        read = torch.tensor([([BOS, *h.tokens] + [PAD] * longest)[:longest] for h in hypotheses])
        logits = model(source.expand(len(hypotheses), -1), read).logits.detach().log_softmax(-1)
        for h, scores in zip(hypotheses, logits, strict=True):
            true = [float(scores[t, token]) for t, token in enumerate(h.tokens)]
            assert h.token_scores == pytest.approx(true, abs=1e-8)
            assert h.tokens[: len(prefix[row])] == prefix[row]
            assert not h.finished or h.tokens.index(EOS) == len(h.tokens) - 1
        if row in (1, 3):
            (alone,) = decoder(model, source, prefix=prefix[row : row + 1])
            assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
