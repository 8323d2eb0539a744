"""Captioning: a picture to a sentence about it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from regard.data.images.augment import Varied
from regard.data.images.backbones import backbone_of
from regard.data.images.scenes import built
from regard.data.text.words import spoken
from regard.fields import Field, ImageField, RegionField, TextField
from regard.metrics import Score, caption_bleu, caption_rouge, cider_d
from regard.tasks.generation.base import Generation
from regard.tasks.prediction import Prediction

__all__ = ["Captioning"]


class Captioning(Generation):
    """Pictures to captions, scored by BLEU-1 to 4, ROUGE-L and CIDEr-D; the model is a `Generator`.

    A file has a picture and its caption in two columns, `file<tab>caption`: a path beside the file,
    or a member of the tar archive of the file's name. Several captions of a picture stand in one
    cell, divided by `|||`.

    Args:
        plain: captions are learned and written in small letters without punctuation.
        size, channels, fit, normalize: how pictures are read; see `ImageField`.
        vary: how pictures are changed in training, as `{copies: 10, turn: 10, seed: 1}`: in each
            pass there are this many changed ones of each; see `data.images.augment`.
        backbone: a network in a file whose regions are read in place of the picture, as `{path:
            resnet18.onnx, cache: features}`; see `data.images.backbones`. It is not trained. The
            model's `encoder` is "none" then.
        smoothing: label smoothing ε of the training loss.
        scheduled: see `Generation`.
    """

    name: ClassVar[str] = "captioning"
    metric: ClassVar[str] = "cider"
    viewed: ClassVar[str] = "generation.captioning_view"
    columns: ClassVar[Mapping[str, str | int]] = {"source": "file", "target": "caption"}
    options: ClassVar[frozenset[str]] = frozenset({"prefix", "force_words", "bad_words"})
    reads_files: ClassVar[bool] = True
    most: ClassVar[int | None] = 32  # features of more pictures would need more memory

    def __init__(
        self,
        plain: bool = True,
        size: int | list[int] = 64,
        channels: int = 3,
        fit: str = "crop",
        normalize: bool = True,
        vary: dict[str, Any] | None = None,
        backbone: dict[str, Any] | None = None,
        smoothing: float = 0.0,
        scheduled: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(smoothing, 1024, None, scheduled, None)
        self.plain, self.size, self.channels = plain, size, channels
        self.fit, self.normalize = fit, normalize
        self.vary = built(Varied, vary, "task.vary") if vary else None
        self.backbone = backbone_of(backbone or {}, channels)

    def fields(self) -> dict[str, Field]:
        """A picture, and what is said of it."""
        picture = (
            RegionField(self.backbone, self.size, fit=self.fit, vary=self.vary)
            if self.backbone
            else ImageField(
                self.size, self.channels, fit=self.fit, normalize=self.normalize, vary=self.vary
            )
        )
        return {"source": picture, "target": TextField("words", 10_000, target=True)}

    def reread(self, fields: dict[str, Field]) -> dict[str, Field]:
        """With the backbone in another place."""
        own, told = fields["source"], self.fields()["source"]
        if not isinstance(told, RegionField) or not isinstance(own, RegionField):
            return fields
        return {**fields, "source": told.restored(own.state())}

    def pairs(
        self, source: Any, target: str, *, training: bool
    ) -> tuple[list[tuple[Any, str]], list[str]]:
        """In training a pair for each caption and copy; elsewhere one, with all captions right."""
        right = [self.written(one) for one in target.split("|||")]
        right = [one for one in right if one]
        if not training:
            return [(source, one) for one in right[:1]], right
        copies = [replace(source, scene=i) for i in range(self.vary.copies)] if self.vary else []
        return [(picture, one) for picture in copies or [source] for one in right], right

    def written(self, text: str) -> str:
        """A caption as the model writes it.

        Example:
            >>> Captioning().written("Wreath of evergreen, with red berries.")
            'wreath of evergreen with red berries'
        """
        return spoken(text) if self.plain else " ".join(text.split())

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """BLEU-1 to 4, ROUGE-L and CIDEr-D of the best captions."""
        said, right = [p.output for p in predictions], examples.references
        found = {f"bleu{n}": caption_bleu(said, right, n) for n in range(1, 5)}
        return {**found, "rougeL": caption_rouge(said, right), "cider": cider_d(said, right)}
