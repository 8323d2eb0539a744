"""Windows and documents by tiles: the truth, what is computed, and when they are taken."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import (
    Attention,
    Block,
    Causal,
    Cosine,
    Dense,
    Directional,
    Documents,
    Lengths,
    ScaledDot,
    Softmax,
    WeightedSum,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels import tiles
from regard.attention._kernels.region import Region
from regard.attention._kernels.window import Windowed
from regard.attention.call import Call
from regard.errors import RequestError
from tests.attention.test_relative import compare

CPU = torch.device("cpu")


@given(
    left=st.integers(0, 12),
    right=st.integers(0, 12),
    queries=st.integers(1, 40),
    keys=st.integers(1, 40),
    at=st.sampled_from([None, 0, 5, -4, 60]),
    other=st.sampled_from(["none", "lengths", "dense", "causal", "documents"]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    small=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_kernel_agrees_with_float64(left, right, queries, keys, at, other, dtype, small, seed):
    torch.manual_seed(seed)
    mask = Window(left, right)
    if other == "lengths":
        mask = mask & Lengths(torch.randint(0, keys + 1, (2, 1)))
    elif other == "dense":
        mask = Dense(torch.rand(2, 3, queries, keys) > 0.4) & mask
    elif other == "causal":
        mask = Causal() & mask
    elif other == "documents":
        ids = torch.randint(-1, 4, (2, 1, keys)).sort(-1).values
        mask = mask & Documents(ids, queries=torch.randint(-1, 4, (2, 1, queries)))
    inputs = [torch.randn(2, 3, n, d).to(dtype) for n, d in ((queries, 4), (keys, 4), (keys, 3))]
    tolerance = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 3e-2}[dtype]
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(tiles, "QUERIES", 6)
            patch.setattr(tiles, "PAIRS", 60)
        compare(Attention(ScaledDot()), inputs, "window", tolerance, mask=mask, at=at)


def test_only_what_the_window_touches_is_computed(monkeypatch):
    sizes = []
    real = torch.softmax

    def spy(x, *args, **kwargs):
        sizes.append(x.numel())
        return real(x, *args, **kwargs)

    monkeypatch.setattr(torch, "softmax", spy)
    for length in (512, 1024):
        x = torch.randn(1, 2, length, 4)
        sizes.clear()
        attend(x, x, mask=Causal(left=8))
        assert sum(sizes) <= 2 * length * (tiles.QUERIES + 8)
        sizes.clear()
        attend(x, x, mask=Documents(torch.arange(length) // 32))
        assert sum(sizes) <= 2 * length * (tiles.QUERIES + 32)


def test_when_it_is_taken():
    x = torch.randn(1, 1, 600, 4)

    def kernel(mask, **parts):
        with torch.no_grad():
            attended = explain(Attention(mask=mask, **parts))[""]
        return attended.kernel

    assert kernel(Window(2, 2)) == "window"
    assert kernel(Causal(left=2) & Lengths(torch.tensor([3]))) == "window"
    assert kernel(Block(4)) == "window"
    assert kernel(Directional("forward") & Window(3, None), score=Cosine()) == "window"
    assert kernel(Causal()) == kernel(Window(None, 3)) == kernel(None) == "sdpa"
    assert "outside the window" in str(explain(Attention(mask=Window(2, 2)))[""])
    with kernels("window"), pytest.raises(RequestError, match="no window"):
        attend(x, x, mask=Causal())
    with kernels("sdpa"):  # whoever asks for it gets it
        forced = attend(x, x, mask=Window(2, 2)).context
    torch.testing.assert_close(forced, attend(x, x, mask=Window(2, 2)).context)


@pytest.mark.parametrize(("keys", "faster"), [(30, True), (29, False)])
def test_it_is_faster_from_six_windows_on(keys, faster):
    x = torch.randn(1, keys, 4)
    parts = {"score": ScaledDot(), "select": Softmax(), "read": WeightedSum()}
    assert Windowed.is_faster(Call(**parts, mask=Window(2, 2), query=x, key=x, value=x)) is faster


def test_a_region_cut_to_tiles_is_the_mask():
    """Whatever the tiles, together they hide what the mask hides, and spans lose nothing."""
    torch.manual_seed(0)
    batch, queries, keys = torch.Size([2, 3]), 7, 9
    ids = torch.randint(-1, 3, (2, 1, keys))
    lengths = torch.randint(0, keys + 1, (2, 3))
    for at in (0, 2, -3):
        for mask in (
            Window(2, 1) & Lengths(lengths),
            ~Window(2, 1) | Lengths(lengths),
            Block(2, 1, None) | Directional("backward"),
            Documents(ids, queries=ids[..., :queries])
            & ~Dense(torch.rand(2, 3, queries, keys) > 0.7),
            Dense(torch.rand(queries, keys) > 0.5),
        ):
            whole = mask.dense(queries, keys, at=at, device=CPU).expand(*batch, queries, keys)
            region = Region(mask, batch, queries, keys, at, CPU)
            for rows in (slice(0, 6), slice(1, 3), slice(5, 6)):
                for start, stop in ((0, 7), (2, 5), (6, 7)):
                    part = whole.reshape(6, queries, keys)[rows, start:stop]
                    low, high = region.span(rows, start, stop)
                    outside = torch.ones(keys, dtype=torch.bool)
                    outside[low : max(low, high)] = False
                    assert not (part & outside).any()
                    scores = torch.zeros(rows.stop - rows.start, stop - start, keys - 1)
                    region.hide(scores, rows, start, 1)
                    assert torch.equal(scores == 0, part[..., 1:])
                    if region.sees(start, stop):
                        assert part.any(-1).all()
