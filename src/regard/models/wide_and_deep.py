r"""Other branches beside a model with attention: their scores are added to its own.

Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016, arXiv 1606.07792.

    y = deep(x) + Σ_b branch_b(x)         all are trained together, on the loss of y

With `alone`, p_b for each branch, some training texts are scored by one part alone: by branch b
with probability p_b, by the deep part with the largest p_b. A part that learns faster then leaves
something to the others (Neverova, Wolf, Taylor and Nebout 2016, "ModDrop: Adaptive Multi-Modal
Gesture Recognition", arXiv 1501.00102, section 3.3, drops input modalities so).

The deep part is any model of labels. The wide part is a bag of n-grams (`models.bag_of_ngrams`);
pooled words or states of an encoder (`models.swem`) may be another one.

Shapes: those of the deep part; logits (B, num_classes).

**Departs from the paper**: its wide part reads chosen products of features, and is trained by FTRL
with L1. Here every branch is trained by the optimizer of the deep part, at its own multiple of the
learning rate. The paper has one branch beside the deep one, and scores every text by the sum.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.embed import Embed
from regard.protocols import Constrained, Output, Rated

__all__ = ["WideAndDeep"]


class WideAndDeep(nn.Module):
    """The sum of several models' scores.

    Args:
        deep: a `Classifier` or `PairClassifier`.
        beside: models that read the same, by the names of their branches.
        rates: of branches, by name: the multiple of `train.optimizer.lr` at which it learns.
        alone: of branches, by name: the share of training texts that it scores alone.
    """

    def __init__(
        self,
        deep: nn.Module,
        beside: Mapping[str, nn.Module],
        rates: Mapping[str, float],
        alone: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        shares = [(alone or {}).get(name, 0.0) for name in beside]
        self.alone = [max(shares, default=0.0), *shares]
        """Of each part, the deep one first."""
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
        parts = [found.logits, *(branch(*inputs, **lengths).logits for branch in beside)]
        if self.training and any(self.alone):
            kept = self._kept(len(found.logits), found.logits)
            parts = [part * each[:, None] for part, each in zip(parts, kept, strict=True)]
        return found._replace(logits=sum(parts[1:], parts[0]))

    def _kept(self, batch: int, like: Tensor) -> Float[Tensor, "parts batch"]:
        """1 for each part that scores a training text, 0 where another one does so alone."""
        drawn = torch.rand(batch, device=like.device)
        bounds = torch.tensor(self.alone, device=like.device).cumsum(0)
        who = torch.bucketize(drawn, bounds, right=True)  # the number of parts: all of them
        parts = torch.arange(len(bounds), device=like.device)[:, None]
        return ((who == parts) | (who == len(bounds))).to(like.dtype)
