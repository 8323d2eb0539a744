"""The pointer-generator against its equations in NumPy, step by step and with loops."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from regard import decode
from regard.decode.ensemble import Ensemble
from regard.layers.deferred_logits import deferring
from regard.models.pointer_generator import PointerGenerator
from regard.protocols import BOS, EOS, PAD, UNK, Inputs
from tests.models import copy_task

V = 11
SOURCE = torch.tensor([[5, 3, 7, 3, 3, EOS], [3, 6, 6, EOS, PAD, PAD]])
COPIES = torch.tensor([[5, V, 7, V + 1, V, EOS], [V, 6, 6, EOS, PAD, PAD]])
TARGET = torch.tensor([[BOS, 5, V + 1, V], [BOS, 6, V, PAD]])
INPUTS = Inputs(SOURCE, torch.tensor([6, 4]), {"copies": COPIES})


def made(**changes):
    torch.manual_seed(3)
    model = PointerGenerator(V, V, **{"embed": 5, "hidden": 4, "align": 6, **changes})
    return model.double().eval()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(weights, x, h, c):
    w, u, b, d = weights
    i, f, g, o = np.split(w @ x + u @ h + b + d, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def by_hand(model, source, copies, target):
    """P (T, V + 2) and the coverage loss of each step of one example, both without padding."""
    p = {name: x.detach().numpy() for name, x in model.state_dict().items()}

    def lstm(name):
        return [p[f"{name}.stack.{n}_l0"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]

    size = model.decoder.hidden
    x = [p["embed_source.weight"][i] for i in source]
    ends, sides = [], []
    for name, words in (("encoder.ahead", x), ("encoder.back", x[::-1])):
        h = c = np.zeros(size)
        read = []
        for word in words:
            h, c = cell(lstm(name), word, h, c)
            read.append(h)
        ends.append((h, c))
        sides.append(read)
    states = [np.concatenate(both) for both in zip(sides[0], sides[1][::-1], strict=True)]
    h, c = (
        np.maximum(
            p[f"{name}.weight"] @ np.concatenate([e[n] for e in ends]) + p[f"{name}.bias"], 0
        )
        for n, name in enumerate(("initial_output", "initial_cell"))
    )
    context, covered = np.zeros(2 * size), np.zeros(len(states))
    found, losses = [], []
    for token in target:
        known = token if token < V else UNK
        x = p["read.weight"] @ np.concatenate([p["embed_target.weight"][known], context])
        x = x + p["read.bias"]
        h, c = cell(lstm("decoder"), x, h, c)
        both = np.concatenate([c, h])
        e = [
            p["attention.score.v"] @ np.tanh(
                p["attention.score.key.weight"] @ state + p["attention.score.key.bias"]
                + p["attention.score.query.weight"] @ both
                + (p["attention.score.features.weight"][:, 0] * covered[i] if model.covers else 0)
            )
            for i, state in enumerate(states)
        ]  # fmt: skip
        a = np.exp(e) / np.exp(e).sum()
        context = sum(a[i] * state for i, state in enumerate(states))
        losses.append(sum(min(a[i], covered[i]) for i in range(len(a))))
        covered = covered + a
        combined = p["combine.weight"] @ np.concatenate([h, context]) + p["combine.bias"]
        logits = p["output.weight"] @ combined + p["output.bias"]
        vocabulary = np.exp(logits) / np.exp(logits).sum()
        p_gen = sigmoid(
            p["switch.weight"][0] @ np.concatenate([context, both, x]) + p["switch.bias"][0]
        )
        mixed = np.concatenate([p_gen * vocabulary, [0.0, 0.0]])
        for i, word in enumerate(copies):
            mixed[word] += (1 - p_gen) * a[i]
        found.append(mixed)
    return np.stack(found), np.array(losses)


@pytest.mark.parametrize("coverage", [1.0, 0.5, 0.0])
def test_the_equations(coverage):
    model = made(coverage=coverage)
    output = model(INPUTS, TARGET)
    assert output.logits.shape == (2, 4, V + 2)
    losses = []
    for row, (size, steps) in enumerate([(6, 4), (4, 3)]):
        expected, own = by_hand(
            model, SOURCE[row, :size].tolist(), COPIES[row, :size].tolist(),
            TARGET[row, :steps].tolist(),
        )  # fmt: skip
        found = output.logits[row, :steps].exp().detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12)
        losses += own.tolist()
    if coverage:
        assert output.extra["penalty"].item() == pytest.approx(coverage * np.mean(losses))
    else:
        assert "penalty" not in output.extra
        assert model.attention.carry is None


def test_what_no_source_has_has_no_probability():
    logits = made()(INPUTS, TARGET).logits
    assert (logits[1, :, V + 1] == -torch.inf).all()
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(2, 4, dtype=torch.float64))


def test_step_by_step_is_teacher_forced():
    model = made()
    decoding = model.start(model.encode(INPUTS))
    for t in range(TARGET.shape[1]):
        scores, decoding = model.step(TARGET[:, t : t + 1], decoding)
        torch.testing.assert_close(scores[:, 0], model(INPUTS, TARGET).logits[:, t])


def test_the_width_stays_when_the_sentence_with_most_own_words_leaves():
    model = made()
    decoding = model.start(model.encode(INPUTS)).rows(torch.tensor([1]))
    scores, _ = model.step(TARGET[1:, :1], decoding)
    assert scores.shape == (1, 1, V + 2)


def test_put_off_it_gives_the_same_loss_and_gradients():
    model, gold = made(), torch.tensor([[5, V + 1, V, EOS], [6, V, EOS, PAD]])
    found = []
    for wanted in (True, False):
        with deferring(wanted):
            logits = model(INPUTS, TARGET).logits
        of = logits.of(gold) if wanted else logits.gather(-1, gold[..., None])[..., 0]
        loss = -of.masked_fill(gold == PAD, 0.0).sum()
        found.append((loss, torch.autograd.grad(loss, list(model.parameters()))))
    torch.testing.assert_close(found[0][0], found[1][0])
    for one, two in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, two)


def test_coverage_that_is_off_is_neither_read_nor_charged():
    model, plain = made(), made(coverage=0.0)
    plain.load_state_dict(model.state_dict(), strict=False)
    model.cover(False)
    off, never = model(INPUTS, TARGET), plain(INPUTS, TARGET)
    torch.testing.assert_close(off.logits, never.logits)
    assert "penalty" not in off.extra
    _, decoding = model.step(TARGET[:, :1], model.start(model.encode(INPUTS)))
    again, _ = model.step(TARGET[:, 1:2], decoding)
    torch.testing.assert_close(again[:, 0], off.logits[:, 1])
    model.cover(True)
    assert "penalty" in model(INPUTS, TARGET).extra
    assert not torch.allclose(model(INPUTS, TARGET).logits, off.logits)


def test_the_papers_counts_of_parameters():
    def count(**changes):
        model = PointerGenerator(50_000, 50_000, **changes)
        return sum(p.numel() for p in model.parameters())

    biases = 3 * 4 * 256  # PyTorch's LSTM has a second one for each gate
    assert count(coverage=0.0) - biases == 21_499_600 + 1153
    assert count() - biases == 21_499_600 + 1153 + 512


def copier(size, **changes):
    torch.manual_seed(1)
    return PointerGenerator(
        copy_task.SOURCE, copy_task.TARGET, embed=size, hidden=size, align=size, tied=False,
        **changes,
    )  # fmt: skip


@pytest.mark.slow
def test_it_learns_to_copy_marked_words():
    """Six words, two of them marked; a third of the words is in the vocabulary."""
    assert copy_task.train(copier(32), 300, words=6, marked=2) >= 0.95


@pytest.mark.slow
@pytest.mark.timeout(3600)  # minutes on a core of its own
def test_the_small_check_of_the_fact_sheet():
    assert copy_task.train(copier(64), 3000) >= 0.98


@pytest.mark.slow
def test_a_document_of_5000_words_is_learned_and_decoded_within_2_gb():
    program = """
import resource, torch
from regard.decode import Beam
from regard.models.pointer_generator import PointerGenerator
from regard.protocols import Inputs
model = PointerGenerator(50_000, 50_000)
ids = torch.randint(4, 50_000, (1, 5001))
copies = torch.where(ids < 49_000, ids, ids + 1000)
source = Inputs(ids, torch.tensor([5001]), {"copies": copies})
target = torch.randint(4, 50_000, (1, 60))
output = model(source, target)
(-output.logits.gather(-1, target[..., None]).mean() + output.extra["penalty"]).backward()
found = Beam(beam_size=4, max_length=60)(model, source)
assert len(found[0][0].tokens) <= 60
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 2 * 1024**2  # KiB


@pytest.mark.parametrize("settings", [
    {"name": "greedy"}, {"name": "sample", "n_best": 2}, {"name": "beam", "beam_size": 3},
    {"name": "beam", "beam_size": 3, "n_best": 3, "no_repeat_ngram": 2, "repetition_penalty": 1.2},
])  # fmt: skip
@pytest.mark.parametrize("kind", ["model", "ensemble"])
def test_every_decoder_writes_own_words(settings, kind):
    model = made()
    with torch.no_grad():
        model.switch.bias -= 4  # it copies
    written = Ensemble([model, model]) if kind == "ensemble" else model
    found = decode.build(settings)(written, INPUTS)
    assert any(i >= V for hypotheses in found for h in hypotheses for i in h.tokens)
    for hypotheses, own in zip(found, (2, 1), strict=True):
        for h in hypotheses:
            assert all(i < V + own for i in h.tokens)
            read = torch.tensor([[BOS, *h.tokens[:-1]]])
            row = 0 if own == 2 else 1
            one = Inputs(SOURCE[row : row + 1], INPUTS.lengths[row : row + 1],
                         {"copies": COPIES[row : row + 1]})  # fmt: skip
            gold = torch.tensor(h.tokens)[:, None]
            scores = model(one, read).logits[0].gather(-1, gold)[:, 0]
            if settings.get("repetition_penalty", 1) == 1:
                assert h.token_scores == pytest.approx(scores.tolist())
    forced = decode.build(settings)(written, INPUTS, prefix=[[V + 1, 5], [V]])
    assert [h[0].tokens[:1] for h in forced] == [[V + 1], [V]]
