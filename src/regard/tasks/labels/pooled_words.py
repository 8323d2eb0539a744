"""Which words gave the features of a vector that is a maximum over words."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from regard.protocols import Inputs, MaxPooled
from regard.tasks.starting_vectors import parts_of

__all__ = ["pooled_words"]


@torch.no_grad()
def pooled_words(
    model: nn.Module, inputs: Sequence[Inputs], counts: Sequence[int]
) -> list[np.ndarray]:
    """Of each text the share of the pooled features that each of its words gave.

    The shares of a text add up to 1. Empty where the model pools otherwise, or reads other tokens
    than the words that are shown.

    Args:
        inputs: each text of one example, as the model reads it.
        counts: how many words of each text are shown.

    Shapes:
        (words,) of each text
    """
    encoders = [getattr(part, "encoder", None) for part in parts_of(model)]
    encoder = next((one for one in encoders if isinstance(one, MaxPooled)), None)
    sizes = [[] if own.lengths is None else own.lengths.tolist() for own in inputs]
    if encoder is None or sizes != [[count] for count in counts]:
        return []
    found = []
    for own, count in zip(inputs, counts, strict=True):
        shares = encoder.shares(own)
        if shares is not None:
            found.append(shares[0, :count].float().cpu().numpy())
    return found
