"""Look at what a model attends to: pages, `.seen` files, figures for papers, the terminal."""

from regard.viewer._arrays import view as view
from regard.viewer._drawable import DrawableView as DrawableView
from regard.viewer._drawable import drawable as drawable
from regard.viewer._seen import read as read
from regard.views import Axis as Axis
from regard.views import Map as Map
from regard.views import Run as Run
from regard.views import View as View

__all__ = ["Axis", "DrawableView", "Map", "Run", "View", "drawable", "read", "view"]
