"""Penalties and bans of repeated tokens and n-grams."""

import math

import torch
from torch import Tensor

from regard.decode.rules.forbidden_words import Rule
from regard.protocols import EOS

__all__ = ["no_repeat_ngram", "repetition_penalty"]


def no_repeat_ngram(size: int) -> Rule:
    """No n-gram of `size` tokens is repeated: the token that would complete it is impossible."""

    def rule(scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        if read.shape[-1] < size:
            return scores
        met = read.unfold(-1, size, 1)  # (n, width, places, size)
        last = read[..., read.shape[-1] - size + 1 :]
        again = (met[..., :-1] == last[..., None, :]).all(-1) & (met[..., -1] != EOS)
        blocked = torch.zeros_like(scores).scatter_add_(-1, met[..., -1], again.to(scores.dtype))
        return scores.masked_fill(blocked > 0, -math.inf)

    return rule


def repetition_penalty(factor: float) -> Rule:
    """Tokens that were written before get `factor` times their log-probability."""

    def rule(scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        if not read.shape[-1]:
            return scores
        gathered = scores.gather(-1, read)
        return scores.scatter(-1, read, torch.where(read == EOS, gathered, gathered * factor))

    return rule
