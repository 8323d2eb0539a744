"""`make mutants`: its table has not rotted, and the program says what it should."""

import shutil
import subprocess
import sys
from collections import Counter

import pytest
from tools.mutants import missing, mutants, verdict

from tests.repo.tree import TOP

ALL = mutants()


def test_there_are_fifty_and_each_has_a_name_of_its_own():
    assert len(ALL) >= 50
    assert [name for name, n in Counter(m.name for m in ALL).items() if n > 1] == []
    endings = Counter(m.file.rsplit(".", 1)[1] == "py" for m in ALL)
    assert endings[True] >= 16
    assert endings[False] >= 34


@pytest.mark.parametrize("mutant", ALL, ids=lambda m: m.name)
def test_it_can_be_made_and_its_tests_are_there(mutant):
    assert mutant.wrong(TOP / "src") is None
    assert mutant.tests
    assert [test for test in mutant.tests if missing(test)] == []


@pytest.mark.parametrize(
    ("code", "said", "noticed", "what"),
    [
        (1, ".F\nFAILED tests/a.py::test_b[1-x] - assert 1", True, "tests/a.py::test_b[1-x]"),
        (1, "ERROR tests/a.py::test_b - OSError", True, "killed by tests/a.py::test_b"),
        (-11, "..", True, "SIGSEGV"),
        (None, "", True, "it hangs"),
        (0, "3 passed", False, "SURVIVED"),
        (2, "1 error during collection", False, "pytest ended with 2"),
        (5, "no tests ran", False, "pytest ended with 5"),
        (1, "Traceback", False, "pytest ended with 1"),
    ],
)  # fmt: skip
def test_what_a_run_of_pytest_means(code, said, noticed, what):
    found = verdict(code, said)
    assert found[0] is noticed
    assert what in found[1]


TABLE = """
["x.py"]
tests = ["tests/test_x.py"]
mutants = [
    ["killed", "a + b", "a - b"],
    ["hanging", "total = 0", "while True: pass"],
    {more}
]
"""
MORE = """
    ["equal", "a + b", "b + a"],
    ["broken", "a + b", "a +"],
    ["gone", "a * b", "a"],
"""


@pytest.fixture
def project(tmp_path):
    """A repository of one function and one test."""
    for name, text in {
        "src/regard/__init__.py": "",
        "src/regard/x.py": "def add(a, b):\n    total = 0\n    return total + (a + b)\n",
        "src/regard/native/_build.py": "class BuildError(Exception): pass\n"
        "def cached(folder): return folder, None\n",
        "tests/test_x.py": "from regard.x import add\ndef test_add(): assert add(2, 3) == 5\n",
        "tests/conftest.py": "from hypothesis import settings\n"
        "settings.register_profile('unshrunk')\n",
        "tools/mutants_python.toml": TABLE.replace("{more}", ""),
        "tools/mutants_c.toml": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(TOP / "tools" / "mutants.py", tmp_path / "tools")
    return tmp_path


def run(project, *options):
    done = subprocess.run([sys.executable, "tools/mutants.py", "--seconds", "25", *options],
                          cwd=project, capture_output=True, text=True, check=False)  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.slow
def test_all_killed_is_well_and_survivors_are_not(project):
    code, said = run(project)
    assert "x.py:killed: killed by tests/test_x.py::test_add" in said
    assert "x.py:hanging: killed by the time limit: it hangs" in said
    assert "2 mutants, 0 survive" in said
    assert code == 0
    (project / "tools/mutants_python.toml").write_text(TABLE.replace("{more}", MORE))
    code, said = run(project, "--only", "equal", "broken", "gone")
    assert "x.py:equal: SURVIVED" in said
    assert "x.py:broken: did not apply: invalid syntax" in said
    assert "x.py:gone: did not apply: its text occurs 0 times in x.py" in said
    assert "3 mutants, 3 survive or do not apply" in said
    assert code == 1
    assert "a + b" in (project / "src/regard/x.py").read_text()


@pytest.mark.slow
def test_tests_that_fail_by_themselves_say_nothing_of_mutants(project):
    (project / "tests/test_x.py").write_text("def test_add(): assert False\n")
    code, said = run(project, "--only", "killed")
    assert "the tests fail without a mutant" in said
    assert code == 1
    assert run(project, "--only", "nothing")[0] == 2
