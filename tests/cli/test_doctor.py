"""`regard doctor`: what it reports, and that its self-check can fail."""

import platform

import pytest
import torch

from regard.cli import _checks
from regard.system.extras import install
from tests.cli.run import run


def test_report_as_json(capsys):
    ran = run(capsys, "doctor", "--json")
    assert ran.code == 0, ran.err
    report = ran.result
    assert report["versions"]["torch"] == torch.__version__
    assert report["machine"]["threads"] == torch.get_num_threads()
    assert set(report["kernels"]) == set(_checks.KINDS)
    assert report["kernels"]["additive"].startswith("streaming")
    assert report["kernels"]["scaled dot"].startswith("sdpa")
    names = {c["name"] for c in report["checks"]}
    assert {"sdpa: scaled dot", "streaming: additive", "reference: location"} <= names
    assert {"features: feature-wise", "local: local-p", "edges: edges of a graph"} <= names
    assert all(c["good"] for c in report["checks"])


def test_report_as_text(capsys):
    ran = run(capsys, "doctor")
    assert ran.code == 0
    for title in (
        "Versions", "Machine", "Extras", "Compiled", "Levels", "Kernels", "Shipped models",
        "Self-check",
    ):  # fmt: skip
        assert title in ran.out
    assert "WRONG" not in ran.out


def test_a_wrong_kernel_is_found(capsys, monkeypatch):
    from regard.attention._kernels.sdpa import Sdpa

    honest = Sdpa.run

    def off(self, call):
        found = honest(self, call)
        return found._replace(context=found.context * 1.001)

    monkeypatch.setattr(Sdpa, "run", off)
    ran = run(capsys, "doctor")
    assert ran.code == 1
    assert "WRONG  sdpa: scaled dot" in " ".join(ran.out.split()).replace("WRONG ", "WRONG  ")
    assert "the self-check failed: sdpa: dot" in ran.err
    assert "streaming: additive" not in ran.err


def test_the_check_leaves_the_random_numbers_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    assert list(_checks.check_kernels())
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", _checks.EXTRAS)
def test_extras_say_what_to_install(name, monkeypatch):
    monkeypatch.setattr(_checks, "find_spec", lambda module: None)
    assert install(name) in _checks._extra(name)


def test_the_library_in_c(monkeypatch):
    from regard import native

    said = _checks.compiled()["C"]
    if native.library() is not None:
        assert said.startswith(f"{native.level()}, ")
    monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.setattr(native, "missing", lambda: "there is no compiler")
    assert _checks.compiled()["C"] == "none (there is no compiler); blocks of PyTorch instead"


def test_levels_say_which_one_runs_and_what_it_is_good_for(monkeypatch):
    from regard import native
    from regard.cli import _levels

    if native.library() is None:
        pytest.skip(native.missing())
    best = native.level()
    for forced in ["portable", best]:
        with native.at_level(forced):
            rows = _levels.levels()
        assert [name for name, told in rows.items() if told.startswith("in use: ")] == [forced]
        assert all(word in rows[forced] for word in ("float32", "bfloat16", "int8"))
        if forced != best:
            assert rows[best].startswith("off: this machine lacks it")
        elif best != "portable":
            assert rows["portable"] == "off; REGARD_LEVEL=portable forces it"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with native.at_level("portable"):
        rows = _levels.levels()
    assert set(rows) == {"portable", "NEON dot products", "not run"}
    monkeypatch.setattr(native, "library", lambda: None)
    assert list(_levels.levels()) == ["none"]


def test_which_kernels_a_model_takes(capsys):
    ran = run(capsys, "doctor", "de-en-small", "--json")
    assert ran.code == 0, ran.err
    found = ran.result["attentions"]
    assert "decoder.0.cross_attention" in found
    assert all(one["kernel"] in one["text"] for one in found.values())
    assert set(ran.result["compiled"]) == {"C", "Triton", "FlexAttention"}
    ran = run(capsys, "doctor", "de-en-small")
    assert "decoder.0.cross_attention  " in ran.out
    assert "FlexAttention:" in ran.out
    assert run(capsys, "doctor", "no-such-model").code == 2


def test_reasons_are_given_for_what_is_passed_over():
    from regard.attention import Additive, Attention

    found = _checks.of_folder(Attention(Additive(4, 4, 4)))["(the model)"]
    assert found["kernel"] == "streaming"
    assert found["passed_over"]["sdpa"] == "Additive is not a dot product"
