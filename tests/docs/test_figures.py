"""docs/figures.md: every figure has its command, every command runs and draws its picture."""

import re

import pytest

from regard.catalog import ENTRIES
from tests.cli.run import run
from tests.docs.figures import IMAGES, PAGE, SLOW, fast, figures, run_python

pytest.importorskip("matplotlib")


def drawn(words):
    """The file that a command writes."""
    return words[words.index("-o") + 1]


def test_every_figure_has_a_picture_and_what_makes_it():
    assert len(figures()) >= 15
    for figure in figures():
        assert figure.pictures, figure.title
        assert figure.python or figure.commands, figure.title
        for picture in figure.pictures:
            assert (PAGE.parent / picture).is_file(), picture
            assert (PAGE.parent / picture).stat().st_size < 150_000, picture
        own = [p.rpartition("/")[2] for p in figure.pictures if p.startswith("images/figures/")]
        made = [word for line in figure.commands for word in re.findall(r"-o (\S+)", line)]
        assert figure.python or set(own) <= set(made), figure.title


def test_every_picture_of_the_folder_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    assert [p.name for p in IMAGES.glob("*.png") if f"images/figures/{p.name}" not in text] == []


def test_the_timeline_counts_the_models_of_the_catalog():
    count = sum(entry.axes["score"] != "none" for entry in ENTRIES)
    assert f"{count} models, by the year" in PAGE.read_text(encoding="utf-8")


def test_the_python_draws_its_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_python()
    named = re.findall(r'draw_charts\(.*"(\w+\.png)"\)', PAGE.read_text(encoding="utf-8"))
    assert len(named) >= 3
    assert sorted(p.name for p in tmp_path.glob("*.png")) == sorted(named)


QUICK = ("hops.png", "its.png", "norms.png", "positions.png", "roles.png")
"""The others draw heads and levels, as these and tests of `regard look` do: slow tests."""


def commands():
    for words in fast():
        marks = () if drawn(words) in QUICK else pytest.mark.slow
        yield pytest.param(words, marks=marks, id=drawn(words))


def test_quick_commands_are_on_the_page():
    assert set(QUICK) < {drawn(words) for words in fast()}


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_draws_its_picture(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert run(capsys, *words).code == 0
    assert (tmp_path / drawn(words)).stat().st_size > 1000


def test_slow_commands_are_ones_that_other_tests_hold():
    """Lessons run in test_course.py, claims and the bench in tests of their own."""
    slow = [line for figure in figures() for line in figure.commands if SLOW in line]
    for line in slow:
        assert re.match(r"python -m tests\.docs\.course |regard (claims|bench) ", line), line
