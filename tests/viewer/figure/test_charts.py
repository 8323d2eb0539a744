"""Charts of experiments: labels that do not overlap."""

import itertools

import pytest

pytest.importorskip("matplotlib")

from regard.viewer.figure.charts import draw_charts
from regard.viewer.palette import ink_on
from regard.views.charts import Chart, Matrix


def test_long_labels_below_a_matrix_of_a_chart_are_turned():
    """Short ones stand upright; nothing overlaps."""
    weights = [[1.0] * 6]
    for columns, turned in (("abcdef", 0.0), (["The", "window", "is", "shut", "early", "end"], 45)):
        figure = draw_charts([Matrix("", ["x"], list(columns), weights)])
        labels = figure.axes[0].get_xticklabels()
        assert [label.get_rotation() for label in labels] == [turned] * 6
        figure.canvas.draw()
        boxes = [label.get_window_extent() for label in labels]
        if not turned:
            assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_numbers_stand_in_the_cells_of_a_matrix():
    """As the format says, readable on the shade; `top` is the weight of the darkest shade."""
    matrix = Matrix("", ["a", "b"], ["c", "d"], [[0, 12.4], [49.6, 25]], numbers=".0f", top=100)
    (axes,) = draw_charts([matrix]).axes
    assert [text.get_text() for text in axes.texts] == ["0", "12", "50", "25"]
    assert [text.get_position() for text in axes.texts] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert [text.get_color() for text in axes.texts] == [
        ink_on(w, 100) for w in (0, 12.4, 49.6, 25)
    ]
    assert axes.images[0].get_clim() == (0.0, 100.0)
    (axes,) = draw_charts([Matrix("", ["a"], ["c", "d"], [[1, 4]])]).axes
    assert not axes.texts
    assert axes.images[0].get_clim() == (0.0, 4.0)


def test_charts_of_flat_matrices_are_low():
    flat = Matrix("", ["a", "b"], [], [[0.0] * 40] * 2)
    square = Matrix("", ["a", "b"], ["c", "d"], [[0.0] * 2] * 2)
    low, high = (draw_charts([one, one]).get_figheight() for one in (flat, square))
    assert low < 1 < high
    assert draw_charts([flat, Chart("", lines={"a": [(0, 0)]})]).get_figheight() == high
