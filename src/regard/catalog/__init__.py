"""The catalogue: every paper's model, where its class is, and where it stands among the others.

Nothing heavy is imported here. Adding a paper is one file under `models/` and one row here: the
contract battery, `regard models` and recipes read it.
"""

from regard.catalog.building import ENTRIES, build, constructor, entry, load, names, shape_of
from regard.catalog.row import AXES, Entry

__all__ = ["AXES", "ENTRIES", "Entry", "build", "constructor", "entry", "load", "names", "shape_of"]
