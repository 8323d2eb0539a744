"""What a training says of itself."""

from types import SimpleNamespace

import pytest

from regard.train.run import _say_if_few


@pytest.mark.parametrize(
    ("name", "step", "epoch", "said", "train"),
    [
        (
            "a/b",
            5,
            5.0,
            "5 updates, 5 passes: few to learn from; try train.epochs=500",
            {"epochs": 5},
        ),
        (
            "a/b",
            35,
            0.4,
            "35 updates, one pass or less: few to learn from; try train.epochs=15",
            {},
        ),
        (
            "a/b",
            50,
            2.0,
            "50 updates, 2 passes: few to learn from; try train.steps=500",
            {"steps": 50},
        ),
        ("a/b", 100, 5.0, None, {}),
        ("a/b", 0, 0.0, None, {}),
        ("a/b-tiny", 5, 5.0, None, {}),
    ],
)
def test_a_model_that_saw_too_little_is_said_to_be_one(name, step, epoch, said, train):
    lines = []
    progress = SimpleNamespace(step=step, epoch=epoch)
    work = SimpleNamespace(progress=progress, log=SimpleNamespace(say=lines.append))
    _say_if_few(SimpleNamespace(name=name, train=train), work)
    assert lines == ([] if said is None else [said + ", or more data"])
