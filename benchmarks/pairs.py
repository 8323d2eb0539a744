"""A training step of ABCNN-3 and of MPCNN against the papers' codes in plain PyTorch.

    OMP_NUM_THREADS=1 python benchmarks/pairs.py

The plain forms compute the same function of the same parameters, as the released codes and their
ports do: differences of all pairs of words stored, x_a made before the convolution, a convolution
for each pool and width, comparisons in loops over pools, widths and filters. Sentences are full, so
that the plain forms need no masks. A step is forward, cross-entropy, backward and plain SGD (with
rate 0, so that both stay equal). One JSON line a row: ratios of CPU time, the largest differences
of logits and gradients (relative to the largest of each), and the growth of resident memory in a
process of its own.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from paired import machine, paired, row
from torch import Tensor
from torch.nn import functional as F

from regard.models.abcnn import ABCNN
from regard.models.mpcnn import MPCNN

Ids = Tensor


def plain_abcnn(model: ABCNN, first: Ids, second: Ids) -> Tensor:
    """ABCNN-3 with cosines."""
    x, y = (F.embedding(ids, model.embed.weight) for ids in (first, second))
    found = [F.cosine_similarity(x.mean(1), y.mean(1))]
    for block in model.blocks:
        w, size = block.width, x.shape[-1]
        a = _match(x, y)
        weight = block.input.weight
        x_a, y_a = a @ weight[: y.shape[1]], a.mT @ weight[: x.shape[1]]
        two = [layer.weight for layer in (block.convolve, block.input.project)]
        filters = torch.cat([m.view(w, -1, size).permute(1, 2, 0).flip(2) for m in two], 1)
        columns = [
            torch.tanh(F.conv1d(torch.cat(c, -1).mT, filters, block.bias, padding=w - 1)).mT
            for c in ((x, x_a), (y, y_a))
        ]
        a = _match(*columns)
        weighted = [c * s[..., None] for c, s in zip(columns, (a.sum(2), a.sum(1)), strict=True)]
        known = [
            c.sum(1) / s.sum(1, keepdim=True)
            for c, s in zip(weighted, (a.sum(2), a.sum(1)), strict=True)
        ]
        found.append(F.cosine_similarity(*known))
        x, y = (c.unfold(1, w, 1).sum(-1) for c in weighted)
    logits: Tensor = model.head(torch.stack(found, 1))
    return logits


def _match(x: Tensor, y: Tensor) -> Tensor:
    return 1 / (1 + torch.linalg.vector_norm(x.unsqueeze(2) - y.unsqueeze(1), dim=-1))


def plain_mpcnn(model: MPCNN, first: Ids, second: Ids) -> Tensor:
    """MPCNN without interaction."""
    p = model.perspectives
    filters, dim_filters = p.whole_bias.shape[1] // 3, p.dims_bias.shape[2] // 2
    blocks = []
    for ids in (first, second):
        x = F.embedding(ids, model.embed.weight).mT  # (B, D, T)
        size = x.shape[1]
        a: dict[object, list[Tensor]] = {}
        b: dict[object, list[Tensor]] = {}
        pools = (lambda r: r.amax(2), lambda r: r.amin(2), lambda r: r.mean(2))
        for k, (layer, dims) in enumerate(zip(p.whole, p.dims, strict=True)):
            w = k + 1
            whole = layer.weight.view(w, 3, filters, size).permute(1, 2, 3, 0)
            a[w] = [
                pool(torch.tanh(F.conv1d(x, whole[i], p.whole_bias[k].view(3, -1)[i])))
                for i, pool in enumerate(pools)
            ]
            b[w] = []
            for i, pool in enumerate(pools[:2]):
                part = slice(i * dim_filters, (i + 1) * dim_filters)
                kernel = dims[..., part].mT.reshape(-1, 1, w)
                response = F.conv1d(x, kernel, p.dims_bias[k, :, part].flatten(), groups=size)
                b[w].append(pool(torch.tanh(response)).view(len(x), size, dim_filters))
        a["inf"] = [pool(x) for pool in pools]
        blocks.append((a, b))
    (a, b), (c, d) = blocks
    found = []
    for i in range(3):
        u, v = (torch.stack([z[w][i] for w in z], 2) for z in (a, c))  # (B, filters, widths)
        found.append(torch.stack([F.cosine_similarity(u, v, 2), _apart(u, v)], 2).flatten(1))
    for i in range(3):
        found += [_units(a[w][i], c[v][i]) for w in a for v in c]
    for i in range(2):
        for w in b:
            found += [_units(b[w][i][..., f], d[w][i][..., f]) for f in range(dim_filters)]
    logits: Tensor = model.head(torch.cat(found, 1))
    return logits


def _apart(u: Tensor, v: Tensor) -> Tensor:
    return torch.linalg.vector_norm(u - v, dim=-1)


def _units(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([F.cosine_similarity(u, v)[:, None], _apart(u, v)[:, None], (u - v).abs()], 1)


MODELS = {
    "abcnn": (lambda: ABCNN(1000, 2, attention="both"), plain_abcnn),
    "mpcnn": (lambda: MPCNN(1000, 5), plain_mpcnn),
}
ROWS = [
    ("abcnn", 64, 40, 40, False), ("abcnn", 64, 12, 24, False), ("abcnn", 64, 40, 40, True),
    ("mpcnn", 32, 20, 20, False), ("mpcnn", 32, 10, 10, False), ("mpcnn", 32, 20, 20, True),
    ("mpcnn", 1, 10, 10, False),
]  # fmt: skip
"""Model, pairs, words of each sentence, and whether word vectors are trained."""


def prepared(
    name: str, batch: int, first: int, second: int, words: bool
) -> tuple[torch.nn.Module, list[Callable[[], Tensor]]]:
    """The model, and a training step of ours and of the plain form."""
    torch.manual_seed(1)
    made, plain = MODELS[name]
    model = made()
    model.embed.weight.requires_grad_(words)
    ids = torch.randint(4, 1000, (batch, first)), torch.randint(4, 1000, (batch, second))
    labels = torch.randint(2, (batch,))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0)

    def step(forward: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def run() -> Tensor:
            optimizer.zero_grad()
            logits = forward()
            F.cross_entropy(logits, labels).backward()
            optimizer.step()
            return logits.detach()

        return run

    return model, [step(lambda: model(*ids).logits), step(lambda: plain(model, *ids))]


def errors(model: torch.nn.Module, ways: list[Callable[[], Tensor]]) -> dict[str, float]:
    """The largest differences of logits and of gradients."""
    found = []
    for run in ways:
        logits = run()
        found.append([logits, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    off = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*found, strict=True)]
    return {"logits": off[0], "gradients": max(off[1:])}


def memory(number: int, way: int) -> float:
    """MiB that a step adds to the resident memory, in a process of its own."""
    command = [sys.executable, __file__, "--memory", str(number), str(way)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def grown(number: int, way: int) -> float:
    """The same, in this process."""
    run = prepared(*ROWS[number])[1][way]
    status = Path("/proc/self/status")

    def mib(key: str) -> float:
        return int(status.read_text().split(f"{key}:")[1].split()[0]) / 1024

    before = mib("VmRSS")
    run()
    return mib("VmHWM") - before


def main() -> None:
    """Measure every row."""
    row(**machine())
    for number, given in enumerate(ROWS):
        model, ways = prepared(*given)
        name, batch, first, second, words = given
        row(
            model=name, batch=batch, first=first, second=second, words_trained=words,
            faster=paired(*ways, repeats=7), error=errors(model, ways),
            mib={"ours": memory(number, 0), "plain": memory(number, 1)},
        )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print(grown(int(sys.argv[2]), int(sys.argv[3])))
    else:
        main()
