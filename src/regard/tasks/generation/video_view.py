"""What a captioner of clips looked at: for each word it wrote, the frames."""

from collections.abc import Sequence

import numpy as np

from regard.data.images.images import png
from regard.fields.clip import ClipColumn
from regard.tasks.generation.source_maps import view_of
from regard.tasks.loaded_model import LoadedModel
from regard.views import Axis, View, ViewOptions

__all__ = ["view"]

GAP = 2
"""White pixels between two frames of the strip."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Caption each clip, watched: a map of words and frames for each attention.

    Raises:
        RequestError: an input is empty or no clip, or an option is unknown.
    """
    return view_of(loaded, inputs, options, "clip", "image", _strip)


def _strip(column: ClipColumn, count: int) -> Axis:
    """The frames beside each other, as on a film."""
    frames = column.pixels(0)
    _, high, wide, channels = frames.shape
    strip = np.full((high, count * (wide + GAP), channels), 255, np.uint8)
    for i, frame in enumerate(frames):
        left = i * (wide + GAP) + GAP // 2
        strip[:, left : left + wide] = frame
    names = [f"frame {i + 1}" for i in range(count)]
    return Axis(
        names,
        "image",
        groups=[[i] for i in range(count)],
        texts=names,
        grid=(1, count),
        image=png(strip),
    )
