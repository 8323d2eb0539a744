"""What a task shows: values alone, for terminal, figure and page to draw (`regard.viewer`)."""

from regard.views._axis import Axis as Axis
from regard.views._axis import axis_of as axis_of
from regard.views._options import ViewOptions as ViewOptions
from regard.views._panel import KINDS as KINDS
from regard.views._panel import LabeledSpan as LabeledSpan
from regard.views._panel import MapPanel as MapPanel
from regard.views._panel import Panel as Panel
from regard.views._panel import SpansPanel as SpansPanel
from regard.views._panel import TablePanel as TablePanel
from regard.views._panel import TreeNode as TreeNode
from regard.views._panel import TreePanel as TreePanel
from regard.views._panel import ValuesPanel as ValuesPanel
from regard.views._view import WHATS as WHATS
from regard.views._view import Map as Map
from regard.views._view import Run as Run
from regard.views._view import View as View

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
