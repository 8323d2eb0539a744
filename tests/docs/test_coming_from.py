"""Every key that the tables of names give is one that this version has."""

import re
from collections.abc import Mapping
from dataclasses import fields

import pytest

from regard import catalog, decode, tasks
from regard.optim.optimizers import OPTIMIZERS
from regard.optim.schedules import SCHEDULES
from regard.recipe.train_section import (
    BatchSettings,
    Checkpoint,
    NoiseSettings,
    Training,
    Validate,
)
from regard.settings.check import defaults, given_by_data
from tests.repo.tree import TOP

PAGE = TOP / "docs" / "howto" / "coming-from.md"
ROWS = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
KEYS = sorted(
    {
        key
        for row in ROWS
        for key in re.findall(r"`((?:model|task|data|train|decode)\.[\w.]+)`", row.split(" | ")[1])
    }
)


def known():
    """Dotted keys of every section, from the constructors."""
    found = {f"model.{key}" for name in catalog.names() for key in defaults(catalog.load(name))}
    for name in catalog.names():
        for section, kind in getattr(catalog.load(name), "sections", {}).items():
            found |= {f"model.{section}.{f.name}" for f in fields(kind)}
    for name in tasks.TASKS:
        task = tasks.load(name)
        found |= {f"task.{key}" for key in defaults(task)}
        made = task(graph="some.npz") if name == "graphs" else task()
        found |= set(inside("data", made.data_types))
    found |= {f"train.{f.name}" for f in fields(Training)}
    for section, kind in (
        ("batch", BatchSettings),
        ("validate", Validate),
        ("checkpoint", Checkpoint),
        ("weight_noise", NoiseSettings),
    ):
        found |= {f"train.{section}.{f.name}" for f in fields(kind)}
    for section, table in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
        found |= {f"train.{section}.{key}" for made in table.values() for key in defaults(made)}
        found.add(f"train.{section}.name")
    found |= {f"decode.{f.name}" for kind in decode.DECODERS.values() for f in fields(kind)}
    return found | {"model.name", "task.name", "decode.name"}


def inside(section, types):
    for key, kind in types.items():
        yield f"{section}.{key}"
        if isinstance(kind, Mapping):
            yield from inside(f"{section}.{key}", kind)


KNOWN = known()


def test_there_are_tables_with_keys():
    assert len(ROWS) > 80
    assert len(KEYS) > 50
    assert "model.hiden" not in KNOWN


@pytest.mark.parametrize("key", KEYS)
def test_the_key_is_there(key):
    assert key in KNOWN


def test_arguments_that_follow_from_the_data():
    text = PAGE.read_text("utf-8")
    for name in ("transformer", "gat"):
        for argument in given_by_data(catalog.load(name)):
            assert argument in text
