"""Positions (C29, C30): a bag of words without them, and the sinusoids' linear map."""

from collections.abc import Sequence

import torch

from regard.attention import MultiHead
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import over_seeds
from regard.layers.positional_encoding import Sinusoid, sinusoid
from regard.views.charts import Chart, Matrix

__all__ = ["bag_of_words", "linear_map"]


def linear_map(seeds: Sequence[int]) -> Measured:
    """PE(p + k) = M_k PE(p), with M_k a rotation of each pair (sine, cosine) by k ω."""
    dim, most = 32, 128
    table = sinusoid(2 * most, dim).double()
    omega = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    worst = 0.0
    for k in range(1, most + 1):
        sine, cosine = (k * omega).sin(), (k * omega).cos()
        turns = torch.stack([torch.stack([cosine, sine], 1), torch.stack([-sine, cosine], 1)], 1)
        turned = torch.block_diag(*turns) @ table[:most].T
        worst = max(worst, float((turned.T - table[k : k + most]).abs().max()))
    inner = (table[:64] @ table[:64].T / (dim / 2)).clamp_min(0)
    pictures = [
        Matrix("PE: positions down, features across", [], [], ((table[:64] + 1) / 2).tolist()),
        Matrix("PE·PEᵀ: alike where near", [], [], inner.tolist()),
    ]
    return Measured({"largest error": [worst]}, pictures)


def bag_of_words(seeds: Sequence[int]) -> Measured:
    """Shuffle the words before an attention and its outputs are shuffled alike, without positions.

    With sinusoids the same shuffle changes the outputs.
    """
    attention, place = MultiHead(32, 4), Sinusoid(32)

    def one(seed: int) -> dict[str, float]:
        words, order = torch.randn(1, 12, 32), torch.randperm(12)

        def change(x: torch.Tensor, moved: torch.Tensor) -> float:
            with torch.no_grad():
                there, here = attention(x, x).context, attention(moved, moved).context
            return float((there[:, order] - here).abs().max())

        return {
            "change without positions": change(words, words[:, order]),
            "change with sinusoids": change(place(words), place(words[:, order])),
        }

    values = over_seeds(one, seeds)
    return Measured(values, [Chart("largest change of an output", bars=values, log="y")])
