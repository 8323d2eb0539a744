"""What a captioner looked at: for each word it wrote, the regions of the picture."""

from collections.abc import Sequence

from regard.attention import watch
from regard.errors import RequestError
from regard.fields.image import ImageColumn
from regard.tasks._views.generation import kinds_of
from regard.tasks._views.images import picture_axis
from regard.tasks._views.loaded import LoadedModel, name_of
from regard.tasks.given import device_of
from regard.views import Axis, Map, MapPanel, Run, View, ViewOptions, axis_of
from regard.views.picture import WordPieces

__all__ = ["view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Caption each picture, watched: a map of words and regions for each attention.

    Raises:
        RequestError: an input is empty or no picture, or an option is asked for that nobody knows.
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
        column: ImageColumn = dataset.source
        target = loaded.tokenizers["target"]
        first = len(maps)
        for layer, name in enumerate(names, 1):
            weights = seen[name].along(best.trail).float().cpu()
            rows = axis_of(WordPieces.of(target, best.tokens))
            axes += [rows, picture_axis(column.pixels(0), _grid(column, weights.shape[-1]))]
            maps.append(Map.of(
                name, len(axes) - 2, len(axes) - 1, weights.numpy(), kind="cross", layer=layer
            ))  # fmt: skip
        kept = list(range(first, len(maps)))
        runs.append(Run(
            kept, input=text if len(text) < 200 else "a picture",
            output=target.decode(best.tokens), model=name_of(loaded), folder=options.folder,
            score=best.score, number=1, of=1, panels=[MapPanel("image", map=m) for m in kept],
        ))  # fmt: skip
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {runs[0].input}")


def _grid(column: ImageColumn, count: int) -> tuple[int, int]:
    """Rows and columns of so many regions: as near to the picture's form as they divide it."""
    high, wide = column.pixels(0).shape[:2]
    fits = [(count // n, n) for n in range(1, count + 1) if count % n == 0]
    return min(fits, key=lambda grid: abs(grid[0] * wide - grid[1] * high))
