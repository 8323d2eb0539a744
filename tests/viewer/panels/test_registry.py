"""Each kind of panel is in one file, which draws it on every surface and keeps it."""

import json

import pytest
from rich.text import Text

from regard.viewer.checked import Checked
from regard.viewer.drawing import draw
from regard.viewer.page.panels import panels_html
from regard.viewer.panels import registry
from regard.viewer.panels.bars import row_of_values, values_of_row
from regard.viewer.panels.kind import MapKind, PanelKind
from regard.viewer.panels.registry import PANEL_KINDS
from regard.viewer.rendering import render
from regard.viewer.seen_file.panels import panel_of, row_of
from regard.views import KINDS, Run, ValuesPanel, View, panel


def test_every_kind_is_here_once_and_on_every_surface():
    assert set(PANEL_KINDS) == set(KINDS)
    assert sum(len(module.KINDS) for module in registry.MODULES) == len(KINDS)
    for name, kind in PANEL_KINDS.items():
        assert name in kind.panel.known()
        if not isinstance(kind, MapKind):  # a map's are drawn by the script of the page
            assert kind.figure is not None
            assert kind.page is not None


def dots_figure(panels, inches, title, *, values):
    from matplotlib.figure import Figure

    made = Figure()
    made.suptitle(f"{title} {len(panels)}")
    return made


DOTS = PanelKind(
    name="dots", panel=ValuesPanel,
    terminal=lambda place, one: Text("." * len(one.values)),
    figure=dots_figure,
    page=lambda one: f"<b>{len(one.values)}</b>",
    row=row_of_values, read=values_of_row,
)  # fmt: skip


@pytest.fixture
def dots(monkeypatch):
    """A kind that is not there yet: its name, and what `KINDS` of its file would have."""
    monkeypatch.setitem(panel.OF_VALUES, "dots", "a dot for each value")
    monkeypatch.setitem(panel.KINDS, "dots", "a dot for each value")
    monkeypatch.setitem(PANEL_KINDS, "dots", DOTS)
    return ValuesPanel("dots", "few", labels=("a", "b", "c"), values=(1.0, 2.0, 3.0))


def test_a_new_kind_is_drawn_everywhere_and_kept(dots):
    run = Run([], panels=[dots])
    view = View([], [], [run])
    assert render(view, run).plain == "..."
    assert draw(view, run, run.panels).get_suptitle() == "few 1"
    assert "<h2>few</h2><b>3</b>" in panels_html([run])
    (row,) = row_of(run, [])["panels"]
    assert panel_of(Checked(json.loads(json.dumps(row)), "file")) == dots
