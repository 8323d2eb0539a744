"""What a model of pictures looked at: its glimpses in their order, or the maps of parts."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import Record
from regard.fields.image import ImageColumn
from regard.system.devices import device_of
from regard.tasks.answer_panels import bars, ranked
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.tasks.source_inputs import asked, shown
from regard.views import Axis, Map, MapPanel, Panel, Run, View, ViewOptions
from regard.views.axis import picture_axis
from regard.watching.watcher import watch

__all__ = ["view"]

TITLES = {"glimpse": "where it looked, in this order", "part": "where each part is"}
"""What a panel is called, by what its rows are."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Predict each picture, watched: where each glimpse was, and the answers.

    Raises:
        RequestError: an input is empty or no picture, or an option is unknown.
    """
    options.only(task=loaded.task.name)
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for text in inputs:
        dataset = asked(loaded, text)
        (found,) = loaded.predict([text])
        column: ImageColumn = dataset.columns["image"]
        batch = dataset.collate([0]).to(device_of(loaded.model))
        with torch.inference_mode(), watch(loaded.model) as seen:
            output = loaded.model(batch["image"])
        first, titles = len(maps), list[str]()
        for record in seen.values():
            if record.role != "region":
                continue
            weights, kind = _regions(record), _kind(record)
            titles.append(TITLES[kind])
            rows = Axis([f"{kind} {i + 1}" for i in range(len(weights))], "steps")
            axes += [rows, picture_axis(column.pixels(0), batch["image"].values.shape[2:])]
            maps.append(
                Map.of(
                    record.name,
                    len(axes) - 2,
                    len(axes) - 1,
                    weights.numpy()[None],
                    kind="region",
                    extra=_trail(output.extra.get("locations"), len(weights)),
                )
            )
        kept = list(range(first, len(maps)))
        panels: list[Panel] = [
            MapPanel("image", title, map=m) for title, m in zip(titles, kept, strict=True)
        ]
        if loaded.task.objective.calibrated:
            panels.append(bars(ranked(found), "probabilities"))
        runs.append(
            Run(
                kept,
                input=shown(text, "picture"),
                output=found.output,
                model=name_of(loaded),
                folder=options.folder,
                score=found.score,
                title=f"{name_of(loaded)} · {found.output}",
                panels=panels,
                result=found.as_json(),
            )
        )
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {runs[0].input}")


def _regions(record: Record) -> Float[Tensor, "glimpses regions"]:
    """The weights of each look at the one picture; of several paths the first one's."""
    pairs = zip(record.steps, record.scopes, strict=True)
    own = [weights[0] for weights, scope in pairs if scope.get("path", 0) == 0]
    return torch.cat([one.reshape(-1, one.shape[-1]) for one in own]).float().cpu()


def _kind(record: Record) -> str:
    """What each look is: a "glimpse" in time, or a "part" of the picture."""
    return "part" if any("part" in scope for scope in record.scopes) else "glimpse"


def _trail(locations: Tensor | None, count: int) -> dict[str, list[float]]:
    """Places from 0 to 1 of this many looks, where the model says them."""
    if locations is None or locations.shape[1] != count:
        return {}
    x, y = ((locations[0].float().cpu() + 1) / 2).T.tolist()
    return {"x": x, "y": y}
