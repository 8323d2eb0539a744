"""The examples in docstrings run and give what they say."""

import doctest
import importlib

import pytest
import torch

from tests.repo.tree import SOURCE, dotted, modules

WITH_EXAMPLES = [path for path in modules() if ">>> " in path.read_text(encoding="utf-8")]


def test_there_are_examples():
    assert SOURCE / "attention" / "op.py" in WITH_EXAMPLES


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_examples(path):
    module = importlib.import_module(dotted(path))
    told: list[str] = []
    tried = 0
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs={"torch": torch}):
        result = runner.run(test, out=told.append)
        tried += result.attempted
    assert not runner.failures, "".join(told)
    skipped = path.read_text(encoding="utf-8").count("+SKIP")
    assert tried or skipped, "the examples were not found"
