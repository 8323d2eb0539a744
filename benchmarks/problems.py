"""The problems that `regard bench kernels` measures: inputs, and each way to compute the output.

"ours" goes through the public operation wherever the row is about one; "naive" is from `naive.py`;
other names are public implementations. A part that this build does not have raises `Missing`.
"""

import importlib
from collections.abc import Callable
from typing import Any

import naive
import torch
from measure import Problem
from torch import Tensor, nn
from torch.nn import functional as F

from regard import attention
from regard.attention import Attention, ScaledDot, attend

HEADS = 8

__all__ = ["Missing", "leaf", "optional", "package", "part", "projected"]


class Missing(Exception):
    """Something that a row needs is not here: said in its reason."""


def part(name: str, module: str = "regard.attention") -> Any:
    """A public part by name."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise Missing(f"{module} has no {name}") from None


def package(name: str, why: str) -> Any:
    """A package that a developer may have installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"{why} needs {name.partition('.')[0]}, which is not installed") from None


def optional(ways: dict[str, Any], name: str, make: Callable[[], Any]) -> None:
    """Add a public implementation where it is installed."""
    try:
        ways[name] = make()
    except Missing:
        return


def leaf(*shape: int, scale: float = 1.0, seed: int = 0, grad: bool = True) -> Tensor:
    """Normal numbers, the same for every way."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator)).requires_grad_(grad)


# Additive ---------------------------------------------------------------------------------------


def additive(
    batch: int, queries: int, keys: int, dim: int, scale: float = 1.0
) -> dict[str, Tensor]:
    """Projected queries and keys, values and v."""
    return {
        "query": leaf(batch, queries, dim, scale=scale, seed=1),
        "key": leaf(batch, keys, dim, scale=scale, seed=2),
        "v": leaf(dim, scale=dim**-0.5, seed=3),
    }


def additive_scores(
    batch: int = 1, queries: int = 1000, keys: int = 1000, dim: int = 256, scale: float = 1.0
) -> Problem:
    """The scores alone, of projected queries and keys."""
    ours = part("additive_scores", "regard.attention._ops.additive")
    return Problem(
        additive(batch, queries, keys, dim, scale),
        {
            "ours": lambda x: ours(x["query"], x["key"], x["v"]),
            "naive": lambda x: naive.additive_scores(x["query"], x["key"], x["v"]),
            "sigmoid": lambda x: naive.additive_scores_sigmoid(x["query"], x["key"], x["v"]),
        },
    )


def additive_range(batch: int = 1, queries: int = 64, keys: int = 256, dim: int = 256) -> Problem:
    """Scores of inputs all over -40 .. 40."""
    problem = additive_scores(batch, queries, keys, dim)
    for name, seed in (("query", 1), ("key", 2)):
        generator = torch.Generator().manual_seed(seed)
        x = problem.leaves[name]
        x.data.copy_(80 * torch.rand(x.shape, generator=generator) - 40)
    return problem


def projected(score: Any) -> Any:
    """A score whose queries and keys come projected: kernels are compared, not linear layers."""
    score.query, score.key = nn.Identity(), nn.Identity()
    return score


def additive_attention(
    batch: int = 1, queries: int = 1000, keys: int = 1000, dim: int = 256, value: int = 256
) -> Problem:
    """Scores, softmax and values; queries and keys come projected, as in the measured prototype."""
    layer = Attention(score=projected(part("Additive")(dim, dim, dim)))
    leaves = additive(batch, queries, keys, dim)
    leaves["value"] = leaf(batch, keys, value, seed=4)
    layer.score.v.data.copy_(leaves["v"].detach())
    leaves["v"] = layer.score.v

    def old(scores: Any) -> Any:
        return lambda x: naive.additive_attention(
            x["query"], x["key"], x["value"], x["v"], scores=scores
        )

    return Problem(
        leaves,
        {
            "ours": lambda x: layer(x["query"], x["key"], x["value"]).context,
            "naive": old(naive.additive_scores),
            "sigmoid": old(naive.additive_scores_sigmoid),
        },
        note=f"by the kernel {attention.explain(layer)[''].kernel!r}",
    )


def additive_layer(
    batch: int = 1, queries: int = 1000, keys: int = 1000, dim: int = 256, blocks: bool = False
) -> Problem:
    """The whole layer, projections and all, as a user calls it."""
    layer = Attention(score=part("Additive")(dim, dim, dim))
    score = layer.score
    leaves = {
        "query": leaf(batch, queries, dim, seed=1),
        "key": leaf(batch, keys, dim, seed=2),
        "W": score.query.weight,
        "U": score.key.weight,
        "v": score.v,
    }

    def old(scores: Any) -> Any:
        def run(x: dict[str, Tensor]) -> Tensor:
            q, k = F.linear(x["query"], x["W"]), F.linear(x["key"], x["U"])
            return naive.additive_attention(q, k, x["key"], x["v"], scores=scores)

        return run

    return Problem(
        leaves,
        {
            "ours": lambda x: layer(x["query"], x["key"]).context,
            "naive": old(naive.additive_scores),
            "sigmoid": old(naive.additive_scores_sigmoid),
        },
        note=f"by the kernel {attention.explain(layer)[''].kernel!r}",
    )


def additive_layer_step(batch: int = 1, keys: int = 50, dim: int = 256) -> Problem:
    """`layer(query, memory)`: one decoder step over a memory, query projection included."""
    layer = Attention(score=part("Additive")(dim, dim, dim))
    leaves = {
        "query": leaf(batch, 1, dim, seed=1),
        "key": leaf(batch, keys, dim, seed=2),
        "W": layer.score.query.weight,
        "v": layer.score.v,
    }
    with torch.no_grad():
        memory = layer.remember(leaves["key"])
        projected = layer.score.key(leaves["key"])

    def old(scores: Any) -> Any:
        def run(x: dict[str, Tensor]) -> Tensor:
            k = projected.to(x["key"].dtype)
            return naive.additive_step(x["query"], k, x["key"], x["W"], x["v"], scores=scores)

        return run

    return Problem(
        leaves,
        {
            "ours": lambda x: layer(x["query"], memory).context,
            "naive": old(naive.additive_scores),
            "sigmoid": old(naive.additive_scores_sigmoid),
        },
    )


def additive_steps(batch: int = 32, keys: int = 50, dim: int = 256, steps: int = 50) -> Problem:
    """One query a step over one memory, as a recurrent decoder trains: all steps and backward."""
    layer = Attention(score=part("Additive")(dim, dim, dim))
    leaves = {
        "query": leaf(batch, steps, dim, seed=1),
        "key": leaf(batch, keys, dim, seed=2),
        "W": layer.score.query.weight,
        "U": layer.score.key.weight,
        "v": layer.score.v,
    }

    def new(x: dict[str, Tensor]) -> Tensor:
        memory = layer.remember(x["key"])
        return torch.cat([layer(q, memory).context for q in x["query"].split(1, dim=1)], 1)

    def old(scores: Any) -> Any:
        def run(x: dict[str, Tensor]) -> Tensor:
            k = F.linear(x["key"], x["U"])
            found = [
                naive.additive_step(q, k, x["key"], x["W"], x["v"], scores=scores)
                for q in x["query"].split(1, dim=1)
            ]
            return torch.cat(found, 1)

        return run

    return Problem(
        leaves,
        {
            "ours": new,
            "naive": old(naive.additive_scores),
            "sigmoid": old(naive.additive_scores_sigmoid),
        },
    )


# The dot family ---------------------------------------------------------------------------------


def qkv(batch: int, heads: int, length: int, dim: int) -> dict[str, Tensor]:
    """Queries, keys and values with heads."""
    return {
        "query": leaf(batch, heads, length, dim, seed=1),
        "key": leaf(batch, heads, length, dim, seed=2),
        "value": leaf(batch, heads, length, dim, seed=3),
    }


def overhead(batch: int = 1, heads: int = HEADS, length: int = 512, dim: int = 64) -> Problem:
    """`attend` over the bare fused kernel: "naive" is PyTorch's own function here."""
    score = ScaledDot()
    return Problem(
        qkv(batch, heads, length, dim),
        {
            "ours": lambda x: attend(x["query"], x["key"], x["value"], score=score).context,
            "naive": lambda x: F.scaled_dot_product_attention(x["query"], x["key"], x["value"]),
            "materialized": lambda x: naive.dot(x["query"], x["key"], x["value"]),
        },
        exact=lambda x: naive.dot(x["query"], x["key"], x["value"]),
    )


def shaw(
    batch: int = 1, heads: int = HEADS, length: int = 2048, dim: int = 64, clip: int = 16,
    values: bool = False,
) -> Problem:  # fmt: skip
    """Relative keys (and values), tables shared over heads."""
    score = part("RelativeKeys")(dim, clip)
    read = part("RelativeValues")(dim, clip) if values else part("WeightedSum")()
    leaves = {**qkv(batch, heads, length, dim), "table": score.table}
    if values:
        leaves["values"] = read.table

    def old(x: dict[str, Tensor]) -> Tensor:
        return naive.shaw(x["query"], x["key"], x["value"], x["table"], x.get("values"))

    return Problem(
        leaves,
        {
            "ours": lambda x: (
                attend(x["query"], x["key"], x["value"], score=score, read=read).context
            ),
            "naive": old,
            "no relative term (SDPA)": lambda x: F.scaled_dot_product_attention(
                x["query"], x["key"], x["value"]
            ),
        },
    )


def window(
    batch: int = 1, heads: int = 4, length: int = 8192, dim: int = 64, each: int = 64,
    flex: bool = False,
) -> Problem:  # fmt: skip
    """A window of neighbours; "naive" is a dense mask for SDPA."""
    mask = part("Window")(each, each)
    ways: dict[str, Any] = {
        "ours": lambda x: attend(x["query"], x["key"], x["value"], mask=mask).context,
        "naive": lambda x: naive.window(x["query"], x["key"], x["value"], each, each),
    }
    if flex:
        optional(ways, "FlexAttention", lambda: _flex(length, each))
    return Problem(qkv(batch, heads, length, dim), ways, forward_only={"FlexAttention"})


def _flex(length: int, each: int) -> Callable[[dict[str, Tensor]], Tensor]:
    module = package("torch.nn.attention.flex_attention", "FlexAttention")
    block = module.create_block_mask(
        lambda b, h, q, k: (q - k).abs() <= each, None, None, length, length, device="cpu"
    )
    compiled = torch.compile(module.flex_attention, dynamic=False)

    def flex(x: dict[str, Tensor]) -> Tensor:  # on CPUs it refuses inputs that need gradients
        query, key, value = (x[name].detach() for name in ("query", "key", "value"))
        return compiled(query, key, value, block_mask=block)

    return flex


def alibi(batch: int = 1, heads: int = HEADS, length: int = 2048, dim: int = 64) -> Problem:
    """A slope for each head; "naive" adds a dense bias."""
    position = part("ALiBi")(heads)

    def old(x: dict[str, Tensor]) -> Tensor:
        place = torch.arange(length)
        distance = (place[None] - place[:, None]).abs()
        bias = -position.slopes.to(x["query"])[:, None, None] * distance
        return naive.biased(x["query"], x["key"], x["value"], bias)

    ways: dict[str, Any] = {
        "ours": lambda x: attend(x["query"], x["key"], x["value"], position=position).context,
        "naive": old,
    }
    for flash in (False, True):
        name = f"x-transformers Attend(flash={flash})"
        optional(ways, name, lambda flash=flash: _x_transformers(heads, flash))
    return Problem(qkv(batch, heads, length, dim), ways)


def _x_transformers(heads: int, flash: bool) -> Callable[[dict[str, Tensor]], Tensor]:
    """Its ALiBi keeps the biases of all pairs from one call to the next, as its models do."""
    bias = part("AlibiPositionalBias", "x_transformers.x_transformers")(heads)
    core = part("Attend", "x_transformers.attend")(flash=flash)

    def run(x: dict[str, Tensor]) -> Tensor:
        added = bias(x["query"].shape[-2], x["key"].shape[-2])
        return core(x["query"], x["key"], x["value"], attn_bias=added)[0]

    return run
