"""No batch, no queries, no keys: nothing, or zeros, from every part and every kernel."""

from contextlib import nullcontext

import pytest
import torch

from regard.attention import (
    Causal,
    Documents,
    FeatureSoftmax,
    FeatureSum,
    Gather,
    Lengths,
    Monotonic,
    PreviousWeights,
    Window,
    attend,
    kernels,
)
from regard.attention._kernels.dispatch import table
from regard.errors import RequestError
from tests.attention.combine import CARRIES, POSITIONS, READS, SCORES, SELECTS, D
from tests.pairwise import pairwise

SIZES = [(0, 3, 5), (2, 0, 5), (2, 3, 0), (2, 0, 0), (0, 0, 0)]
MASKS = {
    "none": lambda b, q, k: None,
    "lengths": lambda b, q, k: Lengths(torch.full((b,), k)),
    "window": lambda b, q, k: Window(1, 1),
    "causal": lambda b, q, k: Causal(),
    "documents": lambda b, q, k: Documents(torch.zeros(b, max(q, k)).long()),
}


def empty(size, mask="none", **parts):
    """Attend with every kernel that takes it; the context is zeros of the right shape."""
    batch, queries, keys = size
    wide = keys if getattr(parts.get("read"), "log_space", False) else D
    given = MASKS[mask](*size)
    for kernel in [None, *(k.name for k in table())]:
        x = [torch.randn(batch, n, D, requires_grad=True) for n in (queries, keys, keys)]
        try:
            with kernels(kernel) if kernel else nullcontext():
                context = attend(*x, mask=given, at=0, **parts).context
        except RequestError as error:
            if kernel and "was asked for" in str(error):
                continue
            raise
        assert context.shape == (batch, queries, wide), kernel
        assert (context == 0).all(), kernel
        if context.requires_grad:
            for grad in torch.autograd.grad(context.sum(), x, materialize_grads=True):
                assert (grad == 0).all(), kernel


@pairwise(score=SCORES, size=SIZES, mask=MASKS, others=pytest.mark.slow)
def test_scores(score, size, mask):
    score = SCORES[score]()
    wide = {"select": FeatureSoftmax(), "read": FeatureSum()}
    parts = wide if getattr(score, "per_feature", False) else {}
    carry = PreviousWeights() if getattr(score, "feature_dim", 0) else None
    empty(size, mask, score=score, carry=carry, **parts)


OTHERS = {"position": POSITIONS, "select": SELECTS, "read": READS, "carry": CARRIES}


@pairwise(
    part=[
        (kind, name)
        for kind, parts in OTHERS.items()
        for name in parts
        if name not in ("feature softmax", "feature sum", "gather", "none")
    ],
    size=SIZES,
    mask=["none", "lengths"],
    others=pytest.mark.slow,
)
def test_other_parts(part, size, mask):
    kind, name = part
    walks = {"select": Monotonic()} if name == "alignment" else {}  # it goes on from its alignment
    empty(size, mask, **{kind: OTHERS[kind][name]()}, **walks)


@pytest.mark.parametrize("size", SIZES)
def test_a_choice_among_no_keys(size):
    hard = SELECTS["hard"]()
    empty(size, select=hard, read=Gather())
    batch, queries, keys = size
    x = [torch.randn(batch, n, D) for n in (queries, keys, keys)]
    attended = attend(*x, select=hard, need_weights=True)
    assert attended.weights.shape == size
    assert attended.log_prob.shape == (batch, queries)
    if not keys:
        assert (attended.log_prob == 0).all()
