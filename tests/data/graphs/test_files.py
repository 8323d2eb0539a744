"""Graphs in folders, what is wrong with them by file and line, and neighborhoods."""

import importlib.util
import json

import numpy as np
import pytest

from regard.data.graphs.files import read, write_folder
from regard.data.graphs.graph import Graph, SparseRows
from regard.data.graphs.neighbors import Compressed
from regard.errors import RequestError

EDGES = "source,target\na,b\na,b\nc,c\n"
NODES = "id,label,split,w,v\na,dog,train,1,0\nb,cat,val,0,2.5\nc,,,,\nd,cat,test,1,1\n"


def tables(folder, edges=EDGES, nodes=NODES):
    (folder / "edges.csv").write_text(edges)
    (folder / "nodes.csv").write_text(nodes)
    return folder


def test_tables_with_a_loop_a_duplicate_and_an_isolated_node(tmp_path):
    graph = read(tables(tmp_path))
    assert graph.rows.pairs().tolist() == [[0, 2], [1, 2]]  # the duplicate counts once
    assert graph.labels.tolist() == [1, 0, -1, 0]
    assert (graph.names, graph.told(0), graph.told(2)) == (("cat", "dog"), "dog", "")
    assert graph.features.dense().tolist() == [[1, 0], [0, 2.5], [0, 0], [1, 1]]
    assert {k: v.tolist() for k, v in graph.splits.items()} == {
        "train": [0], "dev": [1], "test": [3]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("edges", "nodes", "said"),
    [
        ("source,target\na,z\n", NODES, "edges.csv, line 2: the target 'z' is no node"),
        ("source,target\na,b\na\n", NODES, "edges.csv, line 3: expected 2 columns"),
        ("from,to\na,b\n", NODES, "edges.csv: expected a column 'source'; its columns are from"),
        (EDGES, "id,w\na,1\na,2\n", "nodes.csv, line 3: the node 'a' is there twice"),
        (EDGES, "id,w\na,x\nb,1\nc,1\n", "line 2: the feature 'w' expected a number, got 'x'"),
        (EDGES, "id,w\na,nan\nb,1\nc,1\n", "expected a number, got 'nan'"),
        (EDGES, "id,split\na,no\nb,\nc,\n", "line 2: expected a split train, dev, test or none"),
        (EDGES, "", "nodes.csv: expected a column 'id'; its columns are none"),
    ],
)
def test_what_is_wrong_in_tables_is_said_with_file_and_line(tmp_path, edges, nodes, said):
    with pytest.raises(RequestError) as caught:
        read(tables(tmp_path, edges, nodes))
    assert said in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_parquet_without_pyarrow_is_said(tmp_path):
    (tmp_path / "edges.parquet").write_bytes(b"PAR1")
    with pytest.raises(RequestError, match="needs pyarrow"):
        read(tmp_path)


def test_a_folder_that_is_no_graph_is_said(tmp_path):
    with pytest.raises(RequestError, match=r"expected a graph's files \(with offsets\.npy"):
        read(tmp_path)


def some(seed=0, nodes=30, edges=200):
    random = np.random.default_rng(seed)
    x = random.random((nodes, 4)).astype(np.float32)
    y = random.integers(0, 3, nodes)
    splits = {"train": np.arange(5), "test": np.arange(5, 9)}
    return Graph(
        random.integers(0, nodes, (2, edges)), SparseRows.of(x), y, splits, ("a", "b", "c")
    )


@pytest.mark.parametrize("dense", [False, True])
def test_mapped_arrays_are_the_graph(tmp_path, dense):
    graph = some()
    x = graph.features.dense()
    if dense:
        graph = Graph(graph.edges, x, graph.labels, graph.splits, graph.names)
    write_folder(graph, tmp_path)
    back = read(tmp_path)
    assert isinstance(back.rows.sources, np.memmap)
    assert np.array_equal(back.rows.pairs(), graph.rows.pairs())
    assert np.array_equal(back.features if dense else back.features.dense(), x)
    assert (back.names, back.splits["test"].tolist()) == (graph.names, [5, 6, 7, 8])


def test_the_format_of_ppi(tmp_path):
    links = {"train": [(0, 1), (2, 3)], "test": [(0, 1)]}
    for split, ends in links.items():
        nodes = 2 * len(ends)
        told = {"directed": False, "links": [{"source": a, "target": b} for a, b in ends]}
        (tmp_path / f"{split}_graph.json").write_text(json.dumps(told))
        np.save(tmp_path / f"{split}_feats.npy", np.eye(nodes, 5))
        np.save(tmp_path / f"{split}_labels.npy", np.ones((nodes, 3), int))
        np.save(tmp_path / f"{split}_graph_id.npy", np.repeat(np.arange(len(ends)), 2))
    graph = read(tmp_path)
    assert graph.several
    assert (list(graph.starts), graph.classes) == ([0, 2, 4], 3)
    assert sorted(zip(*graph.rows.pairs().tolist(), strict=True)) == [
        (0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4)
    ]  # fmt: skip
    assert graph.splits["train"].tolist() == [0, 1, 2, 3]
    assert graph.splits["test"].tolist() == [4, 5]


def test_joined_graphs_lie_behind_each_other():
    one, two = some(0), some(1, nodes=20)
    both = Graph.join([one, two], ["one", "two"])
    dense = np.zeros((50, 50), bool)
    dense[tuple(one.edges[::-1])] = True
    dense[tuple(two.edges[::-1] + 30)] = True
    assert np.array_equal(np.stack(np.nonzero(dense))[::-1], both.rows.pairs())
    assert both.splits["train"].tolist() == [*range(5), *range(30, 35)]
    wide = Graph(two.edges, SparseRows.of(np.ones((20, 9))), two.labels, {})
    with pytest.raises(RequestError, match="joined when features and labels are alike"):
        Graph.join([one, wide])


def test_drawn_neighbors_are_some_of_them_each_once_and_all_where_few():
    rows = some(edges=400).rows
    true = {i: set() for i in range(30)}
    for source, target in rows.pairs().T.tolist():
        true[target].add(source)
    read_, hops = rows.k_hop_subgraph(np.array([3, 8]), 2, loops=False, fanout=[4, 2],
                            random=np.random.default_rng(0))  # fmt: skip
    for layer, most in zip(hops.layers, [2, 4], strict=True):  # the last layer's first
        for query in range(layer.queries):
            first, end = layer.offsets[query : query + 2].tolist()
            drawn = read_[layer.sources[first:end].numpy()].tolist()
            near = true[int(read_[query])]
            assert len(set(drawn)) == len(drawn) == min(most, len(near))
            assert set(drawn) <= near
    with pytest.raises(RequestError, match="for each of the 2 layers"):
        rows.k_hop_subgraph(np.array([0]), 2, fanout=[3])


def test_every_neighbor_is_drawn_as_often_as_the_others():
    rows = Compressed.of(np.stack([np.arange(1, 11), np.zeros(10, int)]), 11)
    random, counts = np.random.default_rng(0), np.zeros(11)
    for _ in range(2000):
        counts[rows.neighbors(np.array([0]), 3, random)[1]] += 1
    assert np.abs(counts[1:] / 2000 - 0.3).max() < 0.05  # five standard deviations


def test_degrees_count_the_loop_once():
    rows = Compressed.of(np.array([[0, 1, 1], [0, 0, 2]]), 3)
    read_, hops = rows.k_hop_subgraph(np.array([0, 1, 2]), 1)
    assert read_.tolist() == [0, 1, 2]
    assert hops.degrees.tolist() == [2, 1, 2]
