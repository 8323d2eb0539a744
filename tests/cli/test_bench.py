"""`regard bench`: its rows, what it prints and writes; nothing is timed for its speed."""

import json
from dataclasses import replace

import pytest
import torch

from regard import native
from regard.cli import bench
from tests.cli.run import run

kernels = bench.program("kernels")
measure = bench.program("measure")
worker = bench.program("worker")
problems = bench.program("problems")

# What the table asks for, by row.
ASKED = {
    "additive-scores-1000": (120, 70),
    "additive-attention-1000": (None, 35),
    "additive-attention-8x200": (None, 25),
    "additive-attention-32x50": (None, 11),
    "additive-step-1": (8,),
    "additive-step-32": (20,),
    "additive-layer-step-1": (2,),
    "additive-layer-step-32": (10,),
    "additive-plain-1000": (8, 4),
    "features-800": (60, 25),
    "features-800-directional": (100, None),
    "shaw-2048": (3.5, 2.5),
    "window-8192": (20, None),
    "local-p-8192": (15, None),
    "gat-1e6": (30, 12),
    "threads-additive-1000": (1.8, 1.8),
    "cuda-additive-1000": (10, 6),
}


@pytest.mark.parametrize("name", ASKED)
def test_the_targets_are_those_of_the_table(name):
    assert tuple(t.ratio for t in kernels.ROWS[name].targets.values()) == ASKED[name]


@pytest.mark.parametrize("name", kernels.ROWS)
def test_ways_agree_on_a_tiny_problem(name):
    """Every way of a row computes the same output and gradients."""
    row = kernels.ROWS[name]
    torch.manual_seed(0)
    try:
        problem = row.make(**row.tiny)
    except problems.Missing as reason:
        pytest.skip(str(reason))
    for which in row.targets:
        errors = measure.error(problem, which)
        for way, parts in errors.items():
            assert max(parts.values()) < 1e-4, (way, parts)
        for way in set(problem.ways) - {"ours", "naive"} - problem.forward_only:
            measure.call(problem.ways[way], problem.leaves, which)()


@pytest.mark.parametrize(
    ("name", "package", "count"),
    [("gat-1e6", "torch_geometric", 1), ("alibi-2048", "x_transformers", 2)],
)
def test_public_implementations_compute_the_same(name, package, count):
    pytest.importorskip(package)
    row = kernels.ROWS[name]
    torch.manual_seed(0)
    problem = row.make(**row.tiny)
    named = [way for way in problem.ways if way.startswith(("PyG", "x-transformers"))]
    assert len(named) == count
    expected = measure._tensors(problem.ways["naive"], problem.leaves, "forward+backward")
    for way in named:
        found = measure._tensors(problem.ways[way], problem.leaves, "forward+backward")
        for part in expected if name == "alibi-2048" else ("output", "nodes"):
            torch.testing.assert_close(found[part], expected[part], msg=f"{way}: {part}")


def test_a_result_has_what_scripts_rely_on(monkeypatch):
    row = kernels.ROWS["attend-overhead-call"]
    (one,) = worker.time_row(row, quick=True, threads=1)
    monkeypatch.setattr(kernels, "_ask", lambda *_, **__: {"passes": [one]})
    (result,) = kernels.measure_row(row, quick=True)
    assert {
        "id", "ratio", "error", "threads", "dtype", "shape", "baseline", "reached", "load"
    } <= set(result)  # fmt: skip
    ratio = result["ratio"]
    assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]
    assert result["extra_us"] == pytest.approx(
        1e3 * (result["ms"]["ours"] - result["ms"]["naive"]), abs=0.06
    )
    assert "attend-overhead-call" in kernels.cells(result)[0]
    json.dumps(result)


def test_the_note_is_of_the_sizes_that_were_timed():
    """Not of the smaller ones that float64 is compared on."""
    row = replace(
        kernels.ROWS["gat-1e6"],
        sizes={"nodes": 30, "edges": 200},
        sliced={"nodes": 9, "edges": 20},
        quick=None,
    )
    torch.manual_seed(0)
    timed, small = row.make(**row.sizes).note, row.make(**row.sliced).note
    assert timed != small
    assert {one["note"] for one in worker.time_row(row, quick=True, threads=1)} == {timed}


def test_what_is_reached_follows_from_the_figures():
    row = kernels.ROWS["window-8192"]
    one = {"pass": "forward", "ratio": {"median": 19.9}, "memory_ratio": 0.15}
    one["scaling"] = {"exponent": 1.2}
    assert kernels._reached(row, one) == {"ratio": False, "memory": True, "exponent": False}
    assert kernels._reached(row, {"pass": "forward", "ratio": {"median": 20}}) == {"ratio": True}
    assert kernels._accurate({"error": {"ours": {"output": 2e-6, "key": 1e-5}}})
    assert not kernels._accurate({"error": {"ours": {"output": 2.1e-6, "key": 1e-6}}})
    assert not kernels._accurate({"error": {"ours": {"output": 1e-6, "key": 1.1e-5}}})
    hard = {"naive": {"output": 1e-4}, "ours": {"output": 2e-4}}
    assert kernels._accurate({"error": hard})
    assert not kernels._accurate({"error": hard | {"ours": {"output": 2.1e-4}}})


def test_a_wrong_kernel_is_seen():
    problem = problems.additive_scores(1, 3, 5, 16)
    honest = problem.ways["ours"]
    problem.ways["ours"] = lambda x: honest(x) * 1.001
    assert measure.error(problem, "forward")["ours"]["output"] > 1e-4


def test_memory_is_that_of_the_call():
    leaves = {"x": torch.zeros(1)}

    def big(x):
        return torch.ones(16 << 20).sum() + x["x"]

    found = measure.memory(big, leaves, "forward")
    assert 60 < found < 80


def test_exponents():
    sizes = [100, 200, 400]
    assert measure.exponent(sizes, [3.0 * s**2 for s in sizes]) == 2.0


def test_the_result_is_the_last_line(capsys, monkeypatch, tmp_path):
    answer = {"skipped": "there is no such machine"}
    monkeypatch.setattr(kernels, "_ask", lambda *_, **__: answer)
    file = tmp_path / "rows.jsonl"
    ran = run(capsys, "bench", "kernels", "gat-1e6", "shaw-2048", "--json", "-o", str(file))
    assert ran.code == 0, ran.err
    assert ran.result["skipped"] == dict.fromkeys(("gat-1e6", "shaw-2048"), answer["skipped"])
    assert len(ran.out.splitlines()) == 3
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.get("id") for line in lines] == ["gat-1e6", "shaw-2048", None]
    assert lines[-1]["torch"] == torch.__version__
    assert list(tmp_path.iterdir()) == [file]
    ran = run(capsys, "bench", "kernels", "gat-1e6")
    assert "skipped: there is no such machine" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("end", ["png", "svg", "pdf"])
def test_kernels_are_drawn(end, capsys, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    spread = {"min": 10.0, "median": 12.0, "max": 13.0}
    one = {"pass": "forward", "shape": {}, "ratio": spread, "error": {"ours": {"output": 1e-7}}}
    monkeypatch.setattr(kernels, "_ask", lambda *_, **__: {"passes": [one]})
    file = tmp_path / f"rows.{end}"
    ran = run(capsys, "bench", "kernels", "shaw-2048", "--quick", "-o", str(file))
    assert ran.code == 0, ran.err
    assert f"{file}: drawn" in ran.err
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert file.read_bytes().startswith(starts[end])
    if end == "svg":
        assert "shaw-2048" in file.read_text()


def test_nothing_is_written_when_a_row_stops_it(capsys, monkeypatch, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "_ask", stop)
    file = tmp_path / "rows.jsonl"
    assert run(capsys, "bench", "kernels", "gat-1e6", "-o", str(file)).code == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kernls"], "there is no 'kernls': did you mean 'kernels'?"),
        (["kernels", "gat-1e7"], "no row is called 'gat-1e7': did you mean 'gat-1e6'?"),
        (["complexity", "recurent"], "did you mean 'recurrent'?"),
        (["kernels", "-o", "nowhere/x.jsonl"], "expected a file in a folder that is there"),
        (["kernels", "--threads", "0"], "--threads: expected 1 or more, got 0"),
    ],
)
def test_wrong_requests(capsys, words, said):
    ran = run(capsys, "bench", *words)
    assert ran.code == 2
    assert said in ran.err


def test_rows_can_be_listed(capsys):
    ran = run(capsys, "bench", "--list", "--json")
    assert set(ran.result["rows"]) == set(kernels.ROWS)
    assert "additive-scores-1000" in run(capsys, "bench", "--list").out


@pytest.mark.slow
def test_a_row_for_real(capsys):
    ran = run(capsys, "bench", "kernels", "attend-overhead-call", "--json")
    assert ran.code == 0, ran.err
    (row,) = ran.result["rows"]
    assert row["memory_mib"]["ours"] is not None


def test_complexity_of_a_layer(capsys):
    ran = run(capsys, "bench", "complexity", "recurrent", "--quick", "--json")
    assert ran.code == 0, ran.err
    (row,) = ran.result["rows"]
    assert row["id"] == "recurrent"
    assert row["sequential"]["exponent"] == pytest.approx(1, abs=0.05)
    assert row["sequential"]["law"] == row["path"]["law"] == "n"
    assert row["path"]["exponent"] == 1.0


def test_decoders_have_a_table_with_what_ran(capsys, monkeypatch, tmp_path):
    decoders = bench.program("recorded_decoders")
    tiny = {"luong": {"embed": 8, "hidden": 8, "layers": 1}, "memn2n-lm": {"dim": 8, "memory": 4}}
    monkeypatch.setattr(decoders, "ROWS", tiny)
    monkeypatch.setattr(decoders, "WORDS", 60)
    monkeypatch.setattr(decoders, "STEPS", 2)
    file = tmp_path / "decoders.jsonl"
    ran = run(capsys, "bench", "decode", "--quick", "--json", "-o", str(file))
    *rows, summary = [json.loads(line) for line in ran.out.splitlines()]
    assert [json.loads(line) for line in file.read_text().splitlines()] == [*rows, summary]
    assert [(row["model"], row["batch"]) for row in rows] == [
        (name, batch) for name in tiny for batch in (1, 32)
    ]
    in_c = native.level() not in ("none", "portable")
    assert (summary["in_c"], summary["of"]) == (int(in_c), 2)
    assert rows[0]["ran"].startswith("a recorded program" if in_c else "its own step")
    assert "reads no source" in rows[2]["ran"]
    if in_c:
        low, middle, high = rows[0]["times"]
        assert 0 < low <= middle <= high
    shown = run(capsys, "bench", "decode", "memn2n-lm", "--quick")
    assert shown.out.startswith("MODEL ")
    assert "0 of 1 generators" in shown.out
    assert "no row is called 'lung': did you mean 'luong'" in run(
        capsys, "bench", "decode", "lung"
    ).err.replace(";", ":")
    assert (
        "expected a file of JSON lines"
        in run(capsys, "bench", "decode", "-o", str(tmp_path / "a.png")).err
    )
