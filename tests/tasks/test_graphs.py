"""Nodes of a graph: from a file to a trained folder, and what is asked for that is not there."""

import numpy as np
import pytest
import torch

import regard
from regard import recipe, tasks, train
from regard.errors import RequestError
from regard.models.gat import GAT
from regard.tasks.graphs import Graphs


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
