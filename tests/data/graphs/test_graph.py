"""Graphs from files and from other libraries, and what is wrong with them said in one sentence."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.data.graphs.files import read
from regard.data.graphs.graph import Graph, SparseRows
from regard.errors import RequestError

DENSE = np.array([[1, 0, 3], [0, 0, 0], [0, 2, 2], [5, 0, 0]], np.float32)
ARRAYS = {
    "edge_index": np.array([[0, 1, 2], [1, 2, 0]]),
    "x": DENSE,
    "y": np.array([0, 1, 1, -1]),
    "train_idx": np.array([0]),
    "val_idx": np.array([1]),
    "test_idx": np.array([2]),
    "names": np.array(["cat", "dog"]),
}


def saved(folder, **changes):
    arrays = {k: v for k, v in {**ARRAYS, **changes}.items() if v is not None}
    np.savez(folder / "graph.npz", **arrays)
    return folder / "graph.npz"


def test_a_file_is_read_back(tmp_path):
    graph = read(saved(tmp_path))
    assert (len(graph), graph.classes, graph.name(1)) == (4, 2, "dog")
    assert graph.features.dense().tolist() == DENSE.tolist()
    assert graph.edges.tolist() == ARRAYS["edge_index"].tolist()
    assert {k: v.tolist() for k, v in graph.splits.items()} == {
        "train": [0],
        "dev": [1],
        "test": [2],
    }


def test_coordinates_in_any_order_and_masks(tmp_path):
    row, column = np.nonzero(DENSE)
    order = np.array([4, 1, 0, 3, 2])
    masks = {"train_idx": None, "train_mask": np.array([True, True, False, False])}
    graph = read(
        saved(
            tmp_path, x=None, x_row=row[order], x_col=column[order],
            x_val=DENSE[row, column][order], x_shape=np.array([4, 3]), **masks,
        )
    )  # fmt: skip
    assert graph.features.dense().tolist() == DENSE.tolist()
    assert graph.splits["train"].tolist() == [0, 1]


def test_rows_are_scaled_to_add_up_to_one():
    dense = SparseRows.of(DENSE).normalized().dense()
    assert np.allclose(dense, DENSE / np.array([[4], [1], [4], [5]]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": None}, "expected the arrays edge_index, y; y is missing"),
        ({"x": None}, "expected features as x or as x_row, x_col, x_val, x_shape"),
        ({"x": DENSE[:2]}, "expected features for each of its 4 labels, got 2 rows"),
        ({"edge_index": np.array([[0], [4]])}, "has an edge with node 4; nodes are 0 to 3"),
        ({"edge_index": np.zeros((3, 2), int)}, "expected edges (2, E), got (3, 2)"),
        ({"test_idx": np.array([3])}, "node 3 of split test has no label"),
        ({"train_idx": np.array([9])}, "split train with node 9"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path, changes, said):
    path = saved(tmp_path, **changes)
    with pytest.raises(RequestError) as caught:
        read(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY"])
def test_what_is_no_such_file_is_refused(tmp_path, content):
    (tmp_path / "graph.npz").write_bytes(content)
    with pytest.raises(RequestError, match=r"expected a \.npz file of plain arrays"):
        read(tmp_path / "graph.npz")


def test_pickles_are_not_opened(tmp_path):
    path = saved(tmp_path, names=np.array([{"a": 1}, None], object))
    with pytest.raises(RequestError, match="plain arrays"):
        read(path)


def test_a_graph_of_pytorch_geometric_by_what_it_has():
    data = SimpleNamespace(
        x=torch.from_numpy(DENSE), edge_index=torch.tensor([[0, 1], [1, 0]]),
        y=torch.tensor([0, 1, 1, 0]), train_mask=torch.tensor([True, False, False, False]),
        val_mask=torch.tensor([False, True, False, False]),
        test_mask=torch.tensor([False, False, True, True]),
    )  # fmt: skip
    graph = Graph.of(data)
    assert graph.edges.tolist() == [[0, 1], [1, 0]]
    assert graph.splits["test"].tolist() == [2, 3]
    assert graph.features.dense().tolist() == DENSE.tolist()


def test_an_undirected_networkx_graph_counts_in_both_directions():
    networkx = pytest.importorskip("networkx")
    net = networkx.Graph()
    net.add_node("a", x=[1.0, 0.0], y=0, split="train")
    net.add_node("b", x=[0.0, 1.0], y=1, split="test")
    net.add_edge("a", "b")
    net.add_edge("b", "b")
    graph = Graph.of(net)
    assert sorted(zip(*graph.edges.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 1)]
    assert graph.splits["train"].tolist() == [0]
    net = networkx.DiGraph([(0, 1)])
    assert Graph.of(net).edges.tolist() == [[0], [1]]
    assert Graph.of(net).labels.tolist() == [-1, -1]


def test_what_is_no_graph_is_refused():
    with pytest.raises(RequestError, match="got dict"):
        Graph.of({})
    graph = Graph(np.zeros((2, 0), np.int64), SparseRows.of(DENSE), np.zeros(4, np.int64), {})
    assert Graph.of(graph) is graph
