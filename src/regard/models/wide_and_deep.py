r"""Other branches beside a model with attention: their scores are added to its own.

Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016, arXiv 1606.07792.

    y = deep(x) + Σ_b branch_b(x)         all are trained together, on the loss of y

The deep part is any model of labels. The wide part is a bag of n-grams (`models.bag_of_ngrams`);
pooled words or states of an encoder (`models.swem`) may be another one.

Shapes: those of the deep part; logits (B, num_classes).

**Departs from the paper**: its wide part reads chosen products of features, and is trained by FTRL
with L1. Here every branch is trained by the optimizer of the deep part, at its own multiple of the
learning rate. The paper has one branch beside the deep one.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.layers.embed import Embed
from regard.protocols import Constrained, Output, Rated

__all__ = ["WideAndDeep"]


class WideAndDeep(nn.Module):
    """The sum of several models' scores.

    Args:
        deep: a `Classifier` or `PairClassifier`.
        beside: models that read the same, by the names of their branches.
        rates: of branches, by name: the multiple of `train.optimizer.lr` at which it learns.
    """

    def __init__(
        self, deep: nn.Module, beside: Mapping[str, nn.Module], rates: Mapping[str, float]
    ) -> None:
        super().__init__()
        self.deep = deep
        for name, branch in beside.items():
            self.add_module(name, branch)
        self._rates: dict[str, float] = {}
        for name, branch in beside.items():
            own = branch.rates if isinstance(branch, Rated) else {}
            inner = {f"{name}.{start}": rates[name] * rate for start, rate in own.items()}
            self._rates |= {**inner, f"{name}.": rates[name]}

    @property
    def branches(self) -> Mapping[str, nn.Module]:
        """All parts, each a model of the whole task."""
        return dict(self.named_children())

    @property
    def rates(self) -> Mapping[str, float]:
        """Of parameters by the beginnings of their names: multiples of the learning rate."""
        return self._rates

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
        deep, *beside = self.children()
        found: Output = deep(*inputs, **lengths)
        more = [branch(*inputs, **lengths).logits for branch in beside]
        return found._replace(logits=sum(more, found.logits))
