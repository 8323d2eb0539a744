r"""Noise on the weights of each update, and limits of their columns.

A step is computed with noisy weights, :math:`w = \mu + \sigma \odot \epsilon`,
:math:`\epsilon \sim N(0, 1)`; the update is made to the clean ones, :math:`\mu`, which are all that
is validated and saved. With one deviation for all weights that is weight noise (Jim, Giles and
Horne 1996). *Adaptive* weight noise (Graves 2011, "Practical Variational Inference for Neural
Networks") learns a deviation for each weight: to the mean loss of a batch is added

.. math:: \frac{c}{N} \sum_i \Bigl[\log\frac{\sigma_\alpha}{\sigma_i}
          + \frac{(\mu_i - \mu_\alpha)^2 + \sigma_i^2 - \sigma_\alpha^2}{2 \sigma_\alpha^2}\Bigr],
          \quad \mu_\alpha = \overline{\mu}, \quad
          \sigma_\alpha^2 = \overline{\sigma^2 + (\mu - \mu_\alpha)^2}

with N the tokens of an epoch: the divergence of :math:`N(\mu, \sigma^2)` from the best normal prior
of all weights. c = 0.1 in Chorowski et al. (2015). The gradient of :math:`\log\sigma_i` is that of
the sampled weight, :math:`g_i \epsilon_i \sigma_i`, where Graves estimates it by :math:`g_i^2`.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.layers.embed import Embed
from regard.recipe.train_section import Training
from regard.train.checkpoints import weights_of
from regard.train.engine import world
from regard.train.micro_batches import Micro
from regard.train.sharding import local

__all__ = ["WeightNoise", "limit_columns"]


class WeightNoise:
    """The noise of a training; does nothing where its settings ask for none.

    The numbers follow from (seed, step) alone: they are the same in every process, and after an
    interruption.

    Args:
        model: its deviations start at `settings.weight_noise.deviation`.

    Raises:
        RequestError: deviations are to be learned of weights that processes share out.
    """

    def __init__(self, model: nn.Module, settings: Training) -> None:
        self.settings, self.seed = settings.weight_noise, settings.seed
        self.clean: dict[str, Tensor] = {}
        self.drawn: dict[str, Tensor] = {}
        self.share = 0.0
        self.logs: dict[str, nn.Parameter] = {}
        """log σ of each weight, where deviations are learned."""
        if self.settings.cost and not self.settings.deviation:
            raise RequestError(
                "train.weight_noise: a cost is of deviations that are learned; expected a "
                "deviation above 0 to start from, say 0.01"
            )
        if not self.settings.cost:
            return
        if settings.strategy == "fsdp" and world() > 1:
            raise RequestError(
                "train.weight_noise.cost: deviations are learned by one process or with strategy "
                "ddp, not with fsdp"
            )
        start = math.log(self.settings.deviation)
        for name, weight in _trained(model).items():
            self.logs[name] = nn.Parameter(torch.full_like(weight, start))
        self.optimizer = torch.optim.Adam(self.logs.values(), lr=self.settings.lr)

    @torch.no_grad()
    def put(self, model: nn.Module, step: int, micro: Micro) -> None:
        """Add the noise of a step.

        Args:
            step: how many updates were made before.
            micro: the first of the step; N is its tokens by its share of an epoch.
        """
        if not self.settings.deviation:
            return
        self.share = (micro.until - micro.epoch) / max(micro.count, 1)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        for name, weight in _trained(model).items():
            own = local(weight)
            self.clean[name] = own.clone()
            noise = torch.randn(own.shape, generator=generator).to(own)
            if self.logs:
                self.drawn[name] = noise
                self.logs[name].data = self.logs[name].to(own.device)
                noise = noise * self.logs[name].exp()
                own.add_(noise)
            else:
                own.add_(noise, alpha=self.settings.deviation)

    @torch.no_grad()
    def take(self, model: nn.Module) -> None:
        """Put the clean weights back; where deviations are learned, update them."""
        if not self.clean:
            return
        weights = _trained(model)
        for name, clean in self.clean.items():
            local(weights[name]).copy_(clean)
        if self.logs:
            self._learn(weights, self.settings.cost * self.share)
        self.clean, self.drawn = {}, {}

    def _learn(self, weights: Mapping[str, Tensor], cost: float) -> None:
        """Gradients of the cost, and a step of the deviations."""
        means = torch.cat([w.flatten() for w in weights.values()]).double()
        spread = torch.cat([2 * self.logs[name].flatten() for name in weights]).exp()
        middle = means.mean()
        prior = float((spread + (means - middle).square()).mean())
        for name, weight in weights.items():
            log = self.logs[name]
            log.grad = cost * ((2 * log).exp() / prior - 1)
            if weight.grad is not None:
                log.grad += weight.grad * self.drawn[name] * log.exp()
                weight.grad += (cost / prior) * (weight - float(middle))
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        """What is learned, for a checkpoint."""
        if not self.logs:
            return {}
        logs = {name: log.detach() for name, log in self.logs.items()}
        return {"logs": logs, "optimizer": self.optimizer.state_dict()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        for name, log in state.get("logs", {}).items():
            self.logs[name].copy_(log)
        if self.logs and state:
            self.optimizer.load_state_dict(state["optimizer"])


@torch.no_grad()
def limit_columns(model: nn.Module, limit: float) -> None:
    r"""Scale each unit's incoming weights to a norm of at most `limit`; 0: no limit.

    .. math:: w \leftarrow w \min(1, \mathrm{limit} / \lVert w \rVert)

    A unit's weights are a column where papers write x W, and a row (of a matrix, of a filter) in
    PyTorch. Vectors and word vectors are left as they are. Source: Hinton et al. (2012), "Improving
    Neural Networks by Preventing Co-Adaptation of Feature Detectors"; Chorowski et al. (2015): 1.
    """
    if not limit:
        return
    tables = (nn.Embedding, nn.EmbeddingBag, Embed)
    words = {id(p) for m in model.modules() if isinstance(m, tables) for p in m.parameters()}
    for weight in _trained(model).values():
        if weight.dim() > 1 and id(weight) not in words:
            # whole rows stay in one process: FSDP cuts along the first axis
            own = local(weight)
            norms = own.flatten(1).norm(dim=1).view(-1, *[1] * (own.dim() - 1))
            own.mul_((limit / norms.clamp_min(1e-12)).clamp(max=1.0))


def _trained(model: nn.Module) -> dict[str, Tensor]:
    """The weights that have gradients, tied ones once."""
    return {name: w for name, w in weights_of(model).items() if w.requires_grad}
