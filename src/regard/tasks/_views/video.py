"""What a captioner of clips looked at: for each word it wrote, the frames."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.attention import watch
from regard.data.pictures import png
from regard.errors import RequestError
from regard.fields.clip import ClipColumn
from regard.tasks._views.generation import kinds_of
from regard.tasks._views.loaded import LoadedModel, name_of
from regard.tasks.given import device_of
from regard.views import Axis, Map, MapPanel, Run, View, ViewOptions, axis_of
from regard.views.picture import WordPieces

__all__ = ["view"]

GAP = 2
"""White pixels between two frames of the strip."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Caption each clip, watched: a map of words and frames for each attention.

    Raises:
        RequestError: an input is empty or no clip, or an option is asked for that nobody knows.
    """
    options.only(task=loaded.task.name)
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for text in inputs:
        if not text.strip():
            raise RequestError("the input is empty: there is nothing to look at")
        given = loaded.task.asked([text], loaded.fields)
        if given.refused[0].refused:
            raise RequestError(given.refused[0].refused)
        dataset, model = given.dataset, loaded.model
        source, lengths = dataset.sources([0])
        device = device_of(model)
        names = [name for name, kind in kinds_of(model).items() if kind == "cross"]
        with watch(model) as seen:
            (best, *_), *_ = loaded.decoder(model, source.to(device), lengths.to(device))
        column: ClipColumn = dataset.source
        target = loaded.tokenizers["target"]
        first = len(maps)
        for layer, name in enumerate(names, 1):
            weights = seen[name].along(best.trail).float().cpu()
            axes += [axis_of(WordPieces.of(target, best.tokens)), strip_axis(column.pixels(0))]
            maps.append(Map.of(
                name, len(axes) - 2, len(axes) - 1, weights.numpy(), kind="cross", layer=layer
            ))  # fmt: skip
        kept = list(range(first, len(maps)))
        runs.append(Run(
            kept, input=text if len(text) < 200 else "a clip",
            output=target.decode(best.tokens), model=name_of(loaded), folder=options.folder,
            score=best.score, number=1, of=1,
            panels=[MapPanel("image", "which frames each word looked at", map=m) for m in kept],
        ))  # fmt: skip
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {runs[0].input}")


def strip_axis(frames: NDArray[np.uint8]) -> Axis:
    """The frames of a clip (T, H, W, C) beside each other, as on a film."""
    count, high, wide, channels = frames.shape
    strip = np.full((high, count * (wide + GAP), channels), 255, np.uint8)
    for i, frame in enumerate(frames):
        left = i * (wide + GAP) + GAP // 2
        strip[:, left : left + wide] = frame
    names = [f"frame {i + 1}" for i in range(count)]
    return Axis(names, "image", groups=[[i] for i in range(count)], texts=names, grid=(1, count),
                image=png(strip))  # fmt: skip
