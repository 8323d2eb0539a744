"""Pointing: which places are to be copied, what the switch is charged, what is refused."""

import numpy as np
import pytest
import torch

from regard.data.batch import PairBatch
from regard.errors import RequestError
from regard.losses.copy_supervision import Pointing
from regard.protocols import Inputs
from regard.tasks.generation.base import Generation
from tests.contract.battery import SIZE, build, mixed

SPELLED = ["", "", "", "", " Debian", " of", " mp3", " the", " X"]
TARGET = torch.tensor([[4, 5, 9, 6, 2], [8, 10, 7, 2, 0]])
COPIES = torch.tensor([[5, 9, 4, 2], [10, 9, 7, 2]])  # 9 and 10 are words of the examples' own
WANTED = [[1, 0, 1, 0, 0], [0, 1, 0, 0, 0]]


def test_names_and_words_of_ones_own_that_the_source_has_are_copied():
    setting = Pointing()
    names = setting.names(SPELLED)
    assert names.int().tolist() == [0, 0, 0, 0, 1, 0, 1, 0, 1]
    assert setting.wanted(TARGET, COPIES, names).int().tolist() == WANTED
    assert Pointing(capitals=False).names(SPELLED).sum() == 1
    assert Pointing(numbers=False).names(SPELLED)[6] == 0


def test_the_charge_by_hand():
    odds = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    u = 1 / (1 + np.exp(-odds.detach().numpy()))
    wanted, real = np.array(WANTED), TARGET.numpy() != 0
    expected = -(wanted * np.log(u) + 0.5 * (1 - wanted) * np.log(1 - u))[real].sum()
    found = Pointing(weight=3.0, others=0.5).loss(odds, torch.tensor(WANTED) > 0, TARGET)
    assert float(found.detach()) == pytest.approx(3 * expected)
    (gradient,) = torch.autograd.grad(found, odds)
    assert ((gradient < 0) == torch.tensor(wanted * real > 0)).all()  # up where to be copied


class Written(Generation):
    """The least of a task that writes."""

    def pairs(self, source, target, *, training):
        return [(source, target)], [target]

    def score(self, predictions, examples):
        return {}


def batch_of(copies=True):
    made = mixed()
    source = made.source
    if copies:
        source = Inputs(made.source, made.lengths, {"copies": made.source})
    count = int(made.target_lengths.sum())
    return PairBatch(source, made.lengths, made.target_in, made.target_out, [*range(5)], count)


def test_a_task_adds_it_in_training_alone():
    task, model = Written(pointing={"weight": 2.0}), build("paulus")
    task._names = torch.arange(SIZE) > 5
    batch, plain = batch_of(), Written()
    added = task.loss(model, batch, 0)[0] - plain.loss(model, batch, 0)[0]
    odds = model(batch.source, batch.target_in).extra["copying"]
    wanted = task.pointing.wanted(batch.target_out, batch.source.values, task._names)
    assert wanted.any()
    torch.testing.assert_close(added, task.pointing.loss(odds, wanted, batch.target_out))
    assert task.loss(model, batch)[0] == plain.loss(model, batch)[0]


def test_what_cannot_be_taught_is_said():
    task = Written(pointing={})
    with pytest.raises(RequestError, match="this model does not copy"):
        task.loss(build("rnnsearch"), batch_of(), 0)
    with pytest.raises(RequestError, match="this task gives nothing to copy"):
        task.loss(build("paulus"), batch_of(copies=False), 0)
    with pytest.raises(RequestError, match=r"task.pointing.others is -1"):
        Pointing(others=-1.0)
