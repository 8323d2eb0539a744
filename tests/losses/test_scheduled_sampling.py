"""Scheduled sampling: its decays, what it feeds, and what that is good for."""

import math

import pytest
import torch

from regard import catalog, tasks
from regard.data.batch import PairBatch
from regard.errors import RequestError
from regard.losses.scheduled_sampling import Scheduled
from regard.protocols import BOS, PAD, Inputs
from tests.contract.battery import SIZE, build, mixed


def batch_of(pairs):
    real = int(pairs.target_lengths.sum())
    rows = list(range(len(pairs.source)))
    return PairBatch(pairs.source, pairs.lengths, pairs.target_in, pairs.target_out, rows, real)


def test_the_decays_are_the_papers():
    sigmoid = Scheduled(decay="sigmoid", k=10.0)
    exponential = Scheduled(decay="exponential", k=0.9)
    linear = Scheduled(decay="linear", k=1.0, slope=0.05, floor=0.2)
    for i in (0, 1, 7, 50):
        assert sigmoid.keep(i) == pytest.approx(10 / (10 + math.exp(i / 10)))
        assert exponential.keep(i) == pytest.approx(0.9**i)
        assert linear.keep(i) == pytest.approx(max(0.2, 1 - 0.05 * i))
    assert sigmoid.keep(10**9) < 1e-100
    assert linear.keep(10**9) == 0.2


@pytest.mark.parametrize("how", ["steps", "passes"])
def test_where_every_word_is_right_it_is_teacher_forcing(how):
    task = tasks.load("translation")(scheduled={"decay": "linear", "k": 1.0, "how": how})
    model, batch = build("rnnsearch"), batch_of(mixed())
    assert torch.equal(task.loss(model, batch, 10**6)[0], task.loss(model, batch)[0])
    mixed_ = Scheduled(decay="linear", k=0.0, floor=1.0).mixed(model, batch, 5)
    assert torch.equal(mixed_.target_in, batch.target_in)


@pytest.mark.parametrize("name", catalog.names(task="translation"))
def test_word_by_word_each_word_is_drawn_after_those_that_were_fed(name):
    model, batch = build(name), batch_of(mixed())
    settings = Scheduled(decay="linear", k=0.0, choose="best", how="steps")  # no word is right
    fed = settings.mixed(model, batch, 0).target_in
    assert torch.equal(fed == PAD, batch.target_in == PAD)
    assert (fed[:, 0] == BOS).all()
    logits = model(batch.source, fed, batch.source_lengths).logits
    for row in range(len(fed)):
        for t in range(1, fed.shape[1]):
            if batch.target_in[row, t] != PAD:
                own = logits[row, t - 1].clone()
                own[:2] = -torch.inf
                assert fed[row, t] == own.argmax()


def test_in_one_pass_each_word_is_drawn_after_the_right_ones():
    model, batch = build("transformer"), batch_of(mixed())
    settings = Scheduled(decay="linear", k=0.0, choose="best", how="passes")
    fed = settings.mixed(model, batch, 0).target_in
    logits = model(batch.source, batch.target_in, batch.source_lengths).logits
    logits[..., :2] = -torch.inf
    inside = batch.target_in[:, 1:] != PAD
    assert torch.equal(fed[:, 1:][inside], logits[:, :-1].argmax(-1)[inside])


def test_as_many_words_are_right_as_it_says():
    model = build("rnnsearch", dtype=torch.float32)
    target = torch.full((200, 50), 5)
    target[:, 0] = BOS
    source = torch.full((200, 2), 4)
    batch = PairBatch(source, torch.full((200,), 2), target, target, list(range(200)), 10_000)
    torch.manual_seed(1)
    fed = Scheduled(decay="linear", k=0.7, how="passes").mixed(model, batch, 0).target_in[:, 1:]
    logits = model(source, target).logits[0, :-1].float()
    logits[:, :2] = -torch.inf
    own = logits.softmax(-1)[:, 5]  # the share of words that come out right by chance
    expected = float((0.7 + 0.3 * own).mean())
    assert float((fed == 5).float().mean()) == pytest.approx(expected, abs=0.02)  # sd 0.005


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"decay": "cubic"}, "decay is 'cubic'"),
        ({"how": "both"}, "how is 'both'"),
        ({"choose": "worst"}, "choose is 'worst'"),
        ({"decay": "sigmoid", "k": 0.5}, "k is 0.5; with decay sigmoid it is from 1 up"),
        ({"decay": "exponential", "k": 2.0}, "from 0 to 1"),
        ({"floor": 2.0}, r"task\.scheduled\.floor: expected a number from 0 to 1"),
        ({"slop": 1.0}, "no setting 'slop'"),
    ],
)
def test_what_makes_no_sense_is_refused(given, told):
    with pytest.raises(RequestError, match=told):
        tasks.load("translation")(scheduled=given)


@pytest.mark.parametrize("how", ["steps", "passes"])
def test_own_words_of_sources_are_read_back(how):
    """Ids beyond the vocabulary, in targets and in what the model writes itself."""
    torch.manual_seed(4)
    model, made = build("paulus"), mixed()
    with torch.no_grad():
        model.switch.bias.fill_(50.0)  # it copies
    copies = torch.where(made.source > 7, made.source + 7, made.source)
    source = Inputs(made.source, made.lengths, {"copies": copies})
    target_in = torch.where(made.target_in > 7, made.target_in + 7, made.target_in)
    batch = PairBatch(source, made.lengths, target_in, made.target_out, [*range(5)], 18)
    found = Scheduled(decay="linear", k=0.0, how=how).mixed(model, batch, 0).target_in
    assert ((found >= SIZE) & (found != target_in)).any()
    changed = found != target_in
    for row in range(5):
        assert {*found[row][changed[row]].tolist()} <= {*copies[row].tolist()}
