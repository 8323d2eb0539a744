"""Models of other libraries: weights are those that they give themselves."""

import pytest
import torch

import regard
from tests.attention import foreign_cases
from tests.attention.foreign_cases import CASES, NOT_OFFERED

transformers = pytest.importorskip("transformers")
FAST = ("bert", "gpt2")


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", FAST)
def test_weights_are_the_models_own(kind, kernel):
    kernel_seen = foreign_cases.compare(CASES[kind], kernel)
    assert kernel_seen == {"eager": "pattern", "sdpa": "fused"}[kernel]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(set(CASES) - set(FAST)))
def test_weights_are_those_of_every_model(kind):
    """Under both kernels; the page has a row that says so, for the release that it names."""
    seen = [foreign_cases.outcome(CASES[kind], kernel) for kernel in ("eager", "sdpa")]
    assert seen[0] != NOT_OFFERED
    page = foreign_cases.PAGE.read_text(encoding="utf-8")
    if f"model types of {foreign_cases.release()} |" not in page:
        return  # another release may offer fused kernels for more models; the weights are equal
    rows = page.splitlines()
    assert any(r.startswith(f"| {' | '.join(seen)} |") and f"`{kind}`" in r for r in rows)


def generated(kind, kernel, **options):
    case = CASES[kind]
    auto = transformers.AutoModelForCausalLM
    if case.reads == "both":
        auto = transformers.AutoModelForSeq2SeqLM
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **case.config)
    model = auto.from_config(config, attn_implementation=kernel).eval()
    given = {k: v for k, v in foreign_cases.inputs(case, model).items() if "decoder" not in k}

    def run(**more):
        torch.manual_seed(4)
        return model.generate(
            **given, max_new_tokens=4, min_new_tokens=4, return_dict_in_generate=True,
            **options, **more,
        )  # fmt: skip

    return model, run


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gpt2", {"do_sample": True}),
        pytest.param("llama", {}, marks=pytest.mark.slow),
        pytest.param("llama", {"cache_implementation": "static"}, marks=pytest.mark.slow),
        pytest.param("bart", {"num_beams": 3}, marks=pytest.mark.slow),
        pytest.param("t5", {"num_beams": 2, "do_sample": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_generate(kind, options):
    """A step for each call, equal to what the model gives of itself; the text is the same."""
    _, run = generated(kind, "eager", **options)
    truth = run(output_attentions=True)
    model, run = generated(kind, "sdpa", **options)
    without = run()
    with regard.watch(model) as seen:
        within = run()
    assert torch.equal(without.sequences, within.sequences)
    assert torch.equal(truth.sequences, within.sequences)
    names = {"self": "attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    checked = 0
    for role, name in names.items():
        steps = truth.get(name)
        records = [r for r in seen.values() if r.role == role]
        if steps is None:
            assert not records
            continue
        for layer, record in enumerate(records):
            for mine, theirs in zip(record.steps, steps, strict=True):
                own = theirs[layer]
                rows = mine.sum(-1) > 0
                torch.testing.assert_close(mine[rows], own[rows], rtol=0, atol=1e-5)
                checked += 1
    assert checked >= 8


@pytest.mark.parametrize("kind", ["GATConv", "GATv2Conv", "TransformerConv"])
@pytest.mark.parametrize("training", [False, True])
def test_graph_attention(kind, training):
    """By node and then by neighbor, as the layer's own weights; several edges are one."""
    made = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    conv = getattr(made, kind)(6, 4, heads=2, dropout=0.5 if training else 0.0).train(training)
    x, edges = torch.randn(5, 6), torch.tensor([[0, 1, 2, 2, 3, 2], [1, 2, 0, 3, 1, 3]])
    torch.manual_seed(1)
    without = conv(x, edges)
    torch.manual_seed(1)
    with regard.watch(conv) as seen:
        within = conv(x, edges)
    assert torch.equal(without, within)
    record = seen[""]
    assert record.axes == ("head", "edge")
    assert record.role == "edge"
    pairs, own = conv.eval()(x, edges, return_attention_weights=True)[1]
    expected = torch.zeros(2, 5, 5)
    for (source, target), weights in zip(pairs.T.tolist(), own, strict=True):
        expected[:, target, source] += weights
    mine = torch.zeros(2, 5, 5)
    graph = record.edges[0]
    mine[:, graph.targets, graph.sources] = record.weights
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("flash", [False, True])
def test_x_transformers(flash):
    made = pytest.importorskip("x_transformers")
    torch.manual_seed(0)
    layers = made.Decoder(dim=16, depth=2, heads=2, attn_flash=flash)
    model = made.TransformerWrapper(num_tokens=20, max_seq_len=8, attn_layers=layers).eval()
    ids = torch.randint(0, 20, (2, 6))
    with torch.no_grad():
        without = model(ids)
        with regard.watch(model) as seen:
            within = model(ids)
        for layer in model.modules():
            if hasattr(layer, "flash"):
                layer.flash = False
        _, hidden = model(ids, return_intermediates=True)
    assert torch.equal(without, within)
    own = [i.post_softmax_attn for i in hidden.attn_intermediates]
    assert len(own) == len(seen) == 2
    for record, theirs in zip(seen.values(), own, strict=True):
        torch.testing.assert_close(record.weights, theirs, rtol=0, atol=1e-5)
