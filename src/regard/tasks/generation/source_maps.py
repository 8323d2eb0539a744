"""What a model attended to in a source that is no text, for each word that it wrote."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from regard.system.devices import device_of
from regard.tasks.generation.look import kinds_of
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.tasks.source_inputs import asked, shown
from regard.views import Axis, Map, MapPanel, Run, View, ViewOptions, axis_of
from regard.views.word_pieces import WordPieces
from regard.watching.watcher import watch

__all__ = ["Written", "attended", "view_of"]

Written = tuple[list[int], float | None, str, dict[str, Tensor]]
"""Tokens, their score, their text, and weights (heads, tokens, places) by the attention's name."""


def attended(loaded: LoadedModel, dataset: Any) -> Written:
    """The best output of a generator, and the weights of every attention over the source."""
    model = loaded.model
    source, lengths = dataset.sources([0])
    device = device_of(model)
    names = [name for name, kind in kinds_of(model).items() if kind == "cross"]
    with watch(model) as seen:
        (best, *_), *_ = loaded.decoder(model, source.to(device), lengths.to(device))
    weights = {name: seen[name].along(best.trail).float().cpu() for name in names}
    return best.tokens, best.score, loaded.tokenizers["target"].decode(best.tokens), weights


def view_of(
    loaded: LoadedModel,
    inputs: Sequence[str],
    options: ViewOptions,
    kind: str,
    panel: str,
    axis: Callable[[Any, int], Axis],
    write: Callable[[LoadedModel, Any], Written] = attended,
) -> View:
    """Each input, watched: a map of tokens and places of the source for each attention.

    Args:
        loaded: the model.
        inputs: as a user gives them.
        options: of the view; the loader's own are refused.
        kind: what an input is, "picture".
        panel: the kind of panel that draws it.
        axis: of the column of sources, and the number of places: what the places are.
        write: what is written of one input, and the weights.

    Raises:
        RequestError: an input is empty or cannot be used, or an option is unknown.
    """
    options.only(task=loaded.task.name)
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for text in inputs:
        dataset = asked(loaded, text)
        tokens, score, output, weights = write(loaded, dataset)
        first = len(maps)
        rows = len(axes)
        axes.append(axis_of(WordPieces.of(loaded.tokenizers["target"], tokens)))
        columns: dict[int, int] = {}  # attentions over as many places share their picture
        for layer, (name, own) in enumerate(weights.items(), 1):
            if (count := own.shape[-1]) not in columns:
                columns[count] = len(axes)
                axes.append(axis(dataset.source, count))
            maps.append(Map.of(name, rows, columns[count], own.numpy(), kind="cross", layer=layer))
        kept = list(range(first, len(maps)))
        runs.append(
            Run(
                kept,
                input=shown(text, kind),
                output=output,
                model=name_of(loaded),
                folder=options.folder,
                score=score,
                number=1,
                of=1,
                panels=[MapPanel(panel, map=m) for m in kept],
            )
        )
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {runs[0].input}")
