"""What the n-grams of a text add to the score of its label, in a linear model of them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.models.bag_of_ngrams import BagOfNgrams
from regard.tasks.starting_vectors import parts_of
from regard.views import TablePanel

__all__ = ["counts_panel"]

MOST = 12
"""N-grams that are shown: those whose part is greatest, for or against."""


def counts_panel(
    model: nn.Module, tokens: Sequence[Sequence[str]], ids: Sequence[Sequence[int]], label: int
) -> TablePanel | None:
    """The n-grams that move the score of a label most, against the mean of all labels.

    The parts of all n-grams and the bias add up to the score of the linear model. None where the
    model has none, or the text no word.

    Args:
        tokens, ids: the words of each sentence of one text.
        label: the row of the label that was given.
    """
    bag = next((one for one in parts_of(model) if isinstance(one, BagOfNgrams)), None)
    width = max(map(len, ids), default=0)
    if bag is None or not width:
        return None
    rows = torch.tensor([[*own, *[0] * (width - len(own))] for own in ids])
    sizes = torch.tensor([len(own) for own in ids])
    found = [
        (_against_the_mean(part)[label].item(), " ".join(tokens[sentence][place : place + n]))
        for sentence, place, n, part in bag.parts(rows.to(bag.bias.device), sizes)
    ]
    shown = sorted(sorted(found, key=lambda one: -abs(one[0]))[:MOST], key=lambda one: -one[0])
    rest = sum(part for part, _ in found) - sum(part for part, _ in shown)
    rest += _against_the_mean(bag.bias.detach())[label].item()
    cells = [(words, f"{part:+.3f}") for part, words in shown]
    return TablePanel(
        title="what n-grams add to the score",
        columns=("words", "part"),
        cells=(*cells, ("all others, and the bias", f"{rest:+.3f}")),
    )


def _against_the_mean(part: Tensor) -> Tensor:
    return part - part.mean()
