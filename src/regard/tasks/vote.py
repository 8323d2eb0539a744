"""Several models that label together."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.protocols import Inputs, Output

__all__ = ["Vote"]


class Vote(nn.Module):
    r"""The mean of the probabilities that some models give.

    .. math:: p = \frac{1}{m} \sum_i f(z_i / T_i), \quad z = T_1 f^{-1}(p)

    with f the softmax or, of several labels, the sigmoid. The first model's temperature is put
    back, so that the task divides by it as it does for one model.

    Args:
        models: `Classifier`s or `PairClassifier`s over one vocabulary and the same classes.
        temperatures: T of each.
        probabilities: f, as (B, num_classes) to the same.
        logits: its inverse.
    """

    normalized = False

    def __init__(
        self,
        models: Sequence[nn.Module],
        temperatures: Sequence[float],
        probabilities: Callable[[Tensor], Tensor],
        logits: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.temperatures, self.probabilities, self.logits = temperatures, probabilities, logits

    def forward(self, *inputs: Tensor | Inputs) -> Output:
        """Logits (B, num_classes) of the mean."""
        each = [
            self.probabilities(model(*inputs).logits.double() / t)
            for model, t in zip(self.models, self.temperatures, strict=True)
        ]
        mean = torch.stack(each).mean(0)
        return Output(self.temperatures[0] * self.logits(mean), {})
