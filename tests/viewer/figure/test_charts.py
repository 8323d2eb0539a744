"""Charts of experiments: labels that do not overlap."""

import itertools

import pytest

pytest.importorskip("matplotlib")

from regard.viewer.figure.charts import draw_charts
from regard.views.charts import Matrix


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
