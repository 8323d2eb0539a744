"""Equalities that hold for any weights (C35, C42): norms and batches, one pass and steps."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.claims.claim import Measured
from regard.claims.experiments.fitting import over_seeds
from regard.models.transformer import Transformer
from regard.protocols import BOS
from regard.views.charts import Chart

__all__ = ["norms", "one_pass"]


def norms(seeds: Sequence[int]) -> Measured:
    """An example normed alone and in a batch: layer norm, and batch norm as in training."""
    each: dict[str, nn.Module] = {"layer norm": nn.LayerNorm(16), "batch norm": nn.BatchNorm1d(16)}

    def one(seed: int) -> dict[str, float]:
        pair, others = torch.randn(2, 16), torch.randn(6, 16)

        def change(norm: nn.Module) -> float:
            small, large = norm(pair), norm(torch.cat([pair, others]))[:2]
            return float((small - large).detach().abs().max())

        return {f"change by {name}": change(norm) for name, norm in each.items()}

    values = over_seeds(one, seeds)
    title = "change of an example by six others in its batch"
    return Measured(values, [Chart(title, bars=values, log="y")])


@torch.no_grad()
def one_pass(seeds: Sequence[int]) -> Measured:
    """Logits of one masked pass over the labels, and of a decoder that goes step by step."""

    def one(seed: int) -> dict[str, float]:
        model = Transformer(20, 20, dim=32, heads=4, layers=2, ffn_dim=64).eval()
        source, labels = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 9))
        labels[:, 0] = BOS
        lengths = torch.full((3,), 7)
        whole = model(source, labels, lengths).logits

        decoding, steps = model.start(model.encode(source, lengths)), list[Tensor]()
        for place in range(9):
            logits, decoding = model.step(labels[:, place : place + 1], decoding)
            steps.append(logits)
        later = labels.clone()
        later[:, 5:] = 4  # other labels behind place 4
        changed = model(source, later, lengths).logits
        return {
            "step by step": float((torch.cat(steps, 1) - whole).abs().max()),
            "by later labels": float((changed - whole)[:, :5].abs().max()),
        }

    values = over_seeds(one, seeds)
    return Measured(values, [Chart("largest change of a logit", bars=values)])
