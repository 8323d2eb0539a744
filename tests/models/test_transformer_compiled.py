"""The Transformer in one graph, at several lengths."""

import pytest
import torch

from regard.models.following_transformer import FollowingTransformer
from regard.models.transformer import Transformer
from regard.protocols import BOS, EOS, PAD

SIZE = 12


def batch(length, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, SIZE, (3, length), generator=generator)
    ids[1, length // 2 + 1 :] = PAD
    ids[0, -1] = ids[2, -1] = ids[1, length // 2] = EOS
    return ids


@pytest.mark.slow
@pytest.mark.nohook
@pytest.mark.parametrize(
    ("kind", "settings", "dynamic"),
    [
        (Transformer, {}, None),
        (Transformer, {}, True),
        (Transformer, {"position": {"kind": "shaw"}}, True),
        (Transformer, {"position": {"kind": "bias"}}, None),
        (Transformer, {"attention": {"window": 2}, "norm": "pre"}, True),
        (FollowingTransformer, {}, None),
    ],
    ids=str,
)
def test_it_compiles_whole(kind, settings, dynamic):
    """300 is more than a table of sinusoids has at first."""
    torch.manual_seed(0)
    model = kind(SIZE, SIZE, dim=16, heads=2, layers=2, ffn_dim=16, dropout=0.0, **settings)
    run = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    try:
        for length in (5, 7, 300):
            source, target = batch(length, length), batch(length + 1, length + 1)
            target[:, 0] = BOS
            real = (target != PAD)[..., None]
            given = source, target, (source != PAD).sum(1)
            found, expected = (of(*given).logits * real for of in (run, model))
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
            wanted = list(model.parameters())
            grads = [
                torch.autograd.grad(x.square().sum(), wanted, allow_unused=True)
                for x in (found, expected)
            ]
            for one, other in zip(*grads, strict=True):
                if other is not None:
                    torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
    finally:
        torch._dynamo.reset()
