"""Look at what a model attends to: pages, `.seen` files, figures for papers, the terminal."""

from regard.viewer._drawable import DrawableView as DrawableView
from regard.viewer._drawable import drawable as drawable
from regard.viewer.seen_file.file import read as read
from regard.views import Axis as Axis
from regard.views import Map as Map
from regard.views import Run as Run
from regard.views import View as View

__all__ = ["Axis", "DrawableView", "Map", "Run", "View", "drawable", "read"]


def __getattr__(name: str) -> object:
    """Name the new place of what was here; an ImportError, for `from … import` hides others."""
    if name == "view":
        raise ImportError("regard.viewer.view is now regard.view: `from regard import view`")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
