"""What a recorder keeps, and what it writes down."""

import pytest
import torch
from torch import nn

from regard import viewer, watch
from regard.attention import (
    Attention,
    Causal,
    Dot,
    Lengths,
    MultiHead,
    ScaledDot,
    Softmax,
    attend,
    kernels,
    scope,
)
from regard.errors import RequestError


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = MultiHead(8, 2)

    def forward(self, x):
        return self.layer(x, x).context


@pytest.fixture
def seen_of():
    torch.manual_seed(0)
    model, x = Toy().eval(), torch.randn(2, 5, 8)

    def run(**options):
        with watch(model, **options) as seen:
            model(x)
        return seen

    return run


def test_the_largest_are_kept(seen_of):
    whole, few = seen_of()["layer"].weights, seen_of(top_k=2)["layer"]
    assert few.weights.shape == whole.shape
    kept = few.weights > 0
    assert (kept.sum(-1) == 2).all()
    assert torch.equal(few.weights[kept], whole[kept])
    assert torch.allclose(few.kept[0].mass, whole.topk(2).values.sum(-1))
    assert torch.equal(seen_of(top_k=99)["layer"].weights, whole)
    with pytest.raises(RequestError, match="top_k"):
        seen_of(top_k=0)


def test_a_precision(seen_of):
    half = seen_of(dtype=torch.float16)["layer"].weights
    assert half.dtype == torch.float16
    assert torch.equal(half, seen_of()["layer"].weights.half())


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_long_runs_go_to_disk(seen_of, dtype, tmp_path):
    plain = seen_of(dtype=dtype)["layer"].weights
    path = tmp_path / "new" / "run.bin"
    record = seen_of(to=path, dtype=dtype)["layer"]
    assert torch.equal(record.weights, plain)
    assert record.weights.dtype == plain.dtype
    assert path.stat().st_size == plain.numel() * plain.element_size()


def test_turns_of_a_loop_are_told_apart():
    x = torch.randn(1, 4, 8)
    with watch() as seen:
        for k in range(3):
            with scope("hop", k):
                attend(x * (k + 1), x, name="facts")
    record = seen["facts"]
    assert torch.equal(record.within({"hop": 2}).weights, record.steps[2])
    view = seen.label("facts", rows="a b c d").view()
    assert [one.scope for one in view.maps] == [{"hop": 0}, {"hop": 1}, {"hop": 2}]


def test_pages_and_files_have_the_labels(seen_of, tmp_path):
    seen = seen_of().label(rows="1 2 3 4 5").label("lay*", rows="the cat sat on it")
    assert seen.labels("layer")[0] == "the cat sat on it"
    back = viewer.read(seen.save(tmp_path / "a.seen", row=1, code="f16"))
    assert back.axes[0].pieces == ["the", "cat", "sat", "on", "it"]
    torch.testing.assert_close(
        torch.from_numpy(back["layer"].weights), seen["layer"].of(1), rtol=1e-3, atol=1e-3
    )
    page = seen.page(tmp_path / "a.html", title="cats")
    assert "<title>cats</title>" in page.read_text(encoding="utf-8")
    assert "<iframe" in seen._repr_html_()


def test_nothing_seen_is_said(tmp_path):
    with watch(Attention()) as seen:
        pass
    with pytest.raises(RequestError, match="nothing was seen"):
        seen.page(tmp_path / "a.html")


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize(
    "mask", [None, Lengths(torch.tensor([5, 2])), Lengths(torch.tensor([5, 0])), Causal()]
)
@pytest.mark.parametrize("score", [Dot(), ScaledDot()])
def test_the_second_pass_is_the_reference(score, mask, queries, temperature):
    """Small steps take a shorter way to the same weights; an empty row is zeros."""
    torch.manual_seed(0)
    query, key = torch.randn(2, queries, 4).double(), torch.randn(2, 5, 4).double()
    parts = {"score": score, "mask": mask, "select": Softmax(temperature)}
    with watch() as seen:
        for _ in range(2):  # the second time, what the mask hides is known
            attend(query, key, **parts)
    with kernels("reference"):
        expected = attend(query, key, **parts, need_weights=True).weights
    for step in seen["attend"].steps:
        torch.testing.assert_close(step, expected, rtol=0, atol=1e-12)
        assert torch.equal(step == 0, expected == 0)
