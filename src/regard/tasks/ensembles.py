"""Several models that label together."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.protocols import Inputs, Output

__all__ = ["OfTexts", "RelationVote", "TagVote", "Vote"]


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


class RelationVote(nn.Module):
    r"""Several models that answer together.

    .. math:: z = \frac{1}{m} \sum_i \log \mathrm{softmax}(z_i) + (0, s_i, ..., s_i), \quad
        s_i = \mathrm{logit}(t_1) - \mathrm{logit}(t_i)

    The first class stands for no relation. A pair that every model gives the probability of its own
    threshold has the probability of the first model's threshold, which is the one that the task
    asks for.

    Args:
        models: `RelationClassifier`s over one vocabulary and the same relations.
        thresholds: t of each, above 0 and below 1.
    """

    normalized = False

    def __init__(self, models: Sequence[nn.Module], thresholds: Sequence[float]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        odds = torch.tensor(thresholds, dtype=torch.float64).logit()
        self.shift = float(odds[0] - odds.mean())

    def forward(self, source: Inputs) -> Output:
        """Logits of pairs, and those of tags."""
        each: list[Output] = [model(source) for model in self.models]
        total = _mean([one.logits for one in each])
        total[..., 1:] += self.shift
        return Output(total, {"names": _mean([one.extra["names"] for one in each])})


def _mean(logits: Sequence[Tensor]) -> Tensor:
    """Of log-probabilities."""
    return torch.stack([one.double().log_softmax(-1) for one in logits]).mean(0)


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
