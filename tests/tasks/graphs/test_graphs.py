"""Nodes of a graph: from a file to a trained folder, and what is asked for that is not there."""

import numpy as np
import pytest
import torch

import regard
from regard import recipe, tasks, train
from regard.errors import RequestError
from regard.models.gat import GAT
from regard.tasks.graphs.graphs import Graphs


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two clusters of twenty nodes; features say nothing but of a few nodes."""
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    pairs = [
        (i, j)
        for i in range(40)
        for j in range(40)
        if i != j and random.random() < (0.4 if labels[i] == labels[j] else 0.02)
    ]
    x = random.random((40, 6)) < 0.2
    x[:, 0] = (labels == 0) & (random.random(40) < 0.4)
    x[:, 1] = (labels == 1) & (random.random(40) < 0.4)
    path = tmp_path_factory.mktemp("graph") / "clusters.npz"
    order = random.permutation(40)
    np.savez(
        path, edge_index=np.array(pairs).T, x=x.astype(np.float32), y=labels,
        train_idx=order[:10], val_idx=order[10:20], test_idx=order[20:], names=["cat", "dog"],
    )  # fmt: skip
    return str(path)


@pytest.fixture(scope="module")
def folder(file, tmp_path_factory):
    path = tmp_path_factory.mktemp("gat")
    asked = [
        f"task.graph={file}",
        "train.epochs=60",
        "model.dropout=0",
        "model.attention_dropout=0",
    ]
    train.fit(recipe.load("graphs/gat-cora", asked), path, progress=False)
    return path


def test_a_trained_folder_tells_nodes_it_was_not_taught(folder):
    loaded = regard.load(folder)
    assert loaded.tokenizers == {}
    found = loaded.predict(["3", "25"])
    assert [p.output for p in found] == ["cat", "dog"]
    total = np.exp(found[0].score) + sum(np.exp(o.score) for o in found[0].alternatives)
    assert total == pytest.approx(1)


def test_what_is_no_node_is_refused_and_the_rest_answered(folder):
    found = regard.load(folder).predict(["40", "dog", "0", "-1"])
    assert [bool(p.refused) for p in found] == [True, True, False, True]
    assert "nodes 0 to 39, not 40" in found[0].refused


def test_the_loss_is_that_of_the_nodes_asked_about(file):
    task = Graphs(file)
    data = task.data({})
    torch.manual_seed(0)
    model = GAT(**data.sizes).eval()
    batch = data.train.collate([2, 0])
    loss, count = task.loss(model, batch)
    world = data.train.world
    logits = model(world.features, world.edges).logits
    nodes = data.train.index[[0, 2]]
    right = torch.nn.functional.cross_entropy(
        logits[nodes], torch.as_tensor(world.graph.labels[nodes]), reduction="sum"
    )
    assert (loss.item(), count) == (pytest.approx(right.item()), 2)


def test_the_score_counts_right_nodes(file):
    task = Graphs(file)
    data = task.data({})
    torch.manual_seed(0)
    found = task.predict(GAT(**data.sizes).eval(), data.test, None, {})
    right = sum(p.output == r[0] for p, r in zip(found, data.test.references, strict=True))
    assert task.score(found, data.test)["accuracy"].value == pytest.approx(100 * right / 20)


def test_what_the_section_data_does_not_have_is_said(file):
    with pytest.raises(RequestError, match="graphs have no 'columns'"):
        Graphs(file).data({"columns": {}})
    with pytest.raises(RequestError, match="there is no data at"):
        Graphs("none.npz").data({})


def test_the_catalogue_of_tasks_has_it():
    assert tasks.load("graphs") is Graphs


def test_one_pass_gives_the_loss_and_scores_of_predicting(file):
    task = Graphs(file)
    data = task.data({})
    torch.manual_seed(0)
    model = GAT(**data.sizes).eval()
    some = data.dev.subset([1, 4, 7])
    total, count, scores = task.judge(
        model, data.dev, some, None, {}, tokens=3, device=torch.device("cpu")
    )
    loss, _ = task.loss(model, data.dev.collate(range(10)))
    right = task.score(task.predict(model, some, None, {}), some)
    assert (total, count) == (pytest.approx(loss.item()), 10)
    assert scores == {"accuracy": pytest.approx(right["accuracy"].value)}


def test_where_a_node_looked_comes_with_its_neighbors(folder, file):
    loaded = regard.load(folder)
    (found,) = loaded.predict(["3"])
    pairs = np.load(file)["edge_index"]
    near = {3, *pairs[0, pairs[1] == 3].tolist()}
    said = found.as_json()["looked"]
    assert [layer["attention"] for layer in said] == ["hidden.0.attention", "out.attention"]
    for layer in said:
        assert {row["node"] for row in layer["neighbors"]} == near
        assert sum(row["weight"] for row in layer["neighbors"]) == pytest.approx(1, abs=1e-3)


def test_nodes_of_graphs_never_seen_and_of_other_files(file, tmp_path):
    other = tmp_path / "other.npz"
    arrays = dict(np.load(file))
    np.savez(other, **arrays)
    task = Graphs({"train": file, "dev": str(other), "test": [str(other)]})
    data = task.data({})
    assert (len(data.train), data.train.count([0]), len(data.dev)) == (1, 40, 40)
    torch.manual_seed(0)
    model = GAT(**data.sizes).eval()
    alone = Graphs(str(other)).predict(model, ["7"], None, {})[0]
    named = task.predict(model, [f"{other}:7", "47", "none.npz:1"], None, {})
    assert named[0].score == pytest.approx(alone.score)
    assert "expected the number of a node" in named[2].refused


def test_nodes_of_several_classes(file, tmp_path):
    path = tmp_path / "several.npz"
    arrays = dict(np.load(file))
    y = np.eye(2)[arrays["y"]]
    y[:5] = [[1, 1], [0, 0], [1, 0], [0, 1], [1, 1]]
    np.savez(path, **{**arrays, "y": y})
    task = Graphs(str(path))
    data = task.data({})
    torch.manual_seed(0)
    model = GAT(**data.sizes).eval()
    batch = data.test.collate(range(20))
    logits = batch.logits(model).double().detach().numpy()
    true = y[data.test.index]
    probability = 1 / (1 + np.exp(-logits))
    by_hand = -(true * np.log(probability) + (1 - true) * np.log(1 - probability)).mean(1).sum()
    assert task.loss(model, batch)[0].item() == pytest.approx(by_hand, rel=1e-5)
    said = logits > 0
    right, wrong = (said & (true > 0)).sum(), (said != (true > 0)).sum()
    found = task.score(task.predict(model, data.test, None, {}), data.test)
    assert found["micro_f1"].value == pytest.approx(200 * right / (2 * right + wrong))
    judged = task.judge(
        model, data.test, data.test, None, {}, tokens=99, device=torch.device("cpu")
    )[2]
    assert judged == {name: pytest.approx(score.value) for name, score in found.items()}


def test_drawn_neighbors_follow_the_seed(file):
    data = Graphs(file, neighbors=[2, 2]).data({})
    torch.manual_seed(0)
    model = GAT(**data.sizes, dropout=0.0, attention_dropout=0.0)
    batch = data.train.collate(range(10))
    drawn = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        drawn.append(batch.logits(model))
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])


def test_what_a_node_looked_at_is_shown(folder, tmp_path):
    from regard.viewer import drawable

    loaded = regard.load(folder)
    made = drawable(loaded.task.view(loaded, ["3"]))
    told = made.text(colour=False).plain
    assert "layer 2 of 2 (out.attention)" in told
    assert " itself" in told
    made.page(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    with pytest.raises(RequestError, match="nodes 0 to 39, not 77"):
        loaded.task.view(loaded, ["77"])
