"""Several models that label together."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.protocols import Inputs, Output

__all__ = ["OfTexts", "Vote"]


class OfTexts(nn.Module):
    """A model that is given texts as they were written, and reads them by fields of its own.

    Args:
        model: it reads what its own fields make of a text.
        logits: of the model and texts, (B, num_classes).
    """

    def __init__(
        self, model: nn.Module, logits: Callable[[nn.Module, Sequence[str]], Tensor]
    ) -> None:
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, texts: Sequence[str]) -> Output:
        """Logits (B, num_classes)."""
        return Output(self.logits(self.model, texts), {})


class Vote(nn.Module):
    r"""The mean of the probabilities that some models give.

    .. math:: p = \frac{1}{m} \sum_i f(z_i / T_i), \quad z = T_1 f^{-1}(p)

    with f the softmax or, of several labels, the sigmoid. The first model's temperature is put
    back, so that the task divides by it as it does for one model.

    Args:
        models: `Classifier`s or `PairClassifier`s over the same classes. Those that are no
            `OfTexts` have one vocabulary.
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

    def forward(self, *inputs: Tensor | Inputs, texts: Sequence[str] = ()) -> Output:
        """Logits (B, num_classes) of the mean; `texts` are the inputs as they were written."""
        given = (
            model(texts) if isinstance(model, OfTexts) else model(*inputs) for model in self.models
        )
        each = [
            self.probabilities(output.logits.double() / t)
            for output, t in zip(given, self.temperatures, strict=True)
        ]
        mean = torch.stack(each).mean(0)
        return Output(self.temperatures[0] * self.logits(mean), {})
