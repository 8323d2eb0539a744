r"""Counts beside attention: a linear model of n-grams whose scores are added to another model's.

Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016, arXiv 1606.07792.

    y = deep(x) + wide(x)         both are trained together, on the loss of y

The wide part is a bag of n-grams (`models.bag_of_ngrams`), the deep part any model of labels.

Shapes: those of the deep part; logits (B, num_classes).

**Departs from the paper**: its wide part reads chosen products of features, and is trained by FTRL
with L1. Here it is trained by the optimizer of the deep part, at `rate` times its learning rate.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.layers.embed import Embed
from regard.protocols import Constrained, Output

__all__ = ["WideAndDeep"]


class WideAndDeep(nn.Module):
    """The sum of two models' scores.

    Args:
        deep: a `Classifier` or `PairClassifier`.
        wide: one that reads the same, without attention.
        rate: the wide part learns at this multiple of `train.optimizer.lr`.
    """

    def __init__(self, deep: nn.Module, wide: nn.Module, *, rate: float = 20.0) -> None:
        super().__init__()
        self.deep, self.wide, self.rate = deep, wide, rate

    @property
    def branches(self) -> Mapping[str, nn.Module]:
        """Both parts, each a model of the whole task."""
        return {"deep": self.deep, "wide": self.wide}

    @property
    def rates(self) -> Mapping[str, float]:
        """Of parameters by the beginnings of their names: multiples of the learning rate."""
        return {"wide.": self.rate}

    @property
    def embed(self) -> Embed | None:
        """The word vectors of the deep part, where it has some."""
        found: Embed | None = getattr(self.deep, "embed", None)
        return found

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary."""
        found: int = self.deep.vocab_size  # type: ignore[assignment]
        return found

    @property
    def num_classes(self) -> int:
        """Of the output."""
        found: int = self.deep.num_classes  # type: ignore[assignment]
        return found

    @property
    def num_features(self) -> int:
        """Numbers that come with each pair."""
        found: int = getattr(self.deep, "num_features", 0)
        return found

    @property
    def normalized(self) -> bool:
        """Whether scores are log-probabilities: sums of them are not."""
        return False

    def constrain(self) -> None:
        """Keep the weights of the deep part within its limits."""
        if isinstance(self.deep, Constrained):
            self.deep.constrain()

    def forward(self, *inputs: Any, **lengths: Any) -> Output:
        """Logits (B, num_classes) of texts or pairs; what else the deep part gives stays."""
        found: Output = self.deep(*inputs, **lengths)
        return found._replace(logits=found.logits + self.wide(*inputs, **lengths).logits)
