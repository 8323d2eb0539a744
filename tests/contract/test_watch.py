"""Every attention is seen, as it was, and looking changes nothing."""

import copy

import torch

from regard import decode, watch
from regard.attention import MultiHead
from regard.protocols import BOS
from tests.contract.battery import attentions, build, loss_of, mixed


def run_steps(model, batch):
    decoding = model.start(model.encode(batch.source, batch.lengths))
    logits = []
    for t in range(batch.target_in.shape[1]):
        step, decoding = model.step(batch.target_in[:, t : t + 1], decoding)
        logits.append(step)
    return torch.cat(logits, 1)


def select_of(layer):
    return (layer.attention if isinstance(layer, MultiHead) else layer).select


def by_key(record):
    """The weights of every step with the keys last, of feature-wise ones too."""
    return [step.mT if record.features else step for step in record.steps]


def check_sums(weights, sums):
    """Weights add up to what `select.sums` declares, or are zero."""
    assert (weights >= 0).all() or sums == "free"
    if sums in ("over keys", "over queries"):
        total = weights.sum(-1 if sums == "over keys" else -2)
        empty = (weights == 0).all(-1 if sums == "over keys" else -2)
        assert ((total - 1).abs() < 1e-9)[~empty].all()
        assert not empty.all()
    elif sums == "at most 1":
        assert (weights.sum(-1) <= 1 + 1e-9).all()
    else:
        assert sums == "free", f"select.sums is {sums!r}"


def test_every_attention_is_seen_and_adds_up(name):
    model, batch = build(name), mixed()
    layers = attentions(model)
    for run in (
        lambda: model(batch.source, batch.target_in, batch.lengths),
        lambda: run_steps(model, batch),
    ):
        with watch(model) as seen:
            run()
        assert set(seen) == set(layers)
        for path, record in seen.items():
            for number, weights in enumerate(record.steps):
                if number == 0 < len(record.steps) - 1 and not weights.any():
                    continue  # before the first step there is nothing to look at
                check_sums(weights, select_of(layers[path]).sums)


def test_padding_gets_no_weight(name):
    """In rows that have padding, attentions over the source give it exactly nothing."""
    model, batch = build(name), mixed()
    with watch(model) as seen:
        run_steps(model, batch)
    for record in seen.values():
        for weights in record.steps:
            if weights.shape[-1] == batch.source.shape[1] and len(record.steps) != 1:
                for row, length in enumerate(batch.lengths.tolist()):
                    if "self" not in record.name:
                        assert not weights[row][..., length:].any(), record.name


def test_watching_changes_nothing(name):
    """Outputs, gradients and random numbers are the same bits, with dropout on."""
    model, batch = build(name, dtype=torch.float32, dropout=0.3), mixed()
    results = []
    for watched in (False, True):
        own = copy.deepcopy(model).train()
        torch.manual_seed(7)
        if watched:
            with watch(own) as seen:
                loss = loss_of(own, batch)
                loss.backward()
                with torch.no_grad():
                    logits = run_steps(own, batch)
            assert len(seen) == len(attentions(own))
        else:
            loss = loss_of(own, batch)
            loss.backward()
            with torch.no_grad():
                logits = run_steps(own, batch)
        grads = [p.grad for p in own.parameters()]
        results.append([loss.detach(), logits, torch.get_rng_state(), *grads])
    for without, within in zip(*results, strict=True):
        assert torch.equal(without, within)


def test_weights_follow_the_hypotheses_of_a_beam(name):
    """What a beam's hypothesis looked at, by its trail, is what teacher forcing of it looks at."""
    model, batch = build(name), mixed()
    decoder = decode.build(beam_size=4, n_best=2, max_extra=1, max_length=5)
    with watch(model) as seen:
        found = decoder(model, batch.source, batch.lengths)
    steps = max(len(h.tokens) for hs in found for h in hs)
    for row, hypotheses in enumerate(found):
        source = batch.source[row : row + 1, : batch.lengths[row]]
        for h in hypotheses:
            with watch(model) as forced:
                model(source, torch.tensor([[BOS, *h.tokens[:-1]]]))
            for path, record in seen.items():
                if len(record.steps) < steps:
                    continue  # the encoder's, which looked once
                along, true = record.along(h.trail), forced[path].of(0)
                keys = true.shape[-1]
                torch.testing.assert_close(along[..., :keys], true, rtol=0, atol=1e-9)
                assert not along[..., keys:].any()
