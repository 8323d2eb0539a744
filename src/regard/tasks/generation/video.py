"""Video: a clip to a sentence about it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from regard.data.images.synthetic_video import moving_of
from regard.datasets.rows import Rows
from regard.fields import ClipField, Field, TextField
from regard.metrics import Score, exact_match
from regard.tasks.generation.captioning import Captioning
from regard.tasks.generation.pairs import PairDataset
from regard.tasks.prediction import Prediction

__all__ = ["Video"]


class Video(Captioning):
    """Clips to captions, scored as `Captioning` and by exact match; the model is a `Generator`.

    A file has a clip and its caption in two columns, `file<tab>caption`: an animated GIF, WebP or
    PNG, a folder of frames, an `.npz` file, or a member of the tar archive of the file's name.
    Several captions of a clip stand in one cell, divided by `|||`.

    Args:
        plain, size, channels, fit, normalize, smoothing, scheduled: see `Captioning`.
        frames: at most this many are read of a clip, equally far from each other.
        scene: how clips are made of still pictures: `{size: 32, frames: 12, seed: 1, copies: 2}`;
            see `data.images.synthetic_video`. Their captions then say how they move.
        shuffle: frames stand in an order that says nothing: what a model has of the time is the
            score that it loses by this, `regard evaluate FOLDER --set task.shuffle=true`.
    """

    name: ClassVar[str] = "video"
    viewed: ClassVar[str] = "generation.video_view"
    most: ClassVar[int | None] = 8

    def __init__(
        self,
        plain: bool = True,
        size: int | list[int] = 64,
        channels: int = 3,
        frames: int = 26,
        fit: str = "crop",
        normalize: bool = True,
        scene: dict[str, Any] | None = None,
        shuffle: bool = False,
        smoothing: float = 0.0,
        scheduled: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            plain, size, channels, fit, normalize, smoothing=smoothing, scheduled=scheduled
        )
        self.moving, self.shuffle = moving_of(scene or {}), shuffle
        self.clip = ClipField(
            size, channels, frames=frames, fit=fit, normalize=normalize, moving=self.moving
        )

    def fields(self) -> dict[str, Field]:
        """A clip, and what is said of it."""
        return {"source": self.clip, "target": TextField("words", 10_000, target=True)}

    def pairs(
        self, source: Any, target: str, *, training: bool
    ) -> tuple[list[tuple[Any, str]], list[str]]:
        """In training a pair for each caption; of a still picture the clips that are made of it."""
        if self.moving is None or source.count > 1:
            return super().pairs(source, target, training=training)
        first, made = self.written(target.split("|||")[0]), list[tuple[Any, str]]()
        for copy in range(self.moving.copies if training else 1):
            said = self.moving.said(first, source.name, copy)
            made.append((replace(source, scene=copy), said))
        return made, [made[0][1]]

    def dataset(self, columns: Mapping[str, Any], rows: Rows) -> PairDataset:
        """Pairs of a clip and ids."""
        source = columns["source"]
        return super().dataset(
            {**columns, "source": source.shuffled()} if self.shuffle else columns, rows
        )

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """BLEU-1 to 4, ROUGE-L, CIDEr-D and the share that is right to the word."""
        said = [p.output for p in predictions]
        same = exact_match(said, examples.references)
        return {**super().score(predictions, examples), "em": same}
