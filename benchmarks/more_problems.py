"""More problems: single C calls, features, windows that move, graphs, packed batches, the GPU."""

from typing import Any

import naive
import torch
from measure import Problem
from problems import Missing, additive, additive_scores, leaf, optional, package, part
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import attend


def additive_step(batch: int = 1, keys: int = 50, dim: int = 256) -> Problem:
    """Scores of one query a row over keys that were prepared once, by the C function itself."""
    step = part("step", "regard.attention._kernels.additive")
    leaves = additive(batch, 1, keys, dim)
    with torch.no_grad():
        ours = step(leaves["key"], leaves["v"])
    return Problem(
        leaves,
        {
            "ours": lambda x: ours(x["query"]),
            "naive": lambda x: naive.additive_scores(x["query"], x["key"], x["v"]),
            "sigmoid": lambda x: naive.additive_scores_sigmoid(x["query"], x["key"], x["v"]),
        },
    )


def location_aware(batch: int = 32, keys: int = 200, dim: int = 256) -> Problem:
    """A step that sees the weights of the step before through a convolution."""
    part("LocationAware")
    raise Missing("a row for LocationAware")


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
    """A softmax for each feature over bounded scores of every pair."""
    part("FeatureSoftmax")
    raise Missing("a row for FeatureSoftmax")


def euclidean(batch: int, length: int, dim: int) -> Problem:
    """1 / (1 + distance)."""
    score = part("Euclidean")()
    leaves = {name: leaf(batch, length, dim, seed=n) for n, name in enumerate(("query", "key", "value"))}
    return Problem(
        leaves,
        {
            "ours": lambda x: attend(x["query"], x["key"], x["value"], score=score).context,
            "naive": lambda x: naive.euclidean(x["query"], x["key"], x["value"]),
        },
    )


def local_p(batch: int, length: int, dim: int, half: int = 10) -> Problem:
    """A window that moves with a predicted center."""
    part("LocalPredictive")
    raise Missing("a row for LocalPredictive")


def gat(nodes: int, edges: int, heads: int = 8, dim: int = 8) -> Problem:
    """A random graph, edges sorted by destination."""
    part("SplitLinear")
    raise Missing("a row for SplitLinear")


def ragged(batch: int, longest: int, heads: int = 8, dim: int = 64) -> Problem:
    """Sentences of many lengths."""
    part("packed", "regard.attention")
    raise Missing("a row for packed batches")
