"""Look at what a model attends to: pages, `.seen` files, figures for papers, the terminal."""

from typing import TYPE_CHECKING

from regard.viewer._drawable import DrawableView as DrawableView
from regard.viewer._drawable import drawable as drawable
from regard.views import Axis as Axis
from regard.views import Map as Map
from regard.views import Run as Run
from regard.views import View as View

if TYPE_CHECKING:
    from regard.viewer.seen_file.file import read as read

__all__ = ["Axis", "DrawableView", "Map", "Run", "View", "drawable", "read"]


def __getattr__(name: str) -> object:
    """Load `read` at its first use; name the new place of what was here.

    An ImportError, for `from … import` hides others.
    """
    if name == "read":
        from regard.viewer.seen_file.file import read

        globals()[name] = read
        return read
    if name == "view":
        raise ImportError("regard.viewer.view is now regard.view: `from regard import view`")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
