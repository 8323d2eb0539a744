"""Every kind of panel by name: one file each in this folder, drawn and kept as it says.

To add one: its name and what it shows in `views/panel.py`, a file here that ends in `KINDS`, and
its module in the list below.
"""

from collections.abc import Mapping

from regard.viewer.panels import (
    bars,
    compare,
    curves,
    features,
    graph,
    image,
    lines,
    matrix,
    pointer,
    sound,
    spans,
    table,
    text,
    tree,
)
from regard.viewer.panels.kind import MapKind, PanelKind
from regard.views import MapPanel

__all__ = ["PANEL_KINDS", "map_kind"]

MODULES = (
    bars,
    compare,
    curves,
    features,
    graph,
    image,
    lines,
    matrix,
    pointer,
    sound,
    spans,
    table,
    text,
    tree,
)
PANEL_KINDS: Mapping[str, PanelKind] = {
    kind.name: kind for module in MODULES for kind in module.KINDS
}


def map_kind(panel: MapPanel) -> MapKind:
    """The kind of a picture of a map."""
    kind = PANEL_KINDS[panel.kind]
    assert isinstance(kind, MapKind)
    return kind
