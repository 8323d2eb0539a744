"""Self-critical training: the loss by hand, its sign, and that rewards rise."""

import pytest
import torch

from regard import tasks
from regard.decode import Greedy
from regard.errors import RequestError
from regard.losses.self_critical import Rewards, SelfCritical, charged, plain, write_both
from regard.metrics.overlap import rouge_l
from regard.protocols import BOS, EOS, PAD, Inputs
from tests.contract.battery import SIZE, build, mixed
from tests.losses.test_minimum_risk import batch_of

MODELS = ["paulus", "rnnsearch", "transformer"]


def test_both_are_written_in_one_pass_as_they_would_be_alone():
    model, batch = build("paulus"), batch_of(mixed())
    greedy, drawn = write_both(model, batch.source, batch.source_lengths, 7)
    alone = Greedy(max_length=7, max_extra=99)(model, batch.source, batch.source_lengths)
    for row, (hypothesis,) in enumerate(alone):
        assert [i for i in greedy[row].tolist() if i != PAD] == hypothesis.tokens
    for row in drawn.tolist():
        ended = row.index(EOS) + 1 if EOS in row else len(row)
        assert all(i > BOS for i in row[:ended])
        assert not any(row[ended:])


def test_what_is_drawn_is_drawn_as_often_as_the_model_says():
    torch.manual_seed(3)
    model, batch = build("paulus"), mixed()
    many = batch.source[:1].expand(4000, -1)
    first = write_both(model, many, None, 1).drawn[:, 0].bincount(minlength=SIZE) / 4000
    chances = model(batch.source[:1], torch.tensor([[BOS]])).logits[0, 0].exp()
    chances[: BOS + 1] = 0
    assert (first - chances / chances.sum()).abs().max() < 0.03


def test_words_of_the_sources_own_are_written_and_charged():
    torch.manual_seed(2)
    model, made = build("paulus"), mixed()
    with torch.no_grad():
        model.switch.bias.fill_(50.0)
    copies = torch.where(made.source > 7, made.source + 7, made.source)  # ids beyond the vocabulary
    source = Inputs(made.source, made.lengths, {"copies": copies})
    written = write_both(model, source, made.lengths, 6)
    assert (written.drawn >= SIZE).any()
    assert (written.greedy >= SIZE).any()
    batch = batch_of(made)
    batch = type(batch)(source, *[getattr(batch, k) for k in (
        "source_lengths", "target_in", "target_out", "index", "count")])  # fmt: skip
    loss = charged(model, batch, written.drawn, torch.ones(5, dtype=torch.float64))
    assert loss.isfinite()
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_by_hand(name):
    model, batch = build(name), batch_of(mixed())
    drawn = torch.tensor([[5, 6, EOS], [7, 8, 9], [EOS, 0, 0], [4, EOS, 0], [6, 6, 6]])
    advantage = torch.tensor([0.5, -0.25, 0.0, 1.0, -1.0], dtype=torch.float64)
    expected = 0.0
    for row, a in enumerate(advantage.tolist()):
        y = [i for i in drawn[row].tolist() if i != PAD]
        source = batch.source[row : row + 1, : batch.source_lengths[row]]
        scores = model(source, torch.tensor([[BOS, *y[:-1]]])).logits[0].log_softmax(-1)
        expected += a * sum(float(scores[t, i].detach()) for t, i in enumerate(y))
    found = charged(model, batch, drawn, advantage)
    assert float(found.detach()) == pytest.approx(expected)


def test_a_better_sample_becomes_likelier_and_a_worse_one_less_likely():
    model, batch = build("paulus"), batch_of(mixed())
    drawn = torch.tensor([[5, 6, EOS]] * 5)
    setting = SelfCritical()
    for greedy, sampled in ((0.2, 0.6), (0.6, 0.2)):
        before = charged(model, batch, drawn, torch.ones(5, dtype=torch.float64))  # Σ log p
        loss = charged(model, batch, drawn, torch.full((5,), greedy - sampled).double())
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        kept = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for p, gradient in zip(model.parameters(), gradients, strict=True):
                if gradient is not None:
                    p.sub_(0.001 * gradient)
        after = charged(model, batch, drawn, torch.ones(5, dtype=torch.float64))
        assert (after > before) == (sampled > greedy)
        with torch.no_grad():
            for p, old in zip(model.parameters(), kept, strict=True):
                p.copy_(old)
    assert setting.weight == 0.9984


def test_rewards_are_those_of_the_written():
    model, batch = build("paulus"), batch_of(mixed())
    written = write_both(model, batch.source, batch.source_lengths, 5)
    for found, some in zip(SelfCritical().rewards(written, batch.target_out), written, strict=True):
        right = [plain(row) for row in batch.target_out.tolist()]
        assert found == [
            rouge_l(plain(y), own) for y, own in zip(some.tolist(), right, strict=True)
        ]


def test_it_is_mixed_with_the_cross_entropy_and_counts_its_rewards():
    model, batch = build("paulus"), batch_of(mixed())
    of, given = tasks.load("translation"), {"weight": 0.75, "max_length": 6, "after": 2}
    task = of(self_critical=given)
    plain_loss = of().loss(model, batch, 0)[0]
    assert task.loss(model, batch, 1)[0] == plain_loss  # not yet
    assert task.measured() == {}
    torch.manual_seed(5)
    found = task.loss(model, batch, 2)[0]
    torch.manual_seed(5)
    rewards = Rewards()
    expected = 0.25 * plain_loss + 0.75 * SelfCritical(**given).loss(model, batch, rewards)
    torch.testing.assert_close(found, expected)
    told = task.measured()
    assert told == rewards.means()
    assert set(told) == {"reward_greedy", "reward_sample"}
    assert task.measured() == {}
    assert task.loss(model, batch)[0] == of().loss(model, batch)[0]  # judged without it
    assert model.training is False


def test_rewards_rise_from_a_half_trained_model():
    """The check of the fact sheet, small: copy the marked word of four."""
    torch.manual_seed(1)
    model = build("paulus", dtype=torch.float32).train()

    def some(rows=24):
        source = torch.randint(4, SIZE, (rows, 5))
        source[:, 4] = EOS
        out = torch.stack([source[:, 0], source[:, 1], source[:, 4]], 1)
        into = torch.cat([torch.full((rows, 1), BOS), out[:, :2]], 1)
        whole = batch_of(mixed())
        inputs = Inputs(source, torch.full((rows,), 5), {"copies": source})
        return type(whole)(inputs, inputs.lengths, into, out, list(range(rows)), 3 * rows)

    of = tasks.load("translation")
    told = []
    for task, rate, updates in (
        (of(), 0.02, 12),
        (of(self_critical={"weight": 1.0, "max_length": 5}), 0.004, 30),
    ):
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for step in range(updates):
            optimizer.zero_grad()
            loss, count = task.loss(model, some(), step)
            (loss / count).backward()
            optimizer.step()
            told.append(task.measured())
    sampled, greedy = ([one[k] for one in told[12:]] for k in ("reward_sample", "reward_greedy"))
    assert sum(sampled[-8:]) / 8 > sum(sampled[:8]) / 8 + 0.05
    assert abs(sum(sampled) - sum(greedy)) / 30 < 0.1  # the mean advantage is near 0


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(RequestError, match=r"task.self_critical.reward is 'bleu'"):
        SelfCritical(reward="bleu")
    with pytest.raises(RequestError, match=r"weight is 2"):
        SelfCritical(weight=2.0)
    with pytest.raises(RequestError, match=r"max_length is 1 or more"):
        SelfCritical(max_length=0)
