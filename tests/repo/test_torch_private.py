"""`torch_private.tsv` lists what `src` uses of PyTorch's private names, and the tests that notice.

When a new PyTorch lacks one, its row says where it is used and which test has to pass again.
"""

import ast
from pathlib import Path

import pytest

from tests.repo.torch_private import is_there, used

ROWS = [
    line.split("\t")
    for line in Path("tests/repo/torch_private.tsv").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_each_private_name_has_a_row_with_the_files_that_use_it():
    assert {name: set(files.split()) for name, files, _ in ROWS} == used()


@pytest.mark.parametrize(("name", "test"), [(name, test) for name, _, test in ROWS])
def test_it_is_there_and_so_is_its_test(name, test):
    assert is_there(name)
    path, _, function = test.partition("::")
    tree = ast.parse(Path("tests", path).read_text("utf-8"))
    assert function in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_a_name_that_is_gone_would_be_noticed():
    assert not is_there("torch._no_such_name")
    assert not is_there("torch._no_such_module.name")
    assert not is_there("*._no_such_attribute")
