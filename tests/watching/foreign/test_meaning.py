"""What an axis means is known from what the modules were given; the rest has a plain name."""

import pkgutil

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.attention import Attention, Edges, SplitLinear, attend
from regard.errors import RegardError, RequestError

B, H, T, D = 4, 2, 3, 8


class PerHead(nn.Module):
    """Attends head by head."""

    num_heads = H

    def forward(self, x):
        self.kept = []
        for part in x.chunk(self.num_heads, -1):
            self.kept.append(F.softmax(part @ part.mT, -1))
            x = x + F.pad(self.kept[-1] @ part, (0, D - D // H))
        return x


class Windows(nn.Module):
    """Attends within pieces of a text, head by head or not."""

    def __init__(self, heads, packed):
        super().__init__()
        self.num_heads, self.packed, self.window_size = heads, packed, 2

    def forward(self, x):
        parts = x.unflatten(1, (-1, 2)).flatten(0, 1)  # (B · windows, 2, D)
        parts = parts.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if self.packed:
            parts = parts.flatten(0, 1)
            return F.softmax(parts @ parts.mT, -1) @ parts
        return F.scaled_dot_product_attention(parts, parts, parts)


def watched(model, *given, **more):
    with torch.no_grad(), regard.watch(model) as seen:
        model(*given, **more)
    return seen


def test_a_loop_over_heads_is_so_many_calls():
    model = PerHead()
    seen = watched(model, torch.randn(B, T, D))
    record = seen[""]
    assert record.axes == ("example", "query", "key")
    for n, own in enumerate(model.kept, 1):
        assert torch.equal(record.within({"call": n}).of(1)[0], own[1])
    assert [m.scope for m in seen.view(row=1).maps] == [{"call": 1}, {"call": 2}]
    assert (seen.view(row=1).maps[1].weights[0] == model.kept[1][1].numpy()).all()
    with pytest.raises(RequestError, match="the model: its 2 calls do not go on from each other"):
        record.of(1)
    with pytest.raises(RequestError, match="as a loop over heads does"):
        seen.rollout()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("heads", [1, 2])
def test_windows_are_no_examples_and_no_heads(heads, packed):
    seen = watched(Windows(heads, packed), torch.randn(2, 6, D))
    record = seen[""]
    assert record.axes[0] == "window"
    assert record.axes[-2:] == ("query", "key")
    assert record.weights.shape[0] == (6 * heads if packed else 6)
    assert ("head" in record.axes) == (not packed)
    said = "windows where the model was given a batch of 2"
    for ask in (lambda: record.of(0), seen.view, seen.rollout, lambda: seen.view(row=4)):
        with pytest.raises(RequestError, match=said):
            ask()


def test_windows_and_frames_of_real_models():
    transformers = pytest.importorskip("transformers")
    swin = transformers.SwinConfig(
        image_size=16, patch_size=2, embed_dim=8, depths=[2], num_heads=[2], window_size=4
    )
    frames = transformers.TimesformerConfig(
        image_size=8, patch_size=4, num_frames=3, hidden_size=8, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=8,
    )  # fmt: skip
    for config, kind, shape, axes in (
        (swin, "SwinModel", (2, 3, 16, 16), {("window", "head", "query", "key")}),
        (frames, "TimesformerModel", (2, 3, 3, 8, 8),
         {("frame", "head", "query", "key"), ("block", "head", "query", "key")}),
    ):  # fmt: skip
        model = getattr(transformers, kind)(config).eval()
        seen = watched(model, pixel_values=torch.randn(shape))
        assert {r.axes for r in seen.values()} == axes
        with pytest.raises(RequestError, match="where the model was given a batch of 2"):
            seen.view(row=1)


@pytest.mark.parametrize("first", [True, False])
def test_layers_whose_first_axis_is_the_sequence(first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, 2, 8, batch_first=first)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    for size in (4, 5, 7):  # 4: as many places as examples
        x = torch.randn(4, size, D) if first else torch.randn(size, 4, D)
        with torch.enable_grad(), regard.watch(model) as seen:
            model(x)
        record = seen["layers.0.self_attn"]
        assert record.axes == ("example", "head", "query", "key")
        assert record.weights.shape == (4, 2, size, size)
        assert seen.view(row=3).maps[0].shape == (2, size, size)
    one = watched(nn.MultiheadAttention(D, 2), *[torch.randn(T, D)] * 3)
    assert one[""].weights.shape == (1, 2, T, T)
    assert one[""].axes == ("example", "head", "query", "key")


def test_calls_that_go_on_and_calls_that_do_not():
    model = nn.MultiheadAttention(D, 2, batch_first=True).eval()
    x = torch.randn(1, 5, D)
    with torch.no_grad(), regard.watch(model) as grown:
        for rows, keys in (((0, 3), 3), ((3, 4), 4), ((4, 5), 5)):
            model(x[:, slice(*rows)], x[:, :keys], x[:, :keys])
    grown.label(role="self")
    assert grown.view().maps[0].shape == (2, 5, 5)
    with torch.no_grad(), regard.watch(model) as apart:
        for _ in range(2):
            model(x, x, x)
    assert [m.scope for m in apart.view().maps] == [{"call": 1}, {"call": 2}]


PAIRS = torch.tensor([[0, 1, 1], [0, 1, 2]])  # two authors, three papers
PAPERS, AUTHORS = ["p0", "p1", "p2"], ["a0", "a1"]


def test_two_sets_of_nodes_of_our_own(tmp_path):
    layer = Attention(score=SplitLinear(D, D))
    papers, authors = torch.randn(3, D), torch.randn(2, D)
    with regard.watch(layer) as seen:
        layer(papers, authors, mask=Edges.of(PAIRS, 3, keys=2))
    view = seen.label(rows=PAPERS, columns=AUTHORS).view()
    one = view.maps[0]
    assert [view.axes[a].pieces for a in (one.rows, one.columns)] == [PAPERS, AUTHORS]
    expected = np.zeros((1, 3, 2), np.float32)
    for edge, (author, paper) in enumerate(PAIRS.T.tolist()):
        expected[0, paper, author] = seen[""].weights.reshape(-1)[edge]
    assert (one.weights == expected).all()
    kept = regard.viewer.read(seen.save(tmp_path / "graph.seen"))
    np.testing.assert_allclose(kept.maps[0].weights, one.weights, atol=0.01)
    page = seen.page(tmp_path / "graph.html").read_text()
    assert "a1" in page
    assert "p2" in view.text()
    with regard.watch() as bare:  # as many of the one as of the other
        attend(papers, papers, papers, score=SplitLinear(D, D), mask=Edges.of(PAIRS, 3, keys=3))
    assert len(bare.view().axes) == 2


def test_two_sets_of_nodes_of_pytorch_geometric():
    made = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    layer = made.GATConv((4, 5), 3, heads=2, add_self_loops=False).eval()
    authors, papers = torch.randn(2, 4), torch.randn(3, 5)
    seen = watched(layer, (authors, papers), PAIRS)
    _, (edges, alpha) = layer((authors, papers), PAIRS, return_attention_weights=True)
    expected = np.zeros((2, 3, 2), np.float32)
    for edge, (author, paper) in enumerate(edges.T.tolist()):
        expected[:, paper, author] = alpha[edge].detach().numpy()
    view = regard.view(seen, rows=PAPERS, columns=AUTHORS)
    np.testing.assert_allclose(view.maps[0].weights, expected, atol=1e-6)
    assert [axis.pieces for axis in view.axes] == [PAPERS, AUTHORS]
    given = regard.view((edges, alpha.detach()), rows=PAPERS, columns=AUTHORS)
    np.testing.assert_allclose(given.maps[0].weights, expected, atol=1e-6)
    # A target without features: (x, None), with the size said
    none = watched(made.GATConv(4, 3, add_self_loops=False), (authors, None), PAIRS, size=(2, 3))
    assert none.view().maps[0].shape == (1, 3, 2)
    same = watched(made.GATv2Conv(4, 3), torch.randn(3, 4), PAIRS)
    assert len(same.view().axes) == 1


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_coo"])
def test_a_sparse_adjacency_matrix(layout):
    made = pytest.importorskip("torch_geometric.nn")
    layer, x = made.GATConv(4, 3, add_self_loops=False).eval(), torch.randn(3, 4)
    pairs = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    dense = torch.zeros(3, 3)
    dense[pairs[1], pairs[0]] = 1.0  # rows look
    seen = watched(layer, x, getattr(dense, layout)())
    plain = watched(layer, x, pairs)
    np.testing.assert_allclose(
        seen.view().maps[0].weights, plain.view().maps[0].weights, rtol=0, atol=1e-6
    )


class Both(nn.Module):
    """Two attentions, and a graph's."""

    def __init__(self):
        super().__init__()
        self.one = nn.MultiheadAttention(D, 2, batch_first=True)
        self.two = PerHead()

    def forward(self, x):
        return self.two(self.one(x, x, x)[0])


HOOKS = [
    ("regard.watching.foreign.running_modules.Places", "_enter"),
    ("regard.watching.foreign.running_modules.Places", "_leave"),
    ("regard.watching.foreign.running_modules.Places", "use"),
    ("regard.watching.foreign.running_modules.Places", "role"),
    ("regard.watching.foreign.softmax_pattern.Pattern", "before"),
    ("regard.watching.foreign.softmax_pattern.Pattern", "after"),
    ("regard.watching.foreign.interceptor.Interceptor", "leave"),
    ("regard.watching.foreign.interceptor.Interceptor", "write"),
]


@pytest.mark.parametrize(("place", "hook"), HOOKS)
def test_whatever_a_hook_raises_the_model_runs_to_its_end(place, hook, monkeypatch):
    def broken(*given, **more):
        raise ValueError("a trap")

    model, x, done = Both().eval(), torch.randn(2, T, D), []
    with torch.no_grad():
        without = model(x)
    monkeypatch.setattr(pkgutil.resolve_name(place), hook, broken)
    try:
        with torch.no_grad(), regard.watch(model) as seen:
            done.append(model(x))
        said = str(seen.unseen)
    except RegardError as error:  # nothing else was seen
        said = str(error)
    assert "a trap" in said
    assert torch.equal(done[0], without)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("hook", ["_begin", "_read", "_end"])
@pytest.mark.filterwarnings("ignore")
def test_whatever_following_generate_raises_it_writes_on(hook, monkeypatch):
    transformers = pytest.importorskip("transformers")
    from regard.watching.foreign import generating

    def broken(*given, **more):
        raise ValueError("a trap")

    parts = {"_begin": "_batch", "_read": "_reading", "_end": "GenerationRun.end"}
    config = transformers.GPT2Config(
        vocab_size=20, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "pad_token_id": 0}
    without = model.generate(torch.tensor([[5, 6]]), **options)
    owner = generating.GenerationRun if "." in parts[hook] else generating
    monkeypatch.setattr(owner, parts[hook].rsplit(".", 1)[-1], broken)
    with torch.no_grad(), regard.watch(model) as seen:
        assert torch.equal(model.generate(torch.tensor([[5, 6]]), **options), without)
    assert "a trap" in seen.unseen[""]
    if hook != "_begin":
        with pytest.raises(RequestError, match=r"cannot be put together: .*a trap"):
            seen.view()


class Half(nn.Module):
    """One attention that is seen, and several that are not."""

    def __init__(self):
        super().__init__()
        self.one = nn.MultiheadAttention(D, 2, batch_first=True)
        self.pooled = Pooling()
        self.linear = LinearAttention()
        self.router = Router()

    def forward(self, x):
        x = self.one(x, x, x)[0] + self.linear(x) + self.router(x)
        return self.pooled(x)


class Pooling(nn.Module):
    def forward(self, x):
        return (torch.softmax(x.sum(-1), -1)[..., None] * x).sum(1)


class LinearAttention(nn.Module):
    def forward(self, x):
        return x.exp() @ (x.mT @ x)


class Router(nn.Module):
    """A mixture of a table that is a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(D, D))

    def forward(self, x):
        return torch.softmax(x, -1) @ self.table


def test_partly_seen_is_said(tmp_path):
    seen = watched(Half().eval(), torch.randn(2, T, D))
    assert list(seen) == ["one"]
    assert seen.unseen == {
        "pooled": "a softmax of it was not followed to values",
        "linear": "it ran, and no attention of it was seen",
    }
    page = seen.page(tmp_path / "half.html").read_text()
    assert "a softmax of it was not followed to values" in page
    assert "linear" in seen.view().text().plain
    kept = regard.viewer.read(seen.save(tmp_path / "half.seen"))
    assert kept.runs[0].panels[1].cells[1][0] == "linear"
    with torch.no_grad(), regard.watch(model := Half().eval(), only="one*") as seen:
        model(torch.randn(2, T, D))
    assert not seen.unseen  # what was to be left out is left out
    seen = watched(nn.MultiheadAttention(D, 2, batch_first=True), *[torch.randn(2, T, D)] * 3)
    assert not seen.unseen
    assert not seen.view().runs[0].panels


def test_a_compiled_function_is_named(monkeypatch):
    monkeypatch.setattr(Pooling, "forward", _calls_compiled, raising=True)
    monkeypatch.setitem(globals(), "compiled", torch.compile(lambda x: x.sum(1), backend="eager"))
    seen = watched(Half().eval(), torch.randn(2, T, D))
    assert "compiled, a compiled function" in seen.unseen["pooled"]


def _calls_compiled(self, x):
    return compiled(x)  # noqa: F821


def test_one_layer_that_cannot_be_read_leaves_the_others():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = nn.MultiheadAttention(D, 2, batch_first=True)
            self.windows = Windows(2, False)

        def forward(self, x):
            return self.windows(self.whole(x, x, x)[0])

    seen = watched(Two().eval(), torch.randn(2, 6, D))
    view = seen.view(row=1)
    assert [m.name for m in view.maps] == ["whole"]
    module, why = view.runs[0].panels[1].cells[0]
    assert module == "windows"
    assert "6 windows where the model was given a batch of 2" in why
    with pytest.raises(RequestError, match="no row 2"):
        seen.view(row=2)


def test_latents_look_at_inputs():
    transformers = pytest.importorskip("transformers")
    config = transformers.PerceiverConfig(
        num_latents=4, d_latents=8, d_model=8, num_blocks=1, num_self_attends_per_block=1,
        num_self_attention_heads=2, num_cross_attention_heads=2,
    )  # fmt: skip
    seen = watched(transformers.PerceiverModel(config).eval(), inputs=torch.randn(2, 6, 8))
    assert [r.role for r in seen.values()] == ["cross", "self"]


def test_a_graph_without_edges_and_the_text_of_an_array():
    layer, x = Attention(score=SplitLinear(D, D)), torch.randn(T, D)
    none = torch.zeros(2, 0, dtype=torch.long)
    with regard.watch(layer) as seen:
        layer(x, x, mask=Edges.of(none, T))
    assert not seen.view().maps[0].weights.any()
    made = pytest.importorskip("torch_geometric.nn")
    seen = watched(made.GATConv(D, 3, heads=2, add_self_loops=False), x, none)
    assert seen.view().maps[0].shape == (2, T, T)
    assert "a" in regard.view(np.eye(2), rows="a b").text().plain
