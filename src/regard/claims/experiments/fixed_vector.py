"""What one fixed vector loses, and attention keeps (C02, C03, C04, C05, C07)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from regard import watch
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import over_seeds
from regard.claims.experiments.strings import SIZE, learn, right, strings
from regard.metrics.alignment import aer
from regard.models.luong import Luong
from regard.models.rnnsearch import RNNencdec, RNNsearch
from regard.models.seq2seq import Seq2Seq
from regard.views.charts import Chart, Matrix

__all__ = ["alignment", "backwards", "beyond_training", "lossy", "source_gradients"]


def fixed(hidden: int = 32) -> nn.Module:
    """An RNN encoder-decoder: one vector for the whole source."""
    return RNNencdec(SIZE, SIZE, embed=16, hidden=hidden, maxout=16, scale=None)


def searching() -> nn.Module:
    """The same with additive attention."""
    return RNNsearch(SIZE, SIZE, embed=16, hidden=32, align=32, maxout=16, scale=None)


def walking() -> nn.Module:
    """Luong's model with a window that walks along the source; wide weights learn sooner."""
    sizes = {"embed": 32, "hidden": 32, "layers": 1, "reach": 1}
    model = Luong(SIZE, SIZE, attention="local-m", dropout=0.0, reverse=False, **sizes)  # type: ignore[arg-type]
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3.0)
    return model


def beyond_training(seeds: Sequence[int]) -> Measured:
    """Copying, trained up to 8 symbols: symbols right by length, up to twice as many."""
    kinds = {"one vector": fixed, "attention": searching, "walking window": walking}
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, make in kinds.items():
            torch.manual_seed(seed)
            model = make()
            learn(model, longest=8, updates=250, seed=seed)
            for length in (2, 4, 6, 8, 12, 16):
                share = right(model, length)
                lines[name].append((length, share))
                found[f"{name} at {length}"] = share
        return found

    title = "copying, trained on the shaded lengths"
    chart = Chart(title, "symbols", "share right", lines=lines, shaded=(1, 8))
    return Measured(over_seeds(one, seeds), [chart])


def lossy(seeds: Sequence[int]) -> Measured:
    """The longest string of which half of the symbols come back, by the size of the vector."""
    points: list[tuple[float, float]] = []

    def one(seed: int) -> dict[str, float]:
        found = {}
        for hidden in (8, 16, 32, 64):
            torch.manual_seed(seed)
            model = fixed(hidden)
            learn(model, longest=8, updates=250, seed=seed)
            held = [n for n in range(1, 9) if right(model, n) >= 0.5]
            found[f"{hidden} cells"] = float(max(held, default=0))
            points.append((hidden, found[f"{hidden} cells"]))
        return found

    values = over_seeds(one, seeds)
    name = "length with half of the symbols right"
    return Measured(values, [Chart(name, "cells", "symbols", lines={"one vector": points})])


def source_gradients(seeds: Sequence[int]) -> Measured:
    """How much each source word moves log p of each target word: even over the source, or not?"""
    kinds = {"one vector": fixed, "attention": searching}
    pictures: dict[str, Matrix] = {}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, make in kinds.items():
            torch.manual_seed(seed)
            model = make()
            learn(model, longest=6, updates=250, seed=seed)
            norms = gradients(model)
            row = norms / norms.sum(1, keepdim=True)
            entropy = -(row * row.log()).sum(1) / torch.tensor(float(row.shape[1])).log()
            found[f"evenness, {name}"] = float(entropy.mean())
            labels = [str(n + 1) for n in range(6)]
            pictures[name] = Matrix(
                f"{name}: target down, source across", labels, labels, row.tolist()
            )
        return found

    return Measured(over_seeds(one, seeds), list(pictures.values()))


def gradients(model: nn.Module, length: int = 6) -> Tensor:
    """Norms of the gradient of log p(y_i) by the vector of x_j, (length, length), 200 strings."""
    draw = torch.Generator().manual_seed(5)
    source, with_end, target_in, gold = strings(torch.full((200,), length), draw)
    # Each place gets a row of its own in the table of vectors, so that gradients stay apart.
    table = model.get_parameter("embed_source.weight").detach()
    rows = torch.cat([table[:1], table[source].flatten(0, 1)]).requires_grad_()
    places = torch.arange(1, len(rows)).view_as(source)
    made = functional_call(model, {"embed_source.weight": rows}, (places, target_in, with_end))
    log_prob = made.logits.log_softmax(-1).gather(-1, gold[..., None])[..., 0]
    each = [
        torch.autograd.grad(log_prob[:, i].sum(), rows, retain_graph=True)[0] for i in range(length)
    ]
    norms = [one[1:].norm(dim=-1).view_as(source).mean(0)[:length] for one in each]
    return torch.stack(norms)


def alignment(seeds: Sequence[int]) -> Measured:
    """Copying by attention: alignment error of the largest weights, whose true links are known."""
    pictures: list[Matrix] = []

    def one(seed: int) -> dict[str, float]:
        model = searching()
        learn(model, longest=6, updates=250, seed=seed)
        source, with_end, target_in, _ = strings(torch.full((100,), 6), torch.Generator())
        with torch.no_grad(), watch(model) as seen:
            model(source, target_in, with_end)
        weights = torch.cat(seen["attention"].steps, 1)[:, :6, :6]
        each = weights.argmax(-1).tolist()
        links = [{(source, target) for target, source in enumerate(row)} for row in each]
        gold = [{(place, place) for place in range(6)}] * 100
        labels = [str(n + 1) for n in range(6)]
        pictures[:] = [Matrix("mean weights", labels, labels, weights.mean(0).tolist())]
        return {"alignment error rate": float(aer(links, gold).value)}

    return Measured(over_seeds(one, seeds), pictures)


def backwards(seeds: Sequence[int]) -> Measured:
    """Symbols of five right, when a model without attention reads forwards and backwards."""

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, turned in (("forwards", False), ("backwards", True)):
            torch.manual_seed(seed)
            model = Seq2Seq(SIZE, SIZE, embed=32, hidden=32, layers=2, reverse=turned)
            learn(model, longest=5, shortest=5, updates=300, lr=0.01, seed=seed)
            found[name] = right(model, 5)
        return found

    values = over_seeds(one, seeds)
    return Measured(values, [Chart("copies of five symbols", y="share right", bars=values)])
