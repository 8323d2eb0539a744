"""Several taggers that answer together."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.protocols import Inputs, Output

__all__ = ["TagVote"]


class TagVote(nn.Module):
    r"""The mean of the distributions that some taggers give over the tags of each word.

    .. math:: z = \log \frac{1}{m} \sum_i \mathrm{softmax}(z_i)

    Of chains the mean of the scores of paths is taken, a product of experts: the means of their
    emissions and of their weights.

    Args:
        models: `Tagger`s over one vocabulary and the same tags, all chains or none.

    Source: Tan et al. 2018, section 4.5 (mean of distributions).
    """

    normalized = False

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, source: Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, T, num_tags)."""
        each: list[Output] = [model(source, lengths) for model in self.models]
        chains = {"transitions", "start", "end"}
        if not chains <= set(each[0].extra):
            mean = torch.stack([one.logits.double().softmax(-1) for one in each]).mean(0)
            return Output(mean.clamp_min(1e-30).log(), {})
        extra = {name: torch.stack([one.extra[name] for one in each]).mean(0) for name in chains}
        return Output(torch.stack([one.logits for one in each]).mean(0), extra)
