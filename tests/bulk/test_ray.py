"""The engine `ray` on a cluster of two nodes, which are processes on this machine."""

import json
import sys

import pytest

from regard.bulk import Order, predict_shards
from regard.errors import RequestError
from regard.system import processes
from regard.system.extras import install
from tests.bulk.test_processes import corpus_of
from tests.bulk.toys import bytes_of
from tests.cli.run import run
from tests.cli.toy import folder
from tests.train.runs import recipe

__all__ = ["folder"]


def test_without_ray_one_sentence(capsys, folder, tmp_path, monkeypatch):
    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(processes, "import_module", none)
    (tmp_path / "a.txt").write_text("die Datei\n")
    ran = run(capsys, "predict", folder, "-i", f"{tmp_path}/a.txt", "-o", f"{tmp_path}/o",
              "--engine", "ray")  # fmt: skip
    assert ran.code == 2
    assert ran.err == f"regard: --engine ray needs ray: {install('ray')}\n"


def test_a_folder_called_ray_is_none(tmp_path, monkeypatch):
    (tmp_path / "ray").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # where ray is installed it would be found
    try:
        with pytest.raises(RequestError, match="needs ray: pip install"), processes.cluster():
            pass
    finally:  # the next test would find the folder
        sys.modules.pop("ray", None)


def test_ray_has_processes(folder, tmp_path):
    (tmp_path / "a.txt").write_text("die Datei\n")
    with pytest.raises(RequestError, match="ray needs 1 or more"):
        predict_shards(Order(folder), str(tmp_path), tmp_path / "o", engine="ray", workers=0)


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster with room for one process on each of two nodes."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert len([node for node in ray.nodes() if node["Alive"]]) == 2
        yield ray
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.nohook
def test_two_nodes_give_the_same_bytes_as_one_process(two_nodes, folder, tmp_path):
    corpus = corpus_of(tmp_path / "corpus", 8, 200)
    predict_shards(Order(folder), str(corpus), tmp_path / "whole", workers=0)
    expected = bytes_of(tmp_path / "whole")
    (corpus / "damaged.txt.gz").write_bytes(b"\x1f\x8b no")
    asked = {"engine": "ray", "workers": 2}
    summary = predict_shards(Order(folder), str(corpus), tmp_path / "o", **asked)
    assert (summary.made, summary.lines) == (8, 1600)
    assert summary.failed.keys() == {"damaged.txt.gz"}
    assert bytes_of(tmp_path / "o") == expected
    assert len(processes_of(tmp_path / "o")) == 2  # a node has room for one
    again = predict_shards(Order(folder), str(corpus), tmp_path / "o", **asked)
    assert (again.made, again.there) == (0, 8)
    with pytest.raises(RequestError, match="bean"):
        predict_shards(Order(folder, changes=("bean=1",)), str(corpus), tmp_path / "p", **asked)


def processes_of(out):
    """Which have made the shards, as the notes say."""
    return {json.loads(path.read_text())["process"] for path in (out / ".bulk").glob("*.json")}


@pytest.mark.slow
@pytest.mark.nohook
def test_a_search_on_two_nodes_trains_what_one_process_does(two_nodes, capsys, tmp_path):
    path = str(recipe(tmp_path, steps=12, validate=6, checkpoint=6))
    words = ["compare", path, "--vary", "train.clip=0.5,1.0", "--seeds", "1-2", "--json"]
    words += ["--samples", "10"]
    there = run(capsys, *words, "-o", f"{tmp_path}/there", "--engine", "ray")
    here = run(capsys, *words, "-o", f"{tmp_path}/here")
    assert there.code == here.code == 0, there.err
    assert "trained, 4 of 4" in there.err
    found, expected = ({str(p.relative_to(tmp_path / side)): p.read_bytes()
                        for p in (tmp_path / side).rglob("model.safetensors")}
                       for side in ("there", "here"))  # fmt: skip
    assert len(found) == 4
    assert found == expected
    assert len(set(found.values())) == 4
    wrong = run(capsys, "compare", path, "train.clip=-1", "-o", f"{tmp_path}/w", "--engine", "ray")
    assert wrong.code == 2
