"""What a recognizer listened to: for each symbol it wrote, the frames of the sound."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import watch
from regard.data import pictures
from regard.data.log_mel import HOP
from regard.errors import RequestError
from regard.fields.sound import SoundColumn
from regard.protocols import Generator
from regard.tasks._views.generation import kinds_of
from regard.tasks._views.loaded import LoadedModel, name_of
from regard.tasks.given import device_of
from regard.views import Axis, Map, MapPanel, Run, View, ViewOptions, axis_of
from regard.views.picture import WordPieces

__all__ = ["sound_axis", "view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Recognize each sound, watched: a map of symbols and frames for each attention.

    Of a model without attention it is the probability of each symbol in its frame.

    Raises:
        RequestError: an input is empty or no sound, or an option is asked for that nobody knows.
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
        listens = isinstance(loaded.model, Generator)
        found = (_attended if listens else _framed)(loaded, given.dataset)
        tokens, score, output, weights = found
        column: SoundColumn = given.dataset.source
        count = next(iter(weights.values())).shape[-1]
        rows = axis_of(WordPieces.of(loaded.tokenizers["target"], tokens))
        axes += [rows, sound_axis(column.frames(0), count)]
        first = len(maps)
        maps += [
            Map.of(name, len(axes) - 2, len(axes) - 1, own.numpy(), kind="cross", layer=layer)
            for layer, (name, own) in enumerate(weights.items(), 1)
        ]
        kept = list(range(first, len(maps)))
        runs.append(Run(
            kept, input=text if len(text) < 200 else "a sound", output=output,
            model=name_of(loaded), folder=options.folder, score=score, number=1, of=1,
            panels=[MapPanel("sound", map=m) for m in kept],
        ))  # fmt: skip
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {runs[0].input}")


def sound_axis(frames: Float[Tensor, "frames numbers"], count: int) -> Axis:
    """`count` places of a sound with the log-mel frames (T, filters + 1) as a picture."""
    seconds = HOP * max(-(-len(frames) // max(count, 1)), 1)
    names = [f"{i * seconds:.2f} s" for i in range(count)]
    mel = frames[:, :-1].T.flip(0).numpy()  # low tones at the bottom
    low, high = np.percentile(mel, [5, 99.5])
    gray = np.clip((mel - low) / max(high - low, 1e-6) * 255, 0, 255).astype(np.uint8)
    try:
        image = pictures.png(gray[..., None])
    except RequestError:  # without Pillow there is no spectrogram
        image = None
    return Axis(names, "audio", seconds=seconds, image=image)


Listened = tuple[list[int], float | None, str, dict[str, Tensor]]


def _attended(loaded: LoadedModel, dataset: Any) -> Listened:
    """The best output of a generator, and the weights of every attention over the sound."""
    model = loaded.model
    source, lengths = dataset.sources([0])
    device = device_of(model)
    names = [name for name, kind in kinds_of(model).items() if kind == "cross"]
    with watch(model) as seen:
        (best, *_), *_ = loaded.decoder(model, source.to(device), lengths.to(device))
    weights = {name: seen[name].along(best.trail).float().cpu() for name in names}
    text = loaded.tokenizers["target"].decode(best.tokens)
    return best.tokens, best.score, text, weights


@torch.inference_mode()
def _framed(loaded: LoadedModel, dataset: Any) -> Listened:
    """The text that the frames spell, and the probability of each symbol in its frame."""
    source, lengths = dataset.sources([0])
    device = device_of(loaded.model)
    output = loaded.model(source.to(device), lengths.to(device))
    size = int(output.extra["lengths"][0])
    logs = output.logits[0, :size].float().log_softmax(-1).cpu()
    best = loaded.task.spelled(logs)[0]
    weights = torch.zeros(1, len(best.tokens), size)
    for row, (symbol, frame) in enumerate(zip(best.tokens, best.frames, strict=True)):
        weights[0, row, frame] = logs[frame, symbol].exp()
    text = loaded.tokenizers["target"].decode(best.tokens)
    return best.tokens, best.log_prob, text, {"frames": weights}
