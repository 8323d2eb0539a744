"""Equations of the site: LaTeX in pages and docstrings becomes MathML that fits a narrow page."""

import importlib.util

import pytest

from tests.docs.pages import name, pages
from tests.repo.tree import TOP

pytest.importorskip("latex2mathml")
pytest.importorskip("markdown")
SPEC = importlib.util.spec_from_file_location("docs_math", TOP / "tools" / "docs_math.py")
math = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(math)


def html(text):
    from markdown import Markdown

    return Markdown(extensions=[math.MathExtension()]).convert(text)


def test_equations_of_a_line_break_where_they_are_apart():
    made = html(r"$$a = b, \qquad c = d$$")
    assert made.count('<div class="equations">') == 1
    assert made.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') == 2
    assert "<p><div" not in made


def test_what_is_inside_of_brackets_stays_together():
    assert math.equations(r"\left( a \qquad b \right), \qquad c") == [
        r"\left( a \qquad b \right),",
        "c",
    ]
    assert math.equations(r"a \leftarrow b, \qquad c") == [r"a \leftarrow b,", "c"]
    assert math.equations(r"\frac{a \qquad b}{c}") == [r"\frac{a \qquad b}{c}"]


def test_a_formula_in_a_sentence_stays_in_it():
    made = html("The score :math:`e_{ij}` of a word.")
    assert made.startswith("<p>The score <math")
    assert 'display="inline"' in made


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_formula_of_a_page_is_known_to_the_converter(page):
    """A command that it does not know would stand in the page as it is."""
    text = page.read_text(encoding="utf-8")
    lines = [found[1] for line in text.splitlines() if (found := math.DOLLARS.match(line))]
    for formula in [*lines, *math.INLINE.findall(text)]:
        assert "\\" not in math.convert(formula), formula
