"""A graph of one's own: signed features, nodes with names, files that move, change or lie."""

import io
import json
import shutil
import zipfile

import numpy as np
import pytest

from regard import loading, recipe, train
from regard.data.graphs import files
from regard.data.graphs.graph import Graph
from regard.data.graphs.scaling import Scaling
from regard.errors import RequestError
from regard.layers.sparse import CSRMatrix
from regard.tasks.graphs.graphs import Graphs
from tests.cli.run import run

NAMES = [f"paper-{i:02}" for i in range(40)]


def write_tables(folder, *, signed=True):
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    x = random.normal(size=(40, 4)) + 2.0 * (labels[:, None] - 0.5)
    x = x if signed else np.abs(np.round(x))
    folder.mkdir()
    rows = ["id,label,split,a,b,c,d"]
    for i, values in enumerate(x.tolist()):
        split = ("train", "dev", "test", "test")[i % 4]
        rows.append(",".join([NAMES[i], f"class{labels[i]}", split, *map(repr, values)]))
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    edges = [(i, j) for i in range(40) for j in range(40) if labels[i] == labels[j] and i != j]
    kept = [edges[i] for i in random.choice(len(edges), 120, replace=False)]
    lines = [f"{NAMES[i]},{NAMES[j]}" for i, j in kept]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    return x


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model folder, the graph it was trained on by a relative path, and where that was."""
    here = tmp_path_factory.mktemp("own")
    write_tables(here / "papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        asked = ["task.graph=papers", "task.normalize=standard", "train.epochs=20"]
        train.fit(recipe.load("graphs/gat-cora", asked), here / "model", progress=False)
    return here


# -- scales


def moments(x):
    return (x - x.mean(0)) / x.std(0)


SCALES = {
    "l1": lambda x: x / np.abs(x).sum(1, keepdims=True),
    "standard": moments,
    "none": lambda x: x,
}


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("mapped", [False, True])
def test_scales_are_numpys(tmp_path, kind, mapped):
    x = write_tables(tmp_path / "papers")
    graph = files.read(tmp_path / "papers")
    if mapped:  # dense features in a file
        dense = Graph(graph.edges, x.astype(np.float32), graph.labels, graph.splits)
        files.write_folder(dense, tmp_path / "mapped")
    task = Graphs(str(tmp_path / ("mapped" if mapped else "papers")), normalize=kind)
    _, features, _ = task.world().near(np.arange(40), 0)
    found = features if not isinstance(features, CSRMatrix) else features.matmul(
        features.value, __import__("torch").eye(4)
    )  # fmt: skip
    wanted = SCALES[kind](x.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("x", "kind"),
    [([[0, 2], [1, 0]], "l1"), ([[0, -2], [1, 0]], "none"), ([[0, 0.5], [1, 0]], "none")],
)
def test_only_counts_are_divided_by_their_sum(x, kind):
    graph = Graph(np.zeros((2, 0), np.int64), np.array(x, np.float64), np.array([0, 1]), {})
    assert Scaling.of("auto", graph).kind == kind


def test_signed_features_are_left_as_they_are(tmp_path):
    x = write_tables(tmp_path / "papers")
    task = Graphs(str(tmp_path / "papers"))
    assert task.world().scaling.kind == "none"
    np.testing.assert_allclose(task.world().graph.features.dense(), x, rtol=1e-6)
    write_tables(tmp_path / "counts", signed=False)
    assert Graphs(str(tmp_path / "counts")).world().scaling.kind == "l1"
    with pytest.raises(RequestError, match=r"task\.normalize: there is no 'l2': valid: auto, l1"):
        Graphs("x", normalize="l2")


# -- nodes by name, and where the graph is


def test_nodes_have_their_names_in_and_out(trained, capsys, monkeypatch):
    monkeypatch.chdir(trained)
    ran = run(capsys, "predict", "model", "paper-07", "--json")
    assert ran.code == 0, ran.err
    assert ran.result["input"] == "paper-07"
    near = {row["node"] for layer in ran.result["looked"] for row in layer["neighbors"]}
    assert near <= set(NAMES)
    assert "paper-07" in near
    wrong = run(capsys, "predict", "model", "7", "paper-7", "--json")
    said = [json.loads(line)["refused"] for line in wrong.out.splitlines()]
    assert said[0].startswith("the graph has no node '7'; ")
    assert said[1] == "the graph has no node 'paper-7'; did you mean 'paper-37'?"
    looked = run(capsys, "look", "model", "paper-07")
    assert "node paper-07 of gat" in looked.out
    assert "paper-" in looked.out.split("layer 1", 1)[1]
    as_json = run(capsys, "look", "model", "paper-07", "--json").result
    assert as_json["node"] == "paper-07"


def test_a_text_never_opens_a_file(trained, capsys, monkeypatch, tmp_path):
    opened = []
    monkeypatch.chdir(trained)
    loaded = loading.load("model")
    loaded.predict(["paper-01"])
    monkeypatch.setattr(files, "read", opened.append)
    found = loaded.predict([f"{tmp_path}/pipe.npz:3", "papers:paper-01", "/dev/zero:0"])
    assert all(one.refused.startswith("the graph has no node") for one in found)
    assert opened == []


def test_the_graph_is_found_from_everywhere_and_known_again(trained, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(trained)
    right = run(capsys, "predict", "model", "paper-07", "paper-30", "--json").out
    config = json.loads((trained / "model" / "config.json").read_text())
    assert config["task"]["normalize"] == "standard"
    monkeypatch.chdir(tmp_path)
    model = str(trained / "model")
    assert run(capsys, "predict", model, "paper-07", "paper-30", "--json").out == right
    write_tables(tmp_path / "papers", signed=False)  # another graph of that name
    assert run(capsys, "predict", model, "paper-07", "paper-30", "--json").out == right
    moved = tmp_path / "moved"
    shutil.copytree(trained, moved)
    noted = moved / "model" / "config.json"
    noted.write_text(noted.read_text().replace(str(trained), str(tmp_path / "nowhere")))
    ran = run(capsys, "predict", str(moved / "model"), "paper-07")
    assert ran.code == 2
    assert f"{tmp_path}/papers is another now; --graph FILE says where a graph is" in ran.err
    shutil.rmtree(tmp_path / "papers")
    ran = run(capsys, "predict", str(moved / "model"), "paper-07")
    assert ran.code == 2
    assert f"it was at {tmp_path}/nowhere/papers; --graph FILE" in ran.err
    there = ["--graph", str(moved / "papers"), "--json"]
    ran = run(capsys, "predict", str(moved / "model"), "paper-07", "paper-30", *there)
    assert ran.out == right
    looked = run(capsys, "look", str(moved / "model"), "paper-07", *there)
    assert looked.code == 0, looked.err


def test_nodes_of_another_graph_are_scaled_as_the_training_s(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained)
    x = write_tables(tmp_path / "others", signed=False)
    task = loading.load("model").task.on(str(tmp_path / "others"))
    world, node = task.find("paper-03")
    assert node == 3
    own = files.read(trained / "papers").features.dense().astype(np.float64)
    wanted = (x - own.mean(0)) / own.std(0)
    np.testing.assert_allclose(world.near(np.arange(40), 0)[1], wanted, rtol=1e-4, atol=1e-5)


def test_a_folder_of_before_divides_rows_as_it_did(trained):
    spec = {"graph": str(trained / "papers")}
    assert Graphs.of_folder(spec).world().scaling.kind == "l1"
    assert Graphs.of_folder({**spec, "normalize": False}).world().scaling.kind == "none"


# -- files that lie


def good():
    return {
        "edge_index": np.array([[0, 1], [1, 2]]), "y": np.array([0, 1, 1]),
        "x": np.eye(3, dtype=np.float32), "train_idx": np.array([0]),
        "val_idx": np.array([1]), "test_idx": np.array([2]),
    }  # fmt: skip


def sparse(**changes):
    return {
        "x": None, "x_row": np.array([0, 1]), "x_col": np.array([0, 1]),
        "x_val": np.ones(2, np.float32), "x_shape": np.array([3, 3]), **changes,
    }  # fmt: skip


LIES = {
    "class": ({"y": np.array([0, 10**12, 1])}, "classes from 0 to 99,999, got 1000000000000"),
    "half a class": ({"y": np.array([0, 0.5, 1])}, "expected whole numbers in y, got 0.5"),
    "no class": ({"y": np.array([0, np.nan, 1])}, "expected whole numbers in y, got nan"),
    "text": ({"y": np.array(["a", "b", "c"])}, "expected whole numbers in y, got <U1"),
    "edge": ({"edge_index": np.array([[0], [10**9]])}, "has an edge with node 1000000000"),
    "edge below": ({"edge_index": np.array([[0], [-1]])}, "has an edge with node -1"),
    "float edge": ({"edge_index": np.array([[0.5], [1]])}, "whole numbers in edge_index, got 0.5"),
    "split": ({"test_idx": np.array([7])}, "has split test with node 7"),
    "NaN": ({"x": np.full((3, 3), np.nan)}, "node 0 has a feature that is no number: nan"),
    "infinity": ({"x": np.diag([1, np.inf, 1])}, "node 1 has a feature that is no number: inf"),
    "row": (sparse(x_row=np.array([0, 9])), "has a feature of node 9; they are 0 to 2"),
    "column": (sparse(x_col=np.array([0, -1])), "has a feature of number -1; they are 0 to 2"),
    "lengths": (sparse(x_val=np.ones(5, np.float32)), "x_row, x_col and x_val of one length"),
    "width": (sparse(x_shape=np.array([3, 10**13])), "features of a node, got 10,000,000,000,000"),
    "sparse NaN": (sparse(x_val=np.array([1, np.nan])), "node 1 has a feature that is no number"),
}


@pytest.mark.parametrize("case", LIES)
def test_arrays_that_do_not_fit_together_are_refused(capsys, tmp_path, case):
    changes, said = LIES[case]
    path = tmp_path / "graph.npz"
    np.savez(path, **{k: v for k, v in {**good(), **changes}.items() if v is not None})
    ran = run(capsys, "train", "graphs/gat-cora", f"task.graph={path}", "--dry")
    assert ran.code == 2
    assert said in ran.err
    assert str(path) in ran.err


def test_a_header_that_claims_more_than_there_is_takes_no_memory(capsys, tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, **good())
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 495_000)}
    )
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("x.npy", header.getvalue() + b"\0" * 100)
    ran = run(capsys, "train", "graphs/gat-cora", f"task.graph={path}", "--dry")
    assert ran.code == 2
    assert "x.npy says that it is (1000000, 495000) of float64, 3,960,000,000,000 bytes" in ran.err


def test_mapped_edges_that_lead_nowhere_are_refused(tmp_path):
    np.savez(tmp_path / "graph.npz", **good())
    files.write_folder(files.read(tmp_path / "graph.npz"), tmp_path / "mapped")
    for name, array, said in (
        ("sources", [0, 10**9], "has an edge with node 1000000000"),
        ("sources", [0, -1], "has an edge with node -1"),
        ("offsets", [0, 0, 1, 9], "offsets that rise from 0 to its 2 edges"),
        ("offsets", [0, 2, 1, 2], "offsets that rise from 0"),
    ):
        kept = (tmp_path / "mapped" / f"{name}.npy").read_bytes()
        np.save(tmp_path / "mapped" / f"{name}.npy", np.array(array))
        with pytest.raises(RequestError, match=said):
            files.read(tmp_path / "mapped")
        (tmp_path / "mapped" / f"{name}.npy").write_bytes(kept)
    files.read(tmp_path / "mapped")
