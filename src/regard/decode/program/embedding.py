"""The input of a packed Transformer's step: the vector of a word at its position."""

import math

import torch
from torch import Tensor

from regard.layers.positional_encoding import Sinusoid
from regard.models.transformer import Transformer

__all__ = ["placed"]


def placed(model: Transformer, tokens: Tensor, at: int | Tensor) -> Tensor:
    """What `model._embed` gives, bit for bit; one step of one sentence in a quarter of the time.

    Args:
        at: the position of all tokens, or of each sentence's.

    Shapes:
        tokens (B, beam) to (B, beam, D)
    """
    position = model.position
    if (
        isinstance(at, int)
        and type(position) is Sinusoid
        and type(model)._embed is Transformer._embed
        and at < len(position.table)
        and not model.training
        and not torch.is_grad_enabled()
    ):
        x = torch.embedding(model.embed_target.weight, tokens)
        if x.dtype == position.table.dtype:
            return x.mul_(math.sqrt(model.dim)).add_(position.table[at])
    where = model._embed(model.embed_target, tokens[..., None], at)
    return where[..., 0, :].contiguous()
