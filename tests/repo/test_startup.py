"""What it costs to start: no torch before it is used."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.nohook  # the shape checks would be paid for, too
HEAVY = ("torch", "numpy", "pytorch_lightning", "tokenizers", "matplotlib", "sacrebleu", "pydantic")


def loaded_after(code: str) -> set[str]:
    """Which heavy packages a new Python has loaded after this code."""
    ask = f"\nimport json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    ran = subprocess.run(
        [sys.executable, "-c", code + ask], capture_output=True, text=True, check=True
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run of a command."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def test_import_regard_is_light():
    assert loaded_after("import regard") == set()


def test_the_catalogue_and_recipes_are_light():
    assert "torch" not in loaded_after(
        "import regard.catalog, regard.recipe; regard.catalog.names(); regard.recipe.names()"
    )


def test_a_name_is_loaded_when_used():
    assert "torch" in loaded_after("import regard; regard.attend")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"]])
def test_help_imports_no_torch(words):
    code = f"from regard.cli.app import main; assert main({words!r}) == 0"
    assert loaded_after(code) <= {"pydantic"}


@pytest.mark.parametrize(
    "name", ["de-en-small", "en-de-small", "en-zh-small", "zh-en-small", "pronunciation-small"]
)
def test_a_shipped_translator_answers_without_torch(name):
    code = f"from regard.cli.app import main; assert main(['predict', {name!r}, 'Haus']) == 0"
    assert loaded_after(code) <= {"pydantic", "numpy", "tokenizers"}


def test_help_is_quick():
    command = [sys.executable, "-m", "regard", "--help"]
    cpu_seconds(command)  # byte code is written at the first run
    assert min(cpu_seconds(command) for _ in range(5)) <= 0.3


def test_operators_are_registered_without_a_look_at_every_module(torch_process):
    """PyTorch asks `inspect` for the caller's file, which then looks up those of all modules."""
    code = """
import inspect, torch
before = len(inspect.modulesbyfile)
from regard.attention._kernels.dispatch import table
table()
print(len(inspect.modulesbyfile) - before)
"""
    ran = torch_process.run(code)
    assert 4 <= int(ran.stdout) <= 40, ran.stderr


@pytest.mark.slow
def test_a_prediction_costs_at_most_a_second_beyond_torch():
    """Whatever else runs: the two in turns, the least of three."""
    torch = [sys.executable, "-c", "import torch"]
    predict = [sys.executable, "-m", "regard", "predict", "parser-small", "Hello ."]
    cpu_seconds(predict)  # byte code, and the C kernels where there is no wheel
    both = [(cpu_seconds(torch), cpu_seconds(predict)) for _ in range(3)]
    least = [min(each) for each in zip(*both, strict=True)]
    assert least[1] - least[0] <= 1.0
