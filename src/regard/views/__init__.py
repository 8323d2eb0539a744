"""What a task shows: values alone, for terminal, figure and page to draw (`regard.viewer`)."""

from regard.views.axis import Axis as Axis
from regard.views.axis import axis_of as axis_of
from regard.views.options import ViewOptions as ViewOptions
from regard.views.panel import KINDS as KINDS
from regard.views.panel import LabeledSpan as LabeledSpan
from regard.views.panel import MapPanel as MapPanel
from regard.views.panel import Panel as Panel
from regard.views.panel import SpansPanel as SpansPanel
from regard.views.panel import TablePanel as TablePanel
from regard.views.panel import TreeNode as TreeNode
from regard.views.panel import TreePanel as TreePanel
from regard.views.panel import ValuesPanel as ValuesPanel
from regard.views.view import WHATS as WHATS
from regard.views.view import Map as Map
from regard.views.view import Run as Run
from regard.views.view import View as View

__all__ = [
    "KINDS",
    "WHATS",
    "Axis",
    "LabeledSpan",
    "Map",
    "MapPanel",
    "Panel",
    "Run",
    "SpansPanel",
    "TablePanel",
    "TreeNode",
    "TreePanel",
    "ValuesPanel",
    "View",
    "ViewOptions",
    "axis_of",
]
