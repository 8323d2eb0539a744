"""More problems: single C calls, features, windows that move, graphs, packed batches, the GPU."""

from typing import Any

import naive
import torch
from measure import Problem
from problems import (
    Missing,
    additive,
    additive_scores,
    leaf,
    optional,
    package,
    part,
    projected,
)
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, attend


def additive_step(batch: int = 1, keys: int = 50, dim: int = 256) -> Problem:
    """Scores of one query a row over keys that were packed once, by the C function itself."""
    wrapper = package("regard.attention._ops.cpu.additive_calls", "the C call")
    native = package("regard.native", "the C call")
    reason = native.unavailable_reason("regard_additive_scores")
    if reason is not None:
        raise Missing(reason)
    leaves = additive(batch, 1, keys, dim)
    query, key, v = (leaves[name].detach() for name in ("query", "key", "v"))
    packed = wrapper.pack(key)
    wrapper.scores(query, key, packed, v, 1)  # by the gate, which tells ctypes the types
    score = native.raw("regard_additive_scores")
    found = torch.empty(batch, 1, keys)
    # addresses are taken once: the row is about the call, not about Python's part of it
    given = (
        query.data_ptr(), key.data_ptr(), keys * dim, packed.data_ptr(), packed[0].numel(),
        v.data_ptr(), found.data_ptr(), batch, 1, keys, dim, 1, 1,
    )  # fmt: skip

    held = (query, key, v, packed)  # or what lies at the addresses would be given to others

    def ours(x: dict[str, Tensor], _held: Any = held) -> Tensor:
        score(*given)
        return found

    return Problem(
        leaves,
        {
            "ours": ours,
            "naive": lambda x: naive.additive_scores(x["query"], x["key"], x["v"]),
            "sigmoid": lambda x: naive.additive_scores_sigmoid(x["query"], x["key"], x["v"]),
        },
        note=f"{native.level()} by ctypes, addresses taken once",
    )


def location_aware(batch: int = 32, keys: int = 200, dim: int = 256, filters: int = 10) -> Problem:
    """A step that sees the weights of the step before through a convolution (Chorowski)."""
    score = part("LocationAware")(dim, dim, dim, filters=filters, width=31, bias=False)
    carried = part("CarryState")
    layer = Attention(score=score, carry=part("PreviousWeights")())
    leaves = {
        "query": leaf(batch, 1, dim, seed=1),
        "key": leaf(batch, keys, dim, seed=2),
        "W": score.query.weight,
        "V": score.features.weight,
        "F": score.filters.weight,
        "v": score.v,
    }
    previous = torch.softmax(leaf(batch, 1, keys, seed=4, grad=False), -1)
    with torch.no_grad():
        memory = layer.remember(leaves["key"])
        ready = score.key(leaves["key"])

    def old(x: dict[str, Tensor]) -> Tensor:
        kind = x["key"].dtype
        return naive.location_aware_step(
            F.linear(x["query"], x["W"]), ready.to(kind), x["key"], x["v"], previous.to(kind),
            x["F"], x["V"],
        )[0]  # fmt: skip

    return Problem(
        leaves,
        {
            "ours": lambda x: layer(x["query"], memory, state=carried(previous)).context,
            "naive": old,
        },
    )


def cuda_additive(batch: int, queries: int, keys: int, dim: int) -> Problem:
    """The same problem on the GPU."""
    if not torch.cuda.is_available():
        raise Missing("this machine has no CUDA device")
    problem = additive_scores(batch, queries, keys, dim)
    problem.leaves = {
        name: x.detach().cuda().requires_grad_() for name, x in problem.leaves.items()
    }
    return problem


def features(batch: int, length: int, dim: int, directed: bool = False) -> Problem:
    """A softmax for each feature over bounded scores of every pair (DiSAN)."""
    parts = {
        "score": projected(part("FeatureAdditive")(dim, dim, dim)),
        "select": part("FeatureSoftmax")(),
        "read": part("FeatureSum")(),
    }
    mask = part("Directional")("forward") if directed else None
    place = torch.arange(length)
    dense = place[None] < place[:, None] if directed else None
    leaves = triple(batch, length, dim)

    def ours(x: dict[str, Tensor]) -> Tensor:
        return attend(x["query"], x["key"], x["value"], mask=mask, **parts).context

    def old(form: Any) -> Any:
        return lambda x: form(x["query"], x["key"], x["value"], mask=dense)

    return Problem(
        leaves,
        {"ours": ours, "naive": old(naive.features), "sigmoid": old(naive.features_sigmoid)},
    )


def triple(batch: int, length: int, dim: int) -> dict[str, Tensor]:
    """Queries, keys and values without heads."""
    names = ("query", "key", "value")
    return {name: leaf(batch, length, dim, seed=n) for n, name in enumerate(names)}


def euclidean(batch: int, length: int, dim: int) -> Problem:
    """1 / (1 + distance)."""
    score = part("InverseEuclidean")()
    leaves = triple(batch, length, dim)
    return Problem(
        leaves,
        {
            "ours": lambda x: attend(x["query"], x["key"], x["value"], score=score).context,
            "naive": lambda x: naive.euclidean(x["query"], x["key"], x["value"]),
        },
    )


def local_p(batch: int, length: int, dim: int, half: int = 10) -> Problem:
    """A window that moves with a predicted center (Luong); both predict it in the same way."""
    select = part("LocalPredictive")(dim, dim, half)
    select.v.weight.data.mul_(20)  # centers all over the sentence, as they are after training
    score = part("ScaledDot")()
    words = triple(batch, length, dim)
    with torch.no_grad():
        for _ in range(50):  # no center so near to a whole number that rounding moves its window
            center = select.centers(words["query"], length)
            near = (center - center.round()).abs() < 0.01
            words["query"][near] *= 0.97
    leaves = {
        **words,
        "project": select.project.weight,
        "v": select.v.weight,
    }

    def old(x: dict[str, Tensor]) -> Tensor:
        logit = F.linear(torch.tanh(F.linear(x["query"], x["project"])), x["v"])[..., 0]
        center = length * torch.sigmoid(logit)
        return naive.local_p(x["query"], x["key"], x["value"], center, half, dim**-0.5)

    return Problem(
        leaves,
        {
            "ours": lambda x: (
                attend(x["query"], x["key"], x["value"], score=score, select=select).context
            ),
            "naive": old,
        },
    )


def gat(nodes: int, edges: int, heads: int = 8, dim: int = 8) -> Problem:
    """A random graph; "naive" has the same edges, sorted by destination as ours are."""
    score = part("SplitLinear")(dim, dim, heads=heads)
    generator = torch.Generator().manual_seed(5)
    pairs = torch.randint(nodes, (2, edges), generator=generator)
    graph = part("Edges").of(pairs, nodes)
    source, target = graph.sources, graph.targets
    leaves = {
        "nodes": leaf(nodes, heads, dim, seed=1),
        "key": score.key,
        "query": score.query,
    }

    def ours(x: dict[str, Tensor]) -> Tensor:
        h = x["nodes"].transpose(0, 1)  # (head, node, dim)
        return attend(h, h, h, score=score, mask=graph).context.transpose(0, 1)

    def old(x: dict[str, Tensor]) -> Tensor:
        return naive.gat(x["nodes"], x["key"], x["query"], source, target)

    ways: dict[str, Any] = {"ours": ours, "naive": old}
    optional(ways, "PyG GATConv", lambda: _geometric(leaves, source, target, heads, dim))
    return Problem(leaves, ways, note=f"{len(graph):,} different edges")


def _geometric(leaves: dict, source: Tensor, target: Tensor, heads: int, dim: int) -> Any:
    """PyG's layer with its projection left out: the identity in its place."""
    package("torch_geometric", "GATConv")
    gat_conv = part("GATConv", "torch_geometric.nn")
    layer = gat_conv(heads * dim, dim, heads=heads, add_self_loops=False, bias=False)
    layer.lin = nn.Identity()
    layer.att_src = nn.Parameter(leaves["key"].detach()[None])
    layer.att_dst = nn.Parameter(leaves["query"].detach()[None])
    index = torch.stack([source, target])
    return lambda x: layer(x["nodes"].flatten(1), index).view(-1, heads, dim)


def ragged(batch: int, longest: int, heads: int = 8, dim: int = 64) -> Problem:
    """Sentences of 20 words to `longest` look at themselves: packed, and padded by "naive".

    Both come padded and give what is no padding: ours pays for packing, which a model that packs
    its batches does once for all layers.
    """
    packed, packed_attend = part("Ragged"), part("attend_ragged")
    generator = torch.Generator().manual_seed(6)
    lengths = torch.randint(min(20, longest), longest + 1, (batch,), generator=generator)
    most = int(lengths.max())
    places = (torch.arange(most) < lengths[:, None]).flatten().nonzero()[:, 0]
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    names = ("query", "key", "value")
    leaves = {name: leaf(batch, most, heads, dim, seed=n) for n, name in enumerate(names)}

    def ours(x: dict[str, Tensor]) -> Tensor:
        rows = (x[name].flatten(0, 1).index_select(0, places) for name in names)
        return packed_attend(*(packed(row, offsets) for row in rows)).tensor

    def old(x: dict[str, Tensor]) -> Tensor:
        found = naive.ragged(*(x[name].transpose(1, 2) for name in names), lengths)
        return found.transpose(1, 2).flatten(0, 1).index_select(0, places)

    share = float((lengths**2).sum()) / (batch * most**2)
    return Problem(
        leaves,
        {"ours": ours, "naive": old},
        note=f"{len(places)} words; {share:.2f} of the padded pairs are of one sentence",
    )
