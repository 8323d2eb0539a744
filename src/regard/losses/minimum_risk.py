r"""Minimum risk training: the expected loss of what the model would write.

    R(x) = Σ_{y in S(x)} Q(y | x) Δ(y, y*),   Q(y | x) = P(y | x)^α / Σ_{y' in S(x)} P(y' | x)^α

S(x) are different outputs drawn from the model, and the right one; Δ is 1 minus a sentence's BLEU
over tokens. Shen, Cheng, He, He, Wu, Sun and Liu (2016), "Minimum Risk Training for Neural Machine
Translation", eq. 9-13. The training loss is (1 - w) cross-entropy + w R, where R is charged as
often as the sentences have words, so that a step lowers its mean over sentences.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.data.batch import PairBatch, plain
from regard.decode.sample import Sample
from regard.errors import RequestError
from regard.protocols import BOS, EOS, PAD

__all__ = ["Risk", "sentence_bleu"]


@dataclass(frozen=True)
class Risk:
    """Settings of `task.risk`.

    Args:
        weight: w, from 0 (cross-entropy alone) to 1 (risk alone).
        samples: outputs drawn for a sentence; the paper has 100. So many times more is computed
            than for the cross-entropy: batches must be small.
        alpha: α, the sharpness of Q.
        gold: whether the right output is always in S(x).
        after: updates made with the cross-entropy alone at first; drawing from a model that knows
            nothing yet teaches it little.
    """

    weight: float = 1.0
    samples: int = 20
    alpha: float = 0.005
    gold: bool = True
    after: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise RequestError(f"task.risk.weight is {self.weight}; it is from 0 to 1")
        if self.samples < 1 or self.alpha <= 0:
            raise RequestError("task.risk: samples are 1 or more, and alpha is above 0")

    def loss(self, model: nn.Module, batch: PairBatch, update: int) -> Tensor:
        """R summed over the sentences, each as often as a sentence has words in the mean."""
        right = [plain(row) for row in batch.target_out.tolist()]
        spaces = self._candidates(model, batch, right, update)
        risks = self.risks(model, batch, spaces, right)
        return risks.sum() * (batch.count / len(batch))

    def risks(
        self,
        model: Any,
        batch: PairBatch,
        spaces: Sequence[Sequence[tuple[int, ...]]],
        right: Sequence[Sequence[int]],
    ) -> Tensor:
        """R(x) of each sentence over given outputs: (B,).

        Args:
            model: a `Generator`.
            batch: the sources.
            spaces: S(x) of each, in ids that end in EOS (unless the length limit cut them).
            right: y* of each, without EOS.
        """
        device = batch.target_out.device
        counts = torch.tensor([len(space) for space in spaces], device=device)
        flat = [torch.tensor(y, device=device) for space in spaces for y in space]
        out = pad_sequence(flat, batch_first=True, padding_value=PAD)
        start = out.new_full((len(out), 1), BOS)
        read = torch.cat([start, out[:, :-1]], 1).masked_fill(out == PAD, PAD)
        rows = torch.repeat_interleave(torch.arange(len(spaces), device=device), counts)
        logits = model(*batch.sources(rows, read)).logits.float()
        scores = logits if getattr(model, "normalized", False) else logits.log_softmax(-1)
        each = scores.gather(-1, out[..., None])[..., 0].masked_fill(out == PAD, 0.0)
        inside = torch.arange(int(counts.max()), device=device) < counts[:, None]  # (B, |S|)
        sharp = torch.full(inside.shape, -torch.inf, device=device)
        sharp = sharp.masked_scatter(inside, self.alpha * each.sum(1))
        delta = torch.zeros(inside.shape, device=device)
        delta[inside] = torch.tensor(
            [
                1.0 - sentence_bleu(plain(y), gold)
                for space, gold in zip(spaces, right, strict=True)
                for y in space
            ],
            device=device,
        )
        return (sharp.softmax(-1) * delta).sum(-1)

    def _candidates(
        self, model: Any, batch: PairBatch, right: Sequence[Sequence[int]], update: int
    ) -> list[list[tuple[int, ...]]]:
        """S(x) of each sentence: what was drawn, each once, and y*."""
        sampler = Sample(n_best=self.samples, seed=update + 1)
        drawn = sampler(model, batch.source, batch.source_lengths)
        spaces = []
        for hypotheses, gold in zip(drawn, right, strict=True):
            own = [tuple(h.tokens) for h in hypotheses]
            own += [(*gold, EOS)] if self.gold or not own else []
            spaces.append(list(dict.fromkeys(own)))
        return spaces


def sentence_bleu(output: Sequence[int], right: Sequence[int], most: int = 4) -> float:
    r"""BLEU of one sentence with add-one smoothing from bigrams up (Lin and Och 2004).

    .. math:: \min(1, e^{1 - |y^*| / |y|})
              \prod_n \left(\frac{m_n + [n > 1]}{c_n + [n > 1]}\right)^{1/4}

    with m the clipped matches and c the number of n-grams of the output.

    Args:
        output, right: tokens without the end symbol.
        most: the longest n-grams.

    Example:
        >>> sentence_bleu([4, 5, 6], [4, 5, 6])
        1.0
    """
    if not output or not right:
        return float(len(output) == len(right))
    total = 0.0
    for n in range(1, most + 1):
        found, there = (
            Counter(tuple(y[i : i + n]) for i in range(len(y) - n + 1)) for y in (output, right)
        )
        matches, extra = sum((found & there).values()), int(n > 1)
        if matches + extra == 0:
            return 0.0
        total += math.log((matches + extra) / (sum(found.values()) + extra))
    return math.exp(min(0.0, 1 - len(right) / len(output)) + total / most)
