"""What attention shows of a trained translator (C27, C70): `en-de-small` on GNOME's help."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard import load, watch
from regard.attention import MultiHead
from regard.claims.claim import Measured
from regard.data.files.registry import read
from regard.data.sources import find
from regard.metrics.correlation import spearman
from regard.protocols import BOS, EOS
from regard.views.charts import Chart

__all__ = ["heads_apart", "weight_and_effect"]


def sentences(count: int, longest: int = 20) -> list[str]:
    """English sentences of 6 to 20 words that come with the package."""
    rows = read(find("mt-gnome-de/test.tsv.gz"), {"text": "en"})
    texts = [str(row.fields["text"]) for row in rows]
    return [text for text in texts if 6 <= len(text.split()) <= longest][:count]


def interval(each: Tensor, samples: int = 1000) -> list[float]:
    """The 95 % interval of a mean, by the bootstrap."""
    draw = torch.Generator().manual_seed(1)
    means = each[torch.randint(len(each), (samples, len(each)), generator=draw)].mean(1)
    return means.quantile(torch.tensor([0.025, 0.975])).tolist()


@torch.no_grad()
def weight_and_effect(seeds: Sequence[int]) -> Measured:
    """Does a large weight matter? 135 output words, at most five of each of 40 sentences.

    A source word's weight is the mean over the decoder's layers and heads. Its effect is by how
    much log p of the output word falls when the source word is deleted.
    """
    loaded = load("en-de-small")
    model, draw = loaded.model, torch.Generator().manual_seed(seeds[0])
    correlations = []
    fall: dict[str, list[float]] = {"largest": [], "random": [], "least": []}
    texts = sentences(40)
    for text, output in zip(texts, loaded.translate(texts), strict=True):
        source = torch.tensor([[*loaded.tokenizers["source"].encode(text).ids, EOS]])
        words = source.shape[1] - 1
        target = loaded.tokenizers["target"].encode(output).ids
        with watch(model) as seen:
            before = log_probs(model, source, target)
        cross = [seen[name].weights[0].mean(0) for name in seen if "cross" in name]
        weights = torch.stack(cross).mean(0)[: len(target), :words]
        less = [torch.cat([source[:, :j], source[:, j + 1 :]], 1) for j in range(words)]
        after = log_probs(model, torch.cat(less), target)
        effects = before - after  # (S, T)
        for t in torch.randperm(len(target), generator=draw)[:5].tolist():
            weight, effect = weights[t], effects[:, t]
            correlations.append(spearman(weight.tolist(), effect.tolist()).value / 100)
            order = weight.argsort()
            other = int(torch.randint(len(order), (1,), generator=draw))
            for name, j in (("largest", order[-1]), ("random", other), ("least", order[0])):
                fall[name].append(float(effect[j]))
    each = torch.tensor(correlations)
    found = {"rank correlation": [float(each.mean())], "interval": interval(each)}
    means = {f"fall without the {n} weight": [sum(v) / len(v)] for n, v in fall.items()}
    bars = Chart("mean fall of log p when a word is deleted", "by its weight", bars=fall)
    return Measured({**found, **means}, [bars])


def log_probs(model: torch.nn.Module, source: Tensor, target: list[int]) -> Tensor:
    """Log p of each output word, (B, T), with its true prefix."""
    gold = torch.tensor([target]).expand(len(source), -1)
    target_in = torch.cat([torch.full((len(source), 1), BOS), gold[:, :-1]], 1)
    logits = model(source, target_in).logits.log_softmax(-1)
    chosen: Tensor = logits.gather(-1, gold[..., None])[..., 0]
    return chosen


@torch.no_grad()
def heads_apart(seeds: Sequence[int]) -> Measured:
    """Jensen-Shannon divergence of the heads of a layer: trained, and with random weights."""
    loaded = load("en-de-small")
    trained: Any = loaded.model
    texts = sentences(200)
    each: dict[str, list[float]] = {"trained": [], "random": []}
    for name in each:
        for text in texts:
            ids = torch.tensor([[*loaded.tokenizers["source"].encode(text).ids, EOS]])
            with watch(trained) as seen:
                trained.encode(ids)
            layers = [divergence(seen[layer].weights[0]) for layer in seen]
            each[name].append(sum(layers) / len(layers))
        torch.manual_seed(seeds[0])
        for module in trained.modules():
            if isinstance(module, MultiHead):
                for part in (module.query, module.key):
                    torch.nn.init.xavier_uniform_(part.weight)
    gap = torch.tensor(each["trained"]) - torch.tensor(each["random"])
    found = {name: [sum(values) / len(values)] for name, values in each.items()}
    chart = Chart("divergence between the heads of a layer", y="bits", bars=found)
    return Measured({**found, "interval": interval(gap)}, [chart])


def divergence(weights: Tensor) -> float:
    """Mean Jensen-Shannon divergence, in bits, of all pairs of heads: weights (H, Q, K)."""
    pairs = torch.combinations(torch.arange(len(weights)))
    one, other = weights[pairs[:, 0]], weights[pairs[:, 1]]

    def entropy(p: Tensor) -> Tensor:
        return -(p * p.clamp_min(1e-12).log2()).sum(-1)

    mean = entropy((one + other) / 2) - (entropy(one) + entropy(other)) / 2
    return float(mean.mean())
