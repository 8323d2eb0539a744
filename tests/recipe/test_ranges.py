"""No recipe that passes has a number that its constructor, or what it calls, cannot take."""

import inspect
import math
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from regard import catalog, recipe, tasks
from regard.decode import DECODERS
from regard.errors import RequestError
from regard.losses.guided_alignment import Guided
from regard.losses.minimum_risk import Risk
from regard.losses.scheduled_sampling import Scheduled
from regard.optim.optimizers import OPTIMIZERS
from regard.optim.schedules import SCHEDULES
from regard.settings.overlay import flat
from regard.settings.ranges import NUMBER, range_of

VALUES = [
    -1, 0, math.nan, math.inf, -math.inf, 1e30, 10**30, 2.5, "x", True, [], [-1], {}, {"a": 1},
]  # fmt: skip
SLOW = [
    "memory/memn2n-babi", "memory/memn2n-lm", "parsing/lstm-a-ewt",
    "pronunciation/rnnsearch-cmudict", "reading/aoa-cloze", "translation/moe-multi30k",
    "translation/transformer-tiny-multi30k",
]  # fmt: skip
RECIPES = ["graphs/gcn-cora", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def constructors() -> Iterator[tuple[str, Any]]:
    for name in catalog.names():
        yield "model", catalog.load(name)
    for name in tasks.TASKS:
        yield "task", tasks.load(name)
    yield from [("task.guided", Guided), ("task.risk", Risk), ("task.scheduled", Scheduled)]
    yield from (("decode", one) for one in DECODERS.values())
    yield from (("train.optimizer", one) for one in OPTIMIZERS.values())
    yield from (("train.schedule", one) for one in SCHEDULES.values())


def numeric(hint: Any) -> bool:
    """Whether a type has a number somewhere in it."""
    if hint in (int, float):
        return True
    if typing.get_origin(hint) is typing.Literal:
        return False
    return any(numeric(inner) for inner in typing.get_args(hint))


def test_every_number_of_every_constructor_has_a_range():
    lacking = set()
    for section, made in constructors():
        own = made.__init__ if inspect.isclass(made) else made
        for name, hint in typing.get_type_hints(own).items():
            if name not in ("return", "parameters") and numeric(hint):
                key = f"{section}.{name}"
                lacking |= {key} if range_of(key) is NUMBER else set()
    assert lacking == set()


@pytest.mark.parametrize("key", ["sample", "stream.buffer", "stream.lanes", "max_length", "limit"])
def test_none_of_what_is_counted_is_no_number(key):
    with pytest.raises(RequestError, match=rf"data\.{key}: expected a number from 1 to .*, got 0"):
        recipe.load(RECIPES[0], {f"data.{key}": 0}).check()


@pytest.mark.parametrize("name", RECIPES)
def test_whatever_is_written_passes_or_is_refused_in_one_sentence(name):
    keys = [key for key, _ in flat(recipe.load(name).check().resolved()) if key[:6] != "expect"]
    refused = long = 0
    for key in keys:
        for value in VALUES:
            try:
                found = recipe.load(name, {key: value}).check()
            except RequestError as error:
                refused += "\n" not in str(error)
                long += "\n" in str(error)
            else:
                said = dict(flat(found.resolved())).get(key)
                assert not isinstance(said, float) or math.isfinite(said), (key, value)
    assert long == 0, "a refusal of more than one line"
    assert refused > 6 * len(keys)


def test_checking_takes_no_memory_for_weights_and_draws_no_random_numbers(monkeypatch):
    name = "translation/transformer-tiny-multi30k"
    before = torch.get_rng_state()
    huge = ["model.dim=1_000_000", "model.ffn_dim=1_000_000", "model.heads=1000"]  # 32 TB
    recipe.load(name, huge).check()
    assert torch.equal(torch.get_rng_state(), before)


def test_levels_without_end_are_refused_with_their_line(tmp_path):
    for text in ("[" * 2000 + "]" * 2000, "\n".join(" " * i + "a:" for i in range(300))):
        (tmp_path / "deep.yaml").write_text("model: {name: gat}\ntask: " + "\n " + text)
        with pytest.raises(RequestError, match=r"deep\.yaml:\d+: expected at most 50 levels"):
            recipe.load(tmp_path / "deep.yaml")
