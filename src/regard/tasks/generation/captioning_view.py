"""What a captioner looked at: for each word it wrote, the regions of the picture."""

from collections.abc import Sequence

from regard.fields.image import ImageColumn
from regard.tasks.generation.source_maps import view_of
from regard.tasks.loaded_model import LoadedModel
from regard.views import Axis, View, ViewOptions
from regard.views.axis import picture_axis

__all__ = ["view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Caption each picture, watched: a map of words and regions for each attention.

    Raises:
        RequestError: an input is empty or no picture, or an option is unknown.
    """
    return view_of(loaded, inputs, options, "picture", "image", _regions)


def _regions(column: ImageColumn, count: int) -> Axis:
    """So many regions, in a grid as near to the picture's form as they divide it."""
    pixels = column.pixels(0)
    high, wide = pixels.shape[:2]
    fits = [(count // n, n) for n in range(1, count + 1) if count % n == 0]
    return picture_axis(pixels, min(fits, key=lambda g: abs(g[0] * wide - g[1] * high)))
