"""Look at what a model attends to: pages, `.seen` files, figures for papers, the terminal."""

from regard.viewer._arrays import view as view
from regard.viewer._seen import read as read
from regard.viewer._view import Map as Map
from regard.viewer._view import Run as Run
from regard.viewer._view import View as View
from regard.viewer.sides import Side as Side

__all__ = ["Map", "Run", "Side", "View", "read", "view"]
