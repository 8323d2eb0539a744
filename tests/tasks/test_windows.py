"""Texts of any length: windows by hand, losses and answers, 50,000 words in little memory."""

import math
import resource

import numpy as np
import pytest
import torch
from torch import nn

from regard import tasks
from regard.errors import RequestError
from regard.folder.loaded import Loaded
from regard.models.disan import DiSAN
from regard.protocols import Inputs, Output
from regard.tasks.ensembles import Vote
from regard.tasks.windows import InWindows, windows
from tests.tasks.labeled import write

TASK = tasks.load("classification")


class Counting(nn.Module):
    """The logits are how often the words 4 and 5 are there; keeps the shape of each call."""

    def __init__(self, temperature=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(temperature)))
        self.seen = []

    def forward(self, source):
        ids = source.values
        self.seen.append(tuple(ids.shape))
        assert ((ids != 0).sum(1) == source.lengths).all()
        counts = torch.stack([(ids == word).sum(1) for word in (4, 5)], 1)
        penalty = {"penalty": counts[:, 0].float().mean() * self.scale} if self.training else {}
        return Output(counts * self.scale, penalty)


def expected(text, window):
    """The windows of a list, from the definition."""
    if len(text) <= window:
        return [text]
    starts = range(0, len(text) - window, math.ceil(window / 2))
    return [text[s : s + window] for s in starts] + [text[len(text) - window :]]


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7, 10, 30])
def test_windows_are_those_of_the_definition(window):
    random = np.random.default_rng(window)
    texts = [random.integers(4, 9, size).tolist() for size in (1, 2, 3, 8, 9, 10, 23, 30)]
    width = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in texts])
    letters = ids[..., None] * torch.tensor([10, 100])
    given = Inputs(ids, (ids != 0).sum(1), {"characters": letters, "of": torch.arange(len(ids))})
    cut, owners = windows(given, window)
    wanted = [(i, own) for i, text in enumerate(texts) for own in expected(text, window)]
    assert owners.tolist() == [i for i, _ in wanted] == cut.extras["of"].tolist()
    assert cut.lengths.tolist() == [len(own) for _, own in wanted]
    for row, own, spelled in zip(cut.values, wanted, cut.extras["characters"], strict=True):
        assert row.tolist() == [*own[1], *[0] * (min(window, width) - len(own[1]))]
        assert torch.equal(spelled, row[:, None] * torch.tensor([10, 100]))


def softmax(*z):
    each = [math.exp(x) for x in z]
    return [x / sum(each) for x in each]


TEXT = torch.tensor([[4, 4, 6, 5, 5, 4, 7], [5, 6, 0, 0, 0, 0, 0]])
# Windows of four, from 0, 2 and 3: [4 4 6 5], [6 5 5 4], [5 5 4 7]; of the short text one.
FIRST = np.mean([softmax(2, 1), softmax(1, 2), softmax(1, 2)], 0)


def test_the_answer_is_the_mean_of_the_probabilities_and_short_texts_are_as_ever():
    task = TASK(window=4)
    own = InWindows(Counting(), 4, task.objective.probabilities, task.objective.logits)
    found = own(Inputs(TEXT)).logits.softmax(-1)
    np.testing.assert_allclose(found[0].detach(), FIRST, rtol=1e-12)
    np.testing.assert_allclose(found[1].detach(), softmax(0, 1), rtol=1e-6)
    short = Inputs(TEXT[:, :4], torch.tensor([4, 2]))
    assert torch.equal(own(short).logits, own.model(short).logits)


@pytest.mark.parametrize("at_once", [4, 8, 4096])
def test_the_loss_is_the_mean_of_those_of_the_windows(at_once, monkeypatch):
    monkeypatch.setattr("regard.tasks.windows.AT_ONCE", at_once)
    task, model = TASK(window=4), Counting()
    label = torch.tensor([0, 1])
    batch = type("", (dict,), {"count": 2})(text=Inputs(TEXT), label=label)
    total, count = task.loss(model, batch, step=3)
    each = [-math.log(softmax(*z)[0]) for z in ((2, 1), (1, 2), (1, 2))]
    losses = np.mean(each) - math.log(softmax(0, 1)[1])
    penalty = 2 * np.mean([2, 1, 1, 0])
    assert (total.item(), count) == (pytest.approx(losses + penalty), 2)
    (alone,) = torch.autograd.grad(total, model.scale)
    slopes = [softmax(*z)[1] * (z[1] - z[0]) for z in ((2, 1), (1, 2), (1, 2))]
    wanted = np.mean(slopes) - softmax(0, 1)[0] * 1 + penalty
    assert alone.item() == pytest.approx(wanted)
    judged, _ = task.loss(model.eval(), batch)
    assert judged.item() == pytest.approx(losses)
    batch["weight"] = torch.tensor([3.0, 0.5])
    weighed, _ = task.loss(model, batch, step=3)
    assert weighed.item() == pytest.approx(3 * np.mean(each) - 0.5 * math.log(softmax(0, 1)[1]))


def test_models_with_windows_vote():
    one, other = TASK(window=4, temperature=2.0), TASK(window=4, temperature=0.5)
    both = one.together([Counting(), Counting(3.0)], [one, other])
    assert isinstance(both, Vote)
    dataset = type("", (), {"collate": lambda self, at: _Batch(text=Inputs(TEXT))})()
    made = one._logits(both, dataset.collate([0, 1])) / one.temperature
    second = np.mean([softmax(6, 3), softmax(3, 6), softmax(3, 6)], 0)

    def at(p, temperature):
        return softmax(*(np.log(p) / temperature))

    wanted = (np.array(at(FIRST, 2.0)) + at(second, 0.5)) / 2
    np.testing.assert_allclose(made.softmax(-1)[0], wanted, rtol=1e-6)


class _Batch(dict):
    def to(self, device):
        return self


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("classification", {"window": -1}, "task.window is -1; it must be 0 or more words"),
        ("classification", {"window": 5, "sentences": "lines"}, "leave out one of the two"),
    ],
)
def test_windows_that_cannot_be(name, options, said):
    with pytest.raises(RequestError, match=said):
        TASK(**options)


def test_pairs_have_no_windows():
    from regard.tasks.labels.base import Labeling

    class Pairs(Labeling):
        name, texts, score = "pairs", ("a", "b"), None

    Pairs.__abstractmethods__ = frozenset()
    with pytest.raises(RequestError, match=r"task.window: pairs reads pairs"):
        Pairs("one", "label", window=5)


def test_fifty_thousand_words_take_little_memory(tmp_path):
    task = TASK(window=40)
    data = task.data({"path": str(write(tmp_path / "data", (60, 20, 20)))})
    model = DiSAN(**task.model_arguments(data.fields), embed=12, hidden=12, ffn_dim=12).eval()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = "the film is lovely . " * 10_000
    (made,) = task.predict(model, [text], None, data.fields)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB
    assert made.output in ("pos", "neg")
    assert grown < 200_000  # all pairs of words would take 50,000² numbers of each feature
    loaded = Loaded(model, task, data.fields, None, {"model": {"name": "disan"}}, tmp_path)
    with pytest.raises(RequestError, match=r"45 words.* windows of 40"):
        task.view(loaded, [" ".join(text.split()[:45])])
