r"""Self-critical training: what is drawn is measured against what would be written.

    L_rl = (r(ŷ) - r(y^s)) Σ_t log p(y^s_t | y^s_<t, x),      L = γ L_rl + (1 - γ) L_ml

ŷ is written greedily, y^s is drawn from the model, r is how much of the right output is in it. So a
drawn output that is better than the greedy one becomes likelier, and a worse one less likely:
REINFORCE, with the model's own greedy output as its baseline. Rennie, Marcheret, Mroueh, Ross and
Goel (2017), "Self-critical Sequence Training for Image Captioning", eq. 8; Paulus, Xiong and Socher
(2018), "A Deep Reinforced Model for Abstractive Summarization", eq. 15 and 16.

Both are written in one batch without a gradient, in which every source is twice; what has ended
leaves it. The log-probabilities of what was drawn, with their gradient, come from one
teacher-forced pass, which is parallel where the model is.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear

from regard.data.batch import PairBatch, plain
from regard.decode.eval_mode import frozen
from regard.errors import RequestError, nearest
from regard.layers.copy_mixture import DeferredMixture
from regard.layers.deferred_logits import DeferredLogits, deferring
from regard.metrics.overlap import OVERLAPS
from regard.protocols import BOS, EOS, PAD, Inputs

__all__ = ["Rewards", "SelfCritical", "Written", "charged", "write_both"]


class Written(NamedTuple):
    """What was written of each source: ids that end in EOS unless the limit cut them, then PAD.

    Shapes:
        greedy (B, T), drawn (B, T)
    """

    greedy: Tensor
    drawn: Tensor


@dataclass
class Rewards:
    """Sums of the rewards since they were last asked for."""

    sums: dict[str, float] = field(default_factory=dict)
    count: int = 0

    def add(self, greedy: list[float], drawn: list[float]) -> None:
        """Count the rewards of a batch."""
        told = {"reward_greedy": sum(greedy), "reward_sample": sum(drawn)}
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in told.items()}
        self.count += len(greedy)

    def means(self) -> dict[str, float]:
        """The means, and reset; nothing where nothing was counted."""
        found = {name: round(value / self.count, 5) for name, value in self.sums.items()}
        self.sums, self.count = {}, 0
        return found


@dataclass(frozen=True)
class SelfCritical:
    """Settings of `task.self_critical`.

    Args:
        weight: γ, from 0 (cross-entropy alone) to 1 (rewards alone).
        reward: "rouge-l", "rouge-1" or "rouge-2": F1 over tokens, so let words be the tokens.
        after: updates made with the cross-entropy alone at first; a model that writes nothing right
            yet learns nothing from rewards.
        max_length: the most tokens that are written, EOS counted.
    """

    weight: float = 0.9984
    reward: str = "rouge-l"
    after: int = 0
    max_length: int = 100

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise RequestError(f"task.self_critical.weight is {self.weight}; it is from 0 to 1")
        if self.reward not in OVERLAPS:
            raise RequestError(
                f"task.self_critical.reward is {self.reward!r}; {nearest(self.reward, OVERLAPS)}"
            )
        if self.max_length < 1 or self.after < 0:
            raise RequestError(
                "task.self_critical: max_length is 1 or more, and after is 0 or more"
            )

    def loss(self, model: Any, batch: PairBatch, rewards: Rewards | None = None) -> Tensor:
        """L_rl summed over the examples of a batch.

        Args:
            model: a `Generator`.
            batch: the sources, and the right outputs.
            rewards: where the rewards are counted.
        """
        written = write_both(model, batch.source, batch.source_lengths, self.max_length)
        given = self.rewards(written, batch.target_out)
        if rewards is not None:
            rewards.add(*given)
        greedy, drawn = (torch.tensor(one, device=batch.target_out.device) for one in given)
        return charged(model, batch, written.drawn, greedy - drawn)

    def rewards(self, written: Written, right: Tensor) -> tuple[list[float], list[float]]:
        """The rewards of what was written greedily and of what was drawn: of each example.

        Args:
            written: what `write_both` gives.
            right: the right outputs (B, T), ending in EOS.
        """
        reward = OVERLAPS[self.reward]
        gold = [plain(row) for row in right.tolist()]
        greedy, drawn = (
            [reward(plain(row), own) for row, own in zip(some.tolist(), gold, strict=True)]
            for some in written
        )
        return greedy, drawn


def charged(
    model: Any,
    batch: PairBatch,
    drawn: Int[Tensor, "batch time"],
    advantage: Float[Tensor, " batch"],
) -> Float[Tensor, ""]:
    r"""Sum :math:`a \sum_t \log p(y_t)` over the examples, from one teacher-forced pass.

    Rows whose `a` is 0 are left out: they have no gradient.

    Args:
        model: a `Generator`.
        batch: the sources.
        drawn: y, ids ending in EOS, then PAD.
        advantage: a, by how much the greedy output was better.
    """
    kept = advantage.nonzero()[:, 0]
    if not len(kept):
        return advantage.new_zeros(())
    out = drawn[kept]
    out = out[:, : int((out != PAD).sum(1).max())]
    start = out.new_full((len(out), 1), BOS)
    into = torch.cat([start, out[:, :-1]], 1)
    into = into.masked_fill(into == EOS, PAD)
    with deferring():
        logits = model(*batch.sources(kept, into)).logits
    normalized = bool(getattr(model, "normalized", False))
    each = _each(logits, out, normalized).masked_fill(out == PAD, 0.0)
    return (each.sum(1) * advantage[kept]).sum()


def _each(logits: Any, out: Tensor, normalized: bool) -> Tensor:
    """The log-probability of every token (B, T); what is deferred is never made for all words."""
    if isinstance(logits, DeferredMixture):
        return logits.of(out)
    if isinstance(logits, DeferredLogits):
        logits, normalized = linear(*logits), False
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores: Tensor = wide if normalized else wide.log_softmax(-1)
    return scores.gather(-1, out[..., None])[..., 0]


@torch.no_grad()
def write_both(model: Any, source: Tensor | Inputs, lengths: Tensor | None, limit: int) -> Written:
    """Write greedily, and draw, in one batch that has every source twice.

    Args:
        model: a `Generator`; it is put in eval mode for the call.
        source: what it reads, and its lengths.
        lengths: of the sources.
        limit: the most tokens, EOS counted.
    """
    with frozen(model):
        decoding = model.start(model.encode(source, lengths))
        count = len(source)
        device = source.values.device if isinstance(source, Inputs) else source.device
        rows = torch.arange(2 * count, device=device)  # the greedy ones, then the drawn ones
        decoding = decoding.rows(rows % count)
        tokens = rows.new_full((2 * count, 1), BOS)
        out = rows.new_full((2 * count, limit), PAD)
        for t in range(limit if count else 0):
            logits, decoding = model.step(tokens, decoding)
            scores = logits[:, 0].float()
            scores[:, : BOS + 1] = -torch.inf
            most = int((rows < count).sum())
            tokens = torch.cat([scores[:most].argmax(-1), _draw(scores[most:])])[:, None]
            out[rows, t] = tokens[:, 0]
            on = (tokens[:, 0] != EOS).nonzero()[:, 0]
            if not len(on):
                break
            if len(on) < len(rows):
                decoding, tokens, rows = decoding.rows(on), tokens[on], rows[on]
    width = max(1, int((out != PAD).sum(-1).max())) if count else 1
    return Written(out[:count, :width], out[count:, :width])


def _draw(scores: Tensor) -> Tensor:
    """One token of each row (n, V): where the cumulative probability passes a random number."""
    passed = scores.softmax(-1).cumsum(-1)
    number = torch.rand(len(scores), 1, device=scores.device) * passed[:, -1:]
    return torch.searchsorted(passed, number, right=True)[:, 0].clamp(max=scores.shape[-1] - 1)
