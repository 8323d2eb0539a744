"""Each checklist of CONTRIBUTING.md, followed for a toy up to one step: the test of it fails.

The toy is complete but for the step that is named. A test that would pass without the step is no
help to who follows the list.
"""

import importlib
from dataclasses import replace
from typing import Annotated

import pytest
import typer

import regard.attention
from regard import catalog, tasks
from regard.claims.table import CLAIMS, THEMES
from regard.data.files.registry import FORMATS
from regard.views import panel
from tests.claims import test_table
from tests.cli import test_options
from tests.data.files import test_registry as test_formats
from tests.docs import test_parts as test_page_of_parts
from tests.docs import test_taxonomy
from tests.models import test_parts
from tests.repo import test_mirror
from tests.repo.tree import SOURCE
from tests.tasks import test_contract
from tests.viewer.panels import test_registry as test_panels


def score(patch):
    """A score that is exported."""
    toy = type("ToyScore", (), {"__module__": "regard.attention.score.toy"})
    patch.setattr(regard.attention, "ToyScore", toy, raising=False)
    patch.setattr(regard.attention, "__all__", [*regard.attention.__all__, "ToyScore"])


def paper(patch):
    """A row of the catalogue."""
    names = [*catalog.names(), "toy-paper"]
    patch.setattr(catalog, "names", lambda *task, **more: names)


def task(patch):
    """A row of the table of tasks, for a class that predicts in a way of its own."""
    made = type("Toy", (tasks.load("classification"),), {"predict": lambda self: []})
    patch.setattr(test_contract, "Toy", made, raising=False)
    patch.setitem(tasks.TASKS, "toy", "tests.tasks.test_contract:Toy")


def module(name):
    """A module without tests."""

    def added(patch):
        whole = (*test_mirror.modules(), SOURCE / name)
        patch.setattr(test_mirror, "modules", lambda: whole)

    return added


def file_format(patch):
    """A row of the table of formats."""
    patch.setitem(FORMATS, "toy", replace(FORMATS["tsv"], name="toy", endings=(".toy",)))


def kind_of_panel(patch):
    """A name of a kind of panel, without the file that draws it."""
    patch.setitem(panel.KINDS, "toy", "what it shows")


def option(patch):
    """An option of a command."""

    def doctor(toy: Annotated[bool, typer.Option("--toy", help="A toy.")] = False) -> None:
        """Check a toy."""

    patch.setattr(importlib.import_module("regard.cli.doctor"), "doctor", doctor)


def claim(patch):
    """A claim, whose page was not written again."""
    theme, claims = next(iter(THEMES.items()))
    toy = replace(claims[0], id="C71", sentence="A toy.")
    patch.setitem(CLAIMS, toy.id, toy)
    patch.setitem(THEMES, theme, [*claims, toy])


def way_of_every_task():
    for name in tasks.TASKS:
        test_contract.test_no_task_has_a_way_of_its_own(name)


STEPS = [
    ("score", "its row of catalog/parts or its reason", score,
     test_parts.test_no_part_is_forgotten),
    ("score", "its row of docs/parts.md", score,
     test_page_of_parts.test_every_part_is_on_the_page_and_nothing_else),
    ("score", "its row of combine.py", score,
     test_page_of_parts.test_every_part_is_combined_in_the_tests),
    ("score", "its tests", module("attention/score/toy.py"),
     test_mirror.test_every_module_has_its_test_file),
    ("paper", "its page", paper, test_taxonomy.test_every_model_has_a_page),
    ("paper", "its tests", module("models/toy_paper.py"),
     test_mirror.test_every_module_has_its_test_file),
    ("task", "the way of all tasks", task,
     way_of_every_task),
    ("task", "its tests", module("tasks/labels/toy_task.py"),
     test_mirror.test_every_module_has_its_test_file),
    ("field", "its tests", module("fields/toy.py"),
     test_mirror.test_every_module_has_its_test_file),
    ("format", "its seeds and its line in the docs", file_format,
     test_formats.test_every_format_has_seeds_and_a_line_in_the_docs),
    ("panel", "the file that draws it", kind_of_panel,
     test_panels.test_every_kind_is_here_once_and_on_every_surface),
    ("option", "its value in test_options", option,
     test_options.test_every_option_of_the_parsers_has_a_value_here),
    ("metric", "its tests", module("metrics/toy.py"),
     test_mirror.test_every_module_has_its_test_file),
    ("claim", "its page", claim, test_table.test_the_page_is_what_the_claims_and_results_give),
]  # fmt: skip


@pytest.mark.parametrize(
    ("begun", "noticed"), [pytest.param(*row[2:], id=f"{row[0]}: {row[1]}") for row in STEPS]
)
def test_a_missing_step_is_noticed(begun, noticed, monkeypatch):
    noticed()  # it passes without the toy, or its failure would mean nothing
    begun(monkeypatch)
    with pytest.raises(AssertionError):
        noticed()


def test_every_checklist_is_followed():
    lists = {"score", "paper", "task", "field", "format", "panel", "option", "metric", "claim"}
    assert {row[0] for row in STEPS} == lists
