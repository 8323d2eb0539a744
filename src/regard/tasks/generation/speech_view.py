"""What a recognizer listened to: for each symbol it wrote, the frames of the sound."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.audio import audio
from regard.data.audio.log_mel import HOP, spectrogram
from regard.fields.sound import SoundColumn
from regard.protocols import Generator
from regard.system.devices import device_of
from regard.tasks.generation.source_maps import Written, attended, view_of
from regard.tasks.loaded_model import LoadedModel
from regard.views import Axis, View, ViewOptions

__all__ = ["sound_axis", "view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Recognize each sound, watched: a map of symbols and frames for each attention.

    Of a model without attention it is the probability of each symbol in its frame.

    Raises:
        RequestError: an input is empty or no sound, or an option is unknown.
    """
    write = attended if isinstance(loaded.model, Generator) else _framed
    return view_of(loaded, inputs, options, "sound", "sound", _frames, write)


def _frames(column: SoundColumn, count: int) -> Axis:
    return replace(sound_axis(column.frames(0), count), audio=audio.wav(column.sounds[0]))


def sound_axis(frames: Float[Tensor, "frames numbers"], count: int) -> Axis:
    """`count` places of a sound with the log-mel frames (T, filters + 1) as a picture."""
    seconds = HOP * max(-(-len(frames) // max(count, 1)), 1)
    names = [f"{i * seconds:.2f} s" for i in range(count)]
    return Axis(names, "audio", seconds=seconds, image=spectrogram(frames[:, :-1].T))


@torch.inference_mode()
def _framed(loaded: LoadedModel, dataset: Any) -> Written:
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
