"""Graph attention and graph convolution: the equations in NumPy, sizes, and what they learn."""

import importlib.util

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import catalog, watch
from regard.attention import Edges, LeakyAdditive, SplitLinear, explain
from regard.data.graphs.neighbors import Compressed
from regard.errors import RequestError
from regard.layers.sparse import CSRMatrix
from regard.models.gat import GAT
from regard.models.gcn import GCN

NODES, FEATURES, CLASSES = 7, 5, 3
PAIRS = torch.tensor([[1, 2, 0, 4, 4, 5], [0, 0, 2, 1, 3, 4]])  # node 6 is alone
EDGES = Edges.of(PAIRS, NODES, loops=True)


def features(seed=0):
    return torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(seed)).double()


def tiny(name, **changes):
    torch.manual_seed(2)
    entry = catalog.entry(name)
    model = catalog.load(name)(FEATURES, CLASSES, **{**entry.tiny, **changes}).double().eval()
    for parameter in model.parameters():  # biases start at zero: let them matter
        torch.nn.init.normal_(parameter)
    return model


def layer_by_hand(layer, x, read=1.0):
    """Equations 1 to 6, a node and a head at a time; `read` times the values are read."""
    weight = layer.project.weight.detach().numpy()
    left, right = (
        p.detach().numpy() for p in (layer.attention.score.query, layer.attention.score.key)
    )
    heads, size = left.shape
    h = (x @ weight).reshape(len(x), heads, size)
    out = np.zeros((len(x), heads, size))
    for i in range(len(x)):
        near = EDGES.sources[EDGES.offsets[i] : EDGES.offsets[i + 1]].tolist()
        for k in range(heads):
            e = np.array([left[k] @ h[i, k] + right[k] @ h[j, k] for j in near])
            e = np.where(e > 0, e, 0.2 * e)
            a = np.exp(e - e.max()) / np.exp(e - e.max()).sum()
            out[i, k] = sum(w * read * h[j, k] for w, j in zip(a, near, strict=True))
    flat = out.mean(1) if layer.average else out.reshape(len(x), -1)
    if layer.skip is not None:  # before the activation
        flat = flat + x @ layer.skip.weight.detach().numpy().T + layer.skip.bias.detach().numpy()
    return flat + layer.bias.detach().numpy()


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


@pytest.mark.parametrize("skip", [False, True])
def test_gat_is_the_papers(skip):
    model, x = tiny("gat", layers=3, output_heads=2, skip=skip), features()
    h = elu(layer_by_hand(model.hidden[0], x.numpy()))
    g = elu(layer_by_hand(model.hidden[1], h))
    right = layer_by_hand(model.out, g)
    assert [layer.skip is not None for layer in (*model.hidden, model.out)] == [False, skip, False]
    assert np.allclose(model(x, EDGES).logits.detach().numpy(), right, atol=1e-10)


@pytest.mark.parametrize("skip", [False, True])
def test_dropped_features_are_read_and_clean_ones_scored(skip, monkeypatch):
    """As the authors' code: a factor of 1/2 in dropout's place shows where it stands."""

    def halve(x, p, training=True):
        return x * 0.5 if training else x

    monkeypatch.setattr("regard.models.gat.dropout", halve)
    monkeypatch.setattr("regard.layers.sparse.dropout", halve)
    model, x = tiny("gat", layers=3, output_heads=2, skip=skip, dropout=0.6).train(), features()
    with watch(model) as seen:
        found = model(x, EDGES).logits
    h = elu(layer_by_hand(model.hidden[0], 0.5 * x.numpy(), read=0.5))
    g = elu(layer_by_hand(model.hidden[1], 0.5 * h, read=0.5))
    right = layer_by_hand(model.out, 0.5 * g, read=0.5)
    assert np.allclose(found.detach().numpy(), right, atol=1e-10)
    # Dropping weights changes nothing of what is scored either.
    torch.manual_seed(3)
    dropped = tiny("gat", layers=3, output_heads=2, skip=skip, dropout=0.6, attention_dropout=0.6)
    with watch(dropped.train()) as with_it:
        other = dropped(x, EDGES).logits
    assert not torch.allclose(other, found)
    one, two = (kept["hidden.0.attention"].steps[0] for kept in (seen, with_it))
    assert torch.equal(one, two)


def test_uniform_is_the_mean_of_the_neighbors():
    model, x = tiny("gat", layers=1, output_heads=1, score="uniform"), features()
    adjacency = EDGES.dense(NODES, NODES, at=0, device=x.device).double()
    right = adjacency / adjacency.sum(1, keepdim=True) @ x @ model.out.project.weight
    assert torch.allclose(model(x, EDGES).logits, right + model.out.bias)


def test_gcn_is_the_papers():
    model, x = tiny("gcn"), features()
    adjacency = EDGES.dense(NODES, NODES, at=0, device=x.device).double()
    root = adjacency.sum(1).rsqrt()
    norm = root[:, None] * adjacency * root
    h = torch.relu(norm @ x @ model.projections[0].weight + model.biases[0])
    right = norm @ h @ model.projections[1].weight + model.biases[1]
    assert torch.allclose(model(x, EDGES).logits, right, atol=1e-6)  # degrees are kept in fp32


@pytest.mark.parametrize("name", ["gat", "gcn"])
def test_renamed_nodes_get_the_same_scores(name):
    model, x = tiny(name), features()
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    place = torch.empty_like(order)
    place[order] = torch.arange(NODES)
    renamed = Edges.of(place[PAIRS], NODES, loops=True)
    assert torch.allclose(model(x[order], renamed).logits, model(x, EDGES).logits[order])


@pytest.mark.parametrize("name", ["gat", "gcn"])
def test_a_node_without_neighbors_or_loop_reads_nothing_and_trains(name):
    model, x = tiny(name), features().requires_grad_()
    bare = Edges.of(PAIRS, NODES)
    logits = model(x, bare).logits
    assert torch.isfinite(logits).all()
    logits.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(
    ("settings", "sizes", "count"),
    [
        ({}, (1433, 7), 92_373),
        ({}, (3703, 6), 237_586),
        ({"output_heads": 8}, (500, 3), 33_779),
        ({"hidden": 256, "heads": 4, "layers": 3, "output_heads": 6}, (50, 121), None),
    ],
)
def test_parameters_are_as_many_as_published(settings, sizes, count):
    found = sum(p.numel() for p in GAT(*sizes, **settings).parameters())
    if count is None:  # PPI; its output bias is one for all heads: 5 * 121 fewer than one for each
        count = 54_272 + 1_051_648 + 745_602 - 5 * 121
    assert found == count


def test_weights_of_all_layers_come_with_their_edges():
    model, x = tiny("gat"), features()
    with watch(model) as seen:
        model(x, EDGES)
    (weights,) = seen["hidden.0.attention"].steps
    assert weights.shape == (2, len(EDGES))
    totals = torch.zeros(2, NODES).double().index_add_(1, EDGES.targets, weights.double())
    assert torch.allclose(totals, torch.ones_like(totals))


def test_explain_reckons_with_the_edges():
    for found in explain(GAT(5, 3)).values():
        assert found.kernel in ("edges", "segment")


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(RequestError, match="a hidden size for each of its 2 hidden layers"):
        GAT(5, 3, layers=3, hidden=[8])
    with pytest.raises(RequestError, match=r"no score 'unifrom'.*did you mean 'uniform'"):
        GAT(5, 3, score="unifrom")


def test_the_skip_connection_of_the_paper_is_a_projection_with_a_bias():
    settings = {"hidden": 256, "heads": 4, "layers": 3, "output_heads": 6}
    with torch.device("meta"):
        plain, skip = (
            sum(p.numel() for p in GAT(50, 121, **settings, skip=given).parameters())
            for given in (False, True)
        )
    assert skip - plain == 1024 * 1024 + 1024
    assert GAT(5, 3, layers=3, hidden=[8, 4], heads=2, skip=True).hidden[1].skip.out_features == 8


def flagged(seed):
    """600 nodes with 8 neighbors, one of them flagged: the label is the flagged one's class."""
    random = np.random.default_rng(seed)
    nodes, near, classes = 600, 8, 4
    own = random.integers(0, classes, nodes)
    flag = np.zeros(nodes, bool)
    flag[: nodes // 4] = True
    pairs, labels = [], np.zeros(nodes, int)
    for i in range(nodes):
        others = random.choice(np.flatnonzero(~flag), near - 1, replace=False)
        one = random.choice(np.flatnonzero(flag))
        pairs += [(j, i) for j in (*others, one)]
        labels[i] = own[one]
    x = np.concatenate([np.eye(classes)[own], flag[:, None]], 1).astype(np.float32)
    return torch.tensor(pairs).T, torch.from_numpy(x), torch.from_numpy(labels)


@pytest.mark.parametrize(
    ("score", "low", "high"), [("split-linear", 0.99, 1.0), ("uniform", 0.2, 0.6)]
)
def test_attention_finds_the_flagged_neighbor_and_a_mean_does_not(score, low, high):
    pairs, x, labels = flagged(0)
    edges = Edges.of(pairs, len(x))
    torch.manual_seed(0)
    model = GAT(5, 4, layers=1, output_heads=2, dropout=0.0, attention_dropout=0.0, score=score)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(x, edges).logits[:400], labels[:400]).backward()
        optimizer.step()
    right = (model(x, edges).logits[400:].argmax(-1) == labels[400:]).float().mean().item()
    assert low <= right <= high


def test_gcn_has_the_sizes_asked_for():
    model = GCN(1433, 7)
    assert sum(p.numel() for p in model.parameters()) == 1433 * 16 + 16 + 16 * 7 + 7


@pytest.mark.parametrize("name", ["gat", "gcn"])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_the_answers_depend_on_gives_the_answers_of_the_whole_graph(name, sparse):
    model, x = tiny(name, layers=3), features()
    whole = model(x, EDGES).logits
    asked = np.array([4, 0, 6])
    near, hops = Compressed.of(PAIRS.numpy(), NODES).k_hop_subgraph(asked, 3)
    assert hops.layers[2].queries == 3 < hops.layers[1].queries  # less and less is computed
    read = x[near]
    if sparse:
        row, column = read.nonzero(as_tuple=True)
        read = CSRMatrix(row, column, read[row, column], tuple(read.shape))
    assert torch.allclose(model(read, hops).logits, whole[asked], atol=1e-6)


def test_skip_projects_what_the_same_nodes_had():
    model, x = tiny("gat", layers=3, skip=True), features()
    near, hops = Compressed.of(PAIRS.numpy(), NODES).k_hop_subgraph(np.array([3]), 3)
    assert torch.allclose(model(x[near], hops).logits, model(x, EDGES).logits[[3]])


@pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None,
    reason="PyTorch Geometric is not installed (pip install torch_geometric)",
)
@pytest.mark.filterwarnings("ignore")
def test_the_model_is_pytorch_geometrics_with_its_weights_copied():
    """Two layers of GATConv, heads side by side and then averaged; logits and weights of edges."""
    from torch_geometric.nn import GATConv

    torch.manual_seed(0)
    x, pairs = torch.randn(50, 12), torch.unique(torch.randint(50, (2, 300)), dim=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    theirs = [GATConv(12, 8, heads=4), GATConv(32, 5, heads=3, concat=False)]
    model = GAT(12, 5, heads=4, output_heads=3).eval()
    for ours, layer in zip([model.hidden[0], model.out], theirs, strict=True):
        torch.nn.init.normal_(layer.bias)
        with torch.no_grad():
            ours.project.weight.copy_(layer.lin.weight.T)
            ours.attention.score.key.copy_(layer.att_src[0])
            ours.attention.score.query.copy_(layer.att_dst[0])
            ours.bias.copy_(layer.bias)
    edges = Edges.of(pairs, 50, loops=True)
    with watch(model) as seen:
        logits = model(x, edges).logits
    h, (index, weights) = theirs[0](x, pairs, return_attention_weights=True)
    assert (theirs[1](F.elu(h), pairs) - logits).abs().max() < 1e-5
    order = np.lexsort((index[0], index[1]))  # as ours: by who looks, then by what is looked at
    assert torch.equal(index[1][order], edges.targets)
    assert torch.equal(index[0][order], edges.sources)
    ours = seen["hidden.0.attention"].weights
    assert torch.allclose(ours, weights[order].T, atol=1e-6)


@pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None,
    reason="PyTorch Geometric is not installed (pip install torch_geometric)",
)
@pytest.mark.filterwarnings("ignore")
def test_dynamic_scores_are_those_of_gatv2():
    """Two layers of GATv2Conv with their weights copied: logits, and gradients of the scores."""
    from torch_geometric.nn import GATv2Conv

    torch.manual_seed(0)
    x, pairs = torch.randn(50, 12), torch.unique(torch.randint(50, (2, 300)), dim=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    theirs = [
        GATv2Conv(12, 8, heads=4, residual=False),
        GATv2Conv(32, 5, heads=3, concat=False, residual=False),
    ]
    model = GAT(12, 5, heads=4, output_heads=3, score="dynamic").eval()
    for ours, layer in zip([model.hidden[0], model.out], theirs, strict=True):
        torch.nn.init.normal_(layer.bias)
        with torch.no_grad():
            layer.lin_l.bias.zero_()
            layer.lin_r.bias.zero_()
            ours.project.weight.copy_(layer.lin_l.weight.T)
            ours.look.weight.copy_(layer.lin_r.weight.T)
            ours.attention.score.v.copy_(layer.att[0])
            ours.bias.copy_(layer.bias)
    logits = model(x, Edges.of(pairs, 50, loops=True)).logits
    expected = theirs[1](F.elu(theirs[0](x, pairs)), pairs)
    assert (expected - logits).abs().max() < 1e-5
    logits.square().sum().backward()
    expected.square().sum().backward()
    for ours, layer in zip([model.hidden[0], model.out], theirs, strict=True):
        for own, other in (
            (ours.project.weight.grad, layer.lin_l.weight.grad.T),
            (ours.look.weight.grad, layer.lin_r.weight.grad.T),
            (ours.attention.score.v.grad, layer.att.grad[0]),
        ):
            torch.testing.assert_close(own, other, atol=1e-3, rtol=1e-4)


def test_dynamic_scores_prefer_other_keys_for_other_queries():
    """What SplitLinear cannot (Brody et al. 2022, theorem 1): each query its own best key."""
    score = LeakyAdditive(2, slope=0.0)
    with torch.no_grad():
        score.v.copy_(torch.tensor([1.0, 1.0]))
    x = 4 * torch.eye(2) - 2
    best = score(-x, score.prepare(x)).argmax(-1)
    assert best.tolist() == [1, 0]
    split = SplitLinear(2, 2)
    assert split(-x, split.prepare(x)).argmax(-1).unique().numel() == 1


@pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None,
    reason="PyTorch Geometric is not installed (pip install torch_geometric)",
)
def test_batches_of_pytorch_geometrics_loaders_train_it():
    """The loop of docs/howto/graphs.md: neighbors tend to be of one class."""
    from torch_geometric.data import Data
    from torch_geometric.loader import RandomNodeLoader

    torch.manual_seed(0)
    y = torch.randint(3, (240,))
    pairs = torch.randint(240, (2, 6000))
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (torch.rand(6000) < 0.1)]
    features = torch.eye(3)[y] + torch.randn(240, 3)
    loader = RandomNodeLoader(Data(x=features, edge_index=pairs, y=y), num_parts=3, shuffle=True)
    model = GAT(3, 3, hidden=8, heads=2, dropout=0.0, attention_dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(40):
        for batch in loader:
            logits = model(batch.x, Edges.of(batch.edge_index, batch.num_nodes, loops=True)).logits
            loss = torch.nn.functional.cross_entropy(logits, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert losses[0] > 0.8  # about log 3
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])
