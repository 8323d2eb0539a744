"""`regard look`: the same weights in the terminal, in JSON and in a file."""

import urllib.parse
from pathlib import Path

import pytest
import torch

import regard
from regard import viewer
from regard.tasks.generation import look
from tests.cli.run import run
from tests.cli.toy import _loads, folder, layered, load_once, loaded

__all__ = ["_loads", "folder", "layered", "load_once", "loaded"]
pytestmark = pytest.mark.usefixtures("load_once")

TEXT = "ein Hund läuft ."


def weights(result):
    return torch.tensor(result["pictures"][0]["weights"])


def test_json_has_words_and_weights(capsys, folder, loaded):
    ran = run(capsys, "look", folder, TEXT, "--hypothesis", "2", "--json")
    seen = look.look(loaded, TEXT, hypothesis=2)
    shown = seen.picture()
    result = ran.result
    assert (ran.code, result["rows"], result["columns"]) == (0, shown.rows, shown.columns)
    assert result["columns"] == [*TEXT.split(), "</s>"]
    assert torch.allclose(weights(result), shown.weights, atol=1e-4)
    assert (result["output"], result["hypothesis"], result["of"]) == (seen.output, 2, 3)
    assert result["score"] == pytest.approx(seen.score)
    assert result["file"] is None


def test_the_terminal_shows_words_and_shades(capsys, folder, loaded):
    ran = run(capsys, "look", folder, TEXT)
    assert ran.code == 0
    for word in [*TEXT.split(), "rnnsearch", "hypothesis 1 of 3", loaded.translate(TEXT)]:
        assert word in ran.out
    assert any(shade in ran.out for shade in "░▒▓█")
    assert "\x1b" not in ran.out  # not a terminal: no colours


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_file(ending, capsys, folder, tmp_path):
    path = tmp_path / "new" / f"figure.{ending}"
    ran = run(capsys, "look", folder, TEXT, "-o", str(path), "--width", "column")
    assert (ran.code, ran.out) == (0, "")
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[ending]
    assert path.read_bytes().startswith(start)
    assert str(path) in ran.err


def test_several_inputs_are_numbered(capsys, folder, tmp_path):
    ran = run(
        capsys, "look", folder, "ein Hund", "die Datei", "-o", str(tmp_path / "a.png"), "--json"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-1.png", "a-2.png"]
    assert ran.result["file"].endswith("a-2.png")


def test_every_layer_and_head(capsys, layered):
    ran = run(capsys, "look", layered, TEXT, "--layer", "all", "--head", "all", "--json")
    names = [(p["layer"], p["head"]) for p in ran.result["pictures"]]
    assert names == [(1, 1), (1, 2), (2, 1), (2, 2)]
    whole = [torch.tensor(p["weights"]) for p in ran.result["pictures"]]
    assert all(torch.allclose(w.sum(1), torch.ones(len(w)), atol=1e-3) for w in whole)
    one = run(capsys, "look", layered, TEXT, "--layer", "1", "--head", "2", "--json")
    assert torch.equal(weights(one.result), whole[1])
    mean = run(capsys, "look", layered, TEXT, "--layer", "2", "--json").result
    assert mean["pictures"][0]["head"] == "mean"
    assert torch.allclose(weights(mean), (whole[2] + whole[3]) / 2, atol=1e-4)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_self_attention(kind, capsys, layered):
    ran = run(capsys, "look", layered, TEXT, "--kind", kind, "--json")
    assert ran.result["rows"] == ran.result["columns"]
    if kind == "decoder":  # nothing looks ahead
        assert torch.equal(weights(ran.result), weights(ran.result).tril())


def test_small_multiples_in_a_file(capsys, layered, tmp_path):
    path = tmp_path / "heads.svg"
    assert run(capsys, "look", layered, TEXT, "--head", "all", "-o", str(path)).code == 0
    svg = path.read_text()
    assert "head 1" in svg  # matplotlib notes each text above its outlines
    assert "head 2" in svg


def test_a_step_pieces_and_a_given_output(capsys, folder):
    words = ("look", folder, TEXT, "--target", "a dog runs", "--json")
    whole = run(capsys, *words).result
    assert (whole["output"], whole["hypothesis"]) == ("a dog runs", 0)
    assert whole["rows"] == ["a", "dog", "runs", "</s>"]
    one = run(capsys, *words, "--step", "2").result
    assert one["rows"] == ["dog"]
    assert torch.equal(weights(one)[0], weights(whole)[1])
    pieces = run(capsys, *words, "--pieces").result
    assert len(pieces["columns"]) > len(whole["columns"])
    assert any("▁" in piece for piece in pieces["columns"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "page.docx"], "pictures are written as .pdf, .png, .svg"),
        (["--layer", "5"], "no layer 5"),
        (["--layer", "x"], "expected a number from 1 up, or all; got 'x'"),
        (["--head", "3"], "no head 3"),
        (["--hypothesis", "4"], "size, which is 3"),
        (["--hypothesis", "0"], "counted from 1"),
        (["--step", "99"], "no step 99"),
        (["--kind", "crosss"], "did you mean 'cross'"),
        (["--target", " "], "target is empty"),
        (["-o", "x.png", "--width", "wide"], "got 'wide'"),
        (["-o", "x.png", "--width", "nan"], "expected 1 to 100 inches, got nan"),
    ],
)
def test_wrong_requests_exit_with_2(words, said, capsys, layered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run(capsys, "look", layered, TEXT, "--json", *words)
    assert ran.code == 2
    assert said in ran.result["error"]
    assert not list(tmp_path.iterdir())


def test_an_empty_input(capsys, folder):
    ran = run(capsys, "look", folder, "")
    assert ran.code == 2
    assert "the input is empty" in ran.err


def test_a_page_has_every_hypothesis_of_every_input(capsys, layered, tmp_path):
    path = tmp_path / "new" / "page.html"
    ran = run(capsys, "look", layered, TEXT, "die Datei", "-o", str(path), "--json")
    assert (ran.code, ran.result["bytes"]) == (0, path.stat().st_size)
    assert [row["input"] for row in ran.result["hypotheses"]] == [TEXT] * 3 + ["die Datei"] * 3
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_seen_file_has_the_weights_of_the_terminal(capsys, layered, tmp_path):
    path = tmp_path / "a.seen"
    assert run(capsys, "look", layered, TEXT, "-o", str(path)).code == 0
    view = viewer.read(path)
    assert [one.number for one in view.runs] == [1, 2, 3]
    for one in view.runs:
        kinds = [(view.maps[m].kind, view.maps[m].layer) for m in one.maps]
        assert kinds == [(k, n) for k in ("cross", "decoder", "encoder") for n in (1, 2)]
    second = view.maps[view.runs[1].maps[1]]
    words = ("look", layered, TEXT, "--hypothesis", "2", "--head", "2", "--layer", "2", "--pieces")
    shown = weights(run(capsys, *words, "--json").result)
    assert view.axes[second.rows].pieces == run(capsys, *words, "--json").result["rows"]
    torch.testing.assert_close(torch.from_numpy(second.weights[1]), shown, rtol=0, atol=3e-3)
    shared = {m for m in view.runs[0].maps} & {m for m in view.runs[1].maps}
    assert {view.maps[m].kind for m in shared} == {"encoder"}


def test_a_page_of_a_given_output(capsys, folder, tmp_path):
    path = tmp_path / "a.seen"
    assert run(capsys, "look", folder, TEXT, "--target", "a dog runs", "-o", str(path)).code == 0
    view = viewer.read(path)
    assert (view.runs[0].output, view.runs[0].number) == ("a dog runs", 0)


def test_why_prints_what_each_change_did(capsys, layered):
    ran = run(capsys, "look", layered, TEXT, "--why")
    assert ran.code == 0
    assert "without head 2" in ran.out
    assert "uniform weights" in ran.out
    result = run(capsys, "look", layered, TEXT, "--why", "--target", "a dog", "--json").result
    assert result["output"] == "a dog"
    assert len(result["effects"]) == 6 * 4  # attentions; two heads each, uniform and permuted
    assert result["log_prob"] < 0


def test_any_view_as_a_figure_and_again_from_a_file(capsys, folder, tmp_path):
    kept = tmp_path / "kept.seen"
    assert run(capsys, "look", folder, TEXT, "-o", str(kept)).code == 0
    for more in (["--show", "lines", "--head", "all"], ["--show", "compare"], ["--show", "text"]):
        path = tmp_path / f"{more[1]}.svg"
        assert run(capsys, "look", folder, TEXT, *more, "-o", str(path)).code == 0
        first = path.read_bytes()
        assert run(capsys, "look", str(kept), *more, "-o", str(path)).code == 0
        assert len(path.read_bytes()) == pytest.approx(len(first), rel=0.05)
    assert run(capsys, "look", str(kept), "-o", str(tmp_path / "a.html")).code == 0
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "expected an INPUT"),
        ([TEXT, "--show", "line", "-o", "x.png"], "did you mean 'lines'"),
        ([TEXT, "--show", "lines", "-o", "x.png", "--layer", "9"], "there is: 1"),
        ([TEXT, "--show", "lines", "-o", "x.png", "--kind", "encoder"], "there is: cross"),
        ([TEXT, "--show", "lines", "-o", "x.png", "--head", "a"], "numbers from 1 up"),
        ([TEXT, "--show", "lines", "-o", "x.png", "--hypothesis", "9"], "no hypothesis 9"),
    ],
)
def test_a_view_that_cannot_be_drawn(capsys, folder, more, said):
    ran = run(capsys, "look", folder, *more)
    assert ran.code == 2
    assert said in ran.err


def test_a_kept_file_has_its_inputs(capsys, tmp_path):
    path = regard.view(torch.eye(2)).save(tmp_path / "a.seen")
    ran = run(capsys, "look", str(path), "x", "-o", "y.png")
    assert (ran.code, "has its inputs in it" in ran.err) == (2, True)


@pytest.fixture
def shown(monkeypatch):
    """The addresses that a browser was asked to show, on a machine that has one."""
    found = []
    monkeypatch.setattr("webbrowser.open", lambda address: found.append(address) or True)
    return found


def test_a_page_is_shown_in_a_browser(capsys, folder, tmp_path, shown):
    ran = run(capsys, "look", folder, "die Datei", "-o", str(tmp_path / "p q.html"), "--open")
    assert ran.code == 0
    assert shown == [(tmp_path / "p q.html").as_uri()]
    assert (tmp_path / "p q.html").is_file()


def test_without_a_file_the_page_is_a_temporary_one(capsys, folder, shown):
    ran = run(capsys, "look", folder, "die Datei", "--open")
    assert (ran.code, ran.out) == (0, "")
    page = Path(urllib.parse.unquote(urllib.parse.urlparse(shown[0]).path))
    assert "<html" in page.read_text("utf-8")
    assert str(page) in ran.err


def test_a_machine_without_a_browser_gets_the_address(capsys, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    ran = run(capsys, "look", folder, "die Datei", "-o", str(tmp_path / "p.html"), "--open")
    assert ran.code == 0
    assert f"no browser was found here; open {(tmp_path / 'p.html').as_uri()}" in ran.err


def test_only_pages_are_shown_in_a_browser(capsys, folder, tmp_path, shown):
    ran = run(capsys, "look", folder, "die Datei", "-o", str(tmp_path / "p.png"), "--open")
    assert (ran.code, shown) == (2, [])
    assert "--open: it shows a page; expected -o with .html" in ran.err


def test_a_page_is_served_until_it_is_interrupted(capsys, folder, shown, monkeypatch):
    from urllib.request import urlopen

    from regard.viewer.page.live import Live

    def interrupted(live):
        assert urlopen(live.address, timeout=10).read().startswith(b"<!DOCTYPE html>")
        raise KeyboardInterrupt

    monkeypatch.setattr(Live, "wait", interrupted)
    ran = run(capsys, "look", folder, TEXT, "--serve", "--open")
    assert ran.code == 0
    assert f"{shown[0]}  (Ctrl-C ends it)" in ran.err
    assert shown[0].startswith("http://127.0.0.1:")
