"""What other libraries hand out: outputs of transformers, steps of `generate`, edges, arrays."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.errors import RequestError
from tests.viewer.views import soft

SMALL = {"vocab_size": 60, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


@pytest.fixture(scope="module")
def bart():
    made = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = made.BartConfig(
        **SMALL, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        max_position_embeddings=32, decoder_start_token_id=2, forced_eos_token_id=None,
        attn_implementation="eager",
    )  # fmt: skip
    return made.BartForConditionalGeneration(config).eval()


@pytest.fixture(scope="module")
def gpt():
    made = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = made.GPT2Config(
        **SMALL, n_embd=16, n_layer=2, n_head=2, n_positions=32, attn_implementation="eager"
    )
    return made.GPT2LMHeadModel(config).eval()


def generated(model, **more):
    with torch.no_grad():
        return model.generate(
            IDS, attention_mask=torch.ones_like(IDS), max_new_tokens=5, min_new_tokens=5,
            return_dict_in_generate=True, output_attentions=True, **more,
        )  # fmt: skip


def forward(model, **inputs):
    with torch.no_grad():
        return model(**inputs, output_attentions=True)


@pytest.mark.parametrize("form", ["object", "dict", "tuple"])
def test_an_output_in_every_form(form, bart):
    output = forward(bart, input_ids=IDS, decoder_input_ids=IDS[:, :3])
    given = {"object": lambda: output, "dict": lambda: dict(output), "tuple": output.to_tuple}
    view = regard.view(given[form](), rows="a b c", columns="w x y z", row=1)
    for kind, own in {
        "encoder": output.encoder_attentions, "decoder": output.decoder_attentions,
        "cross": output.cross_attentions,
    }.items():  # fmt: skip
        for n in (1, 2):
            assert (view[f"{kind}.{n}"].weights == own[n - 1][1].numpy()).all()
    assert view.axes[view["cross.1"].columns].pieces == list("wxyz")
    assert view.axes[view["encoder.1"].rows].pieces == list("wxyz")
    assert view.axes[view["decoder.1"].rows].pieces == list("abc")


def test_an_output_of_a_text_that_looks_at_itself(gpt):
    output = forward(gpt, input_ids=IDS)
    for given in (output, output.to_tuple(), output.attentions):
        view = regard.view(given, tokens="a b c d")
        assert (view.maps[1].weights == output.attentions[1][0].numpy()).all()
        assert len(view.axes) == 1


def test_generate_is_what_one_pass_over_all_of_it_gives(gpt):
    output = generated(gpt)
    whole = forward(gpt, input_ids=output.sequences[:, :-1])
    names = [f"t{i}" for i in range(9)]
    for tokens in (names, names[:-1]):  # the last was never read
        view = regard.view(output, tokens=tokens, row=1)
        for n in range(2):
            np.testing.assert_allclose(view.maps[n].weights, whole.attentions[n][1], atol=1e-6)
        assert view.axes[0].pieces == names[:-1]


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_generate_with_other_caches(cache, gpt):
    output = generated(gpt, cache_implementation=cache)
    whole = forward(gpt, input_ids=output.sequences[:, :-1])
    view = regard.view(output)
    np.testing.assert_allclose(view.maps[1].weights, whole.attentions[1][0], atol=1e-6)


def test_generate_of_beams_follows_the_hypothesis(bart):
    """Every sequence that was returned, against one pass over it alone."""
    output = generated(bart, num_beams=3, num_return_sequences=2)
    assert len(output.sequences) == 4
    for row, sequence in enumerate(output.sequences):
        own = sequence[None, :-1]
        whole = forward(bart, input_ids=IDS[row // 2][None], decoder_input_ids=own)
        view = regard.view(output, row=row)
        for kind, name in {
            "encoder": "encoder_attentions", "cross": "cross_attentions",
        }.items():  # fmt: skip
            np.testing.assert_allclose(view[f"{kind}.2"].weights, whole[name][1][0], atol=1e-6)
        mine = view["decoder.2"].weights
        np.testing.assert_allclose(mine, whole.decoder_attentions[1][0], atol=1e-6)
    with pytest.raises(RequestError, match="no row 4"):
        regard.view(output, row=4)


def test_steps_with_a_window_of_two():
    """What left the window is not looked at: columns are the newest."""
    steps = [(soft(1, 1, 3, 3),), (soft(1, 1, 1, 2),), (soft(1, 1, 1, 2),)]
    weights = regard.view(steps, kind="self").maps[0].weights[0]
    expected = np.zeros((5, 5), np.float32)
    expected[:3, :3] = steps[0][0][0, 0]
    expected[3, 2:4], expected[4, 3:5] = steps[1][0][0, 0, 0], steps[2][0][0, 0, 0]
    assert (weights == expected).all()
    cross = [(soft(1, 1, 1, 2),) for _ in range(4)]
    assert regard.view(cross, kind="cross").maps[0].shape == (1, 4, 2)


EDGES = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 3, 1]])


@pytest.mark.parametrize("heads", [0, 1, 3])
def test_edges_of_a_graph(heads):
    alpha = torch.rand(5, heads) if heads else torch.rand(5)
    expected = np.zeros((max(heads, 1), 4, 4), np.float32)
    for e, (source, target) in enumerate(EDGES.T.tolist()):
        expected[:, target, source] = alpha[e].numpy()
    for given in ((EDGES, alpha), (EDGES.numpy(), alpha.numpy()), (soft(4, 8), (EDGES, alpha))):
        view = regard.view(given, rows="a b c d")
        assert (view.maps[0].weights == expected).all()
    assert view.maps[0].kind == "edges"
    assert view.axes[0].kind == "nodes"
    assert view.axes[0].edges == sorted((t, s) for s, t in EDGES.T.tolist())
    two = regard.view([(EDGES, alpha), (EDGES, alpha)])
    assert [(m.name, m.layer) for m in two.maps] == [("edges.1", 1), ("edges.2", 2)]


def test_a_graph_that_was_watched(tmp_path):
    made = pytest.importorskip("torch_geometric.nn")

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = made.GATConv(6, 4, heads=2), made.GATv2Conv(8, 3)

        def forward(self, x, edges):
            return self.last(self.first(x, edges).relu(), edges)

    torch.manual_seed(0)
    model, x = Two().eval(), torch.randn(5, 6)  # no edge names node 4
    with regard.watch(model) as seen:
        model(x, EDGES)
    view = regard.view(seen, rows="a b c d e")
    assert [(m.name, m.kind, m.layer) for m in view.maps] == [
        ("first", "edges", 1), ("last", "edges", 2),
    ]  # fmt: skip
    _, own = model.first(x, EDGES, return_attention_weights=True)
    np.testing.assert_allclose(
        view["first"].weights, regard.view(own).maps[0].weights, rtol=0, atol=1e-6
    )
    assert len(view.axes) == 1
    assert (seen.view().maps[1].weights == view["last"].weights).all()
    kept = regard.viewer.read(seen.save(tmp_path / "graph.seen"))
    np.testing.assert_allclose(kept["last"].weights, view["last"].weights, atol=0.01)


def test_other_arrays():
    """JAX and xarray are met through what they have in common: these stand in for them."""
    weights = soft(2, 3, 3)

    class Packed:
        def __dlpack__(self, **options):
            return weights.__dlpack__(**options)

        def __dlpack_device__(self):
            return weights.__dlpack_device__()

    class Arrayed:
        dims = ("head", "query", "key")

        def __init__(self, values):
            self.values = values
            self.coords = {"query": SimpleNamespace(values=np.array(["a", "b", "c"]))}

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.values, dtype)

    for given in (Packed(), Arrayed(weights), torch.tensor(weights).requires_grad_()):
        assert (regard.view(given).maps[0].weights == weights).all()
    assert regard.view(Arrayed(weights)).axes[0].pieces == ["a", "b", "c"]
    low = regard.view(torch.tensor(weights).bfloat16()).maps[0].weights
    assert (low == torch.tensor(weights).bfloat16().float().numpy()).all()
    assert regard.view([[0.25, 0.75], [1.0, 0.0]]).maps[0].shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "got int"),
        ("abc", "got str"),
        ({"logits": 1.0}, "got dict with logits"),
        ({"attentions": (None, None)}, "got None for each"),
        ((), "got tuple"),
        (["a", "b"], r"got list \(str, str\)"),
        ((EDGES, torch.rand(4)), r"of 5 edges, got an array \(4, 1\)"),
        ((torch.zeros(2, 1, dtype=torch.int64) + 9000, torch.rand(1)), "room for 5000 nodes"),
        (np.array(["a", "b"]), "expected an array of numbers"),
    ],
)
def test_what_cannot_be_read_is_said(given, said):
    with pytest.raises(RequestError, match=said) as caught:
        regard.view(given)
    assert str(caught.value).count(". ") == 0
