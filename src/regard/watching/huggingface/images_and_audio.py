"""Hugging Face models of pictures and sounds: patches over the picture, frames in seconds."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, Map, axis_of
from regard.watching.huggingface.inputs import FolderInput, best_class
from regard.watching.huggingface.texts import LONGEST, forced, greedy, no_writing, start_of

if TYPE_CHECKING:
    from torch import Tensor

    from regard.watching.huggingface.folder import TransformersFolder

__all__ = [
    "classified_picture",
    "classified_sound",
    "over_picture",
    "read_picture",
    "read_sound",
    "spelled",
    "transcribed",
]


def read_picture(
    one: "TransformersFolder", address: str, target: str | None, longest: int | None
) -> FolderInput:
    """A picture that is read as it is."""
    from regard.data.images.images import located, pixels

    no_writing(one, longest)
    values = one.features(pixels(located(address), 3), return_tensors="pt")["pixel_values"]
    patch = getattr(one.model.config, "patch_size", None)
    patch = patch[0] if isinstance(patch, list | tuple) else patch
    if not isinstance(patch, int) or patch < 1:
        raise RequestError(
            f"{one.name}: expected a model of patches (patch_size in its config.json), got none"
        )
    grid = (values.shape[2] // patch, values.shape[3] // patch)
    seen = _as_seen(one, values[0])
    return FolderInput(
        {"pixel_values": values},
        {"self": (None, None)},
        arrange=lambda view: over_picture(view, grid, seen),
    )


def classified_picture(
    one: "TransformersFolder", address: str, target: str | None, longest: int | None
) -> FolderInput:
    """A picture, and its class."""
    said, score = best_class(one)
    return replace(read_picture(one, address, target, longest), said=said, score=score)


def _as_seen(one: "TransformersFolder", values: "Tensor") -> Any:
    """The picture as the model sees it, resized and cut: bytes (height, width, channels)."""
    image = values.float()
    mean, std = (getattr(one.features, name, None) for name in ("image_mean", "image_std"))
    if getattr(one.features, "do_normalize", False) and mean and std:
        image = image * image.new_tensor(std)[:, None, None]
        image = image + image.new_tensor(mean)[:, None, None]
    if getattr(one.features, "do_rescale", True):
        image = image * 255
    return image.round().clamp(0, 255).permute(1, 2, 0).numpy().astype(np.uint8)


def over_picture(view: DrawableView, grid: tuple[int, int], pixels: Any) -> DrawableView:
    """Weights of patches over their picture, and what leading tokens ([CLS]) look at apart.

    What is looked at of the leading tokens themselves has no place in the picture and is left out:
    rows add up to less than one by that. Attention over something else than all patches (windows,
    merged ones) stays as it is.
    """
    from regard.views.axis import picture_axis

    count = grid[0] * grid[1]
    patches = picture_axis(pixels, grid)
    axes = [*view.axes, patches, Axis(patches.pieces, "steps")]
    places, words = len(view.axes), len(view.axes) + 1
    leading: dict[int, int] = {}
    first: list[Map] = []
    rest: list[Map] = []
    for one in view.maps:
        extra = one.shape[2] - count
        if extra < 0 or one.shape[1] != one.shape[2] or extra > 16:
            rest.append(one)
            continue
        weights = one.weights
        keys = {"kind": one.kind, "layer": one.layer, "what": one.what, "scope": one.scope}
        rest.append(Map.of(one.name, words, places, weights[:, extra:, extra:], **keys))
        if extra:
            if extra not in leading:
                leading[extra] = len(axes)
                more = [f"token {i + 1}" for i in range(1, extra)]
                axes.append(Axis(["[CLS]", *more], "steps"))
            keys["kind"] = "CLS"
            first.append(
                Map.of(one.name, leading[extra], places, weights[:, :extra, extra:], **keys)
            )
    maps = [*first, *rest]
    runs = [replace(run, maps=list(range(len(maps)))) for run in view.runs]
    return replace(view, axes=axes, maps=maps, runs=runs)


def _sound(one: "TransformersFolder", address: str) -> tuple[dict[str, Any], float]:
    """What the model is given of a sound file, and how many seconds of sound that is."""
    from regard.data.audio.audio import located, resampled, samples

    rate = int(getattr(one.features, "sampling_rate", 16_000))
    values, own = samples(located(address))
    made = one.features(resampled(values, own, rate), sampling_rate=rate, return_tensors="pt")
    name = next(n for n in ("input_features", "input_values") if n in made)
    frames = made[name].shape[-1]
    hop = getattr(one.features, "hop_length", 1) if name == "input_features" else 1
    return {name: made[name]}, frames * hop / rate


def _frames(one: "TransformersFolder", inputs: dict[str, Any], seconds: float) -> Axis:
    """The frames that the encoder's attention has, each a stretch of time."""
    import torch

    from regard.data.audio.log_mel import spectrogram
    from regard.watching.watcher import watch

    both = one.model.config.is_encoder_decoder
    encoder = one.model.get_encoder() if both else one.model
    with torch.no_grad(), watch(encoder, tiles=True) as seen:
        encoder(**inputs)
    sizes = [int(r.kept[0].shape[-1]) for r in seen.values()]
    count = max(set(sizes), key=sizes.count)
    step = seconds / count
    mel = inputs.get("input_features")
    image = None if mel is None or mel.dim() != 3 else spectrogram(mel[0].float())
    return Axis([f"{i * step:.2f} s" for i in range(count)], "audio", seconds=step, image=image)


def read_sound(
    one: "TransformersFolder", address: str, target: str | None, longest: int | None
) -> FolderInput:
    """A sound that is read as it is."""
    no_writing(one, longest)
    inputs, seconds = _sound(one, address)
    axis = _frames(one, inputs, seconds)
    return FolderInput(inputs, {"self": (axis, axis)})


def classified_sound(
    one: "TransformersFolder", address: str, target: str | None, longest: int | None
) -> FolderInput:
    """A sound, and its class."""
    said, score = best_class(one)
    return replace(read_sound(one, address, target, longest), said=said, score=score)


def spelled(
    one: "TransformersFolder", address: str, target: str | None, longest: int | None
) -> FolderInput:
    """A sound, and the best path of letters (CTC); the score is that of this path."""

    def said(output: Any) -> str:
        return str(one.tokenizer.decode(output.logits[0].argmax(-1)))

    def score(output: Any) -> "Tensor":
        best: Tensor = output.logits[0].log_softmax(-1).max(-1).values.sum()
        return best

    return replace(read_sound(one, address, target, longest), said=said, score=score)


def transcribed(
    one: "TransformersFolder", address: str, target: str | None, longest: int | None
) -> FolderInput:
    """A sound, and what is written of it; rows of the cross-attention are what they write."""
    import torch

    inputs, seconds = _sound(one, address)
    if target is None:
        out = greedy(one, LONGEST if longest is None else longest, **inputs)
    else:
        words = one.tokenizer(target, return_tensors="pt")["input_ids"]
        out = torch.cat([torch.tensor([[start_of(one)]]), words], 1)
    if out[0, 0] != start_of(one):  # newer releases give what was written alone
        out = torch.cat([torch.tensor([[start_of(one)]]), out], 1)
    if out.shape[1] < 2:
        raise RequestError("the output is empty: there is nothing to look at")
    frames = _frames(one, inputs, seconds)
    before, after = (axis_of((one.tokenizer, part.tolist())) for part in (out[0, :-1], out[0, 1:]))
    return FolderInput(
        {**inputs, "decoder_input_ids": out[:, :-1]},
        {"cross": (after, frames), "encoder": (frames, frames), "decoder": (before, before)},
        lambda output: str(one.tokenizer.decode(out[0], skip_special_tokens=True)),
        lambda output: forced(output.logits[0], out[0, 1:]),
        _cross_first,
    )


def _cross_first(view: DrawableView) -> DrawableView:
    """A page opens with what was written looking at the sound."""
    order = sorted(range(len(view.maps)), key=lambda m: view.maps[m].kind != "cross")
    return replace(view, runs=[replace(run, maps=order) for run in view.runs])
