"""CTranslate2's engine on folders of ours: scores of given outputs, greedy and beam search."""

import csv
import gzip
import json
import runpy

import pytest
import torch

import regard
from regard.convert import export
from regard.data.sources import shipped as shipped_data
from regard.errors import RequestError
from tests.convert.folders import FORMS, SOURCES, TARGETS, batch, code_of, make

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")


def translator(folder):
    return ctranslate2.Translator(str(folder), device="cpu", intra_threads=1, inter_threads=1)


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_are_ours(tmp_path, form):
    loaded = make(tmp_path / "own", form)
    export(tmp_path / "own", "ctranslate2", tmp_path / "out")
    source, lengths, target = batch(loaded)
    with torch.no_grad():
        ours = loaded.model(source, target, lengths).logits.log_softmax(-1)
    end = ["</s>"] if form != "no end" else []
    own = loaded.tokenizers
    theirs = translator(tmp_path / "out").score_batch(
        [own["source"].encode(text).tokens + end for text in SOURCES],
        [own["target"].encode(text).tokens for text in TARGETS],
    )
    for row, found in enumerate(theirs):
        following = [*target[row, 1 : len(found.tokens)].tolist(), 2]
        expected = [float(ours[row, t, i]) for t, i in enumerate(following)]
        assert found.log_probs == pytest.approx(expected, abs=2e-5)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The shipped model exported as it is and in int8, and sentences for it."""
    folder = tmp_path_factory.mktemp("ct2")
    export("de-en-small", "ctranslate2", folder / "whole")
    export("de-en-small", "ctranslate2", folder / "int8", quantization="int8")
    with gzip.open(shipped_data() / "mt-gnome-de/test.tsv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return folder, [row["de"] for row in rows]


SEARCHES = {
    "greedy": ({"name": "greedy"}, {"beam_size": 1}),
    "beam": ({"patience": 1.0}, {"beam_size": 5, "length_penalty": 1.0}),
    "beam, length 0.6": (
        {"patience": 1.0, "length_penalty": 0.6},
        {"beam_size": 5, "length_penalty": 0.6},
    ),
}


@pytest.mark.parametrize(
    "search",
    [pytest.param(name, marks=pytest.mark.slow if name == "beam" else ()) for name in SEARCHES],
)
def test_outputs_of_the_shipped_model_are_ours(shipped, search):
    folder, texts = shipped
    ours, theirs = SEARCHES[search]
    loaded = regard.load("de-en-small")
    expected = loaded.predict(texts, **ours)
    pieces = [[*loaded.tokenizers["source"].encode(text).tokens, "</s>"] for text in texts]
    options = {**theirs, "return_scores": True, "return_end_token": True}
    found = translator(folder / "whole").translate_batch(pieces, **options)
    assert [p.tokens for p in expected] == [f.hypotheses[0] for f in found]
    assert [p.score for p in expected] == pytest.approx([f.scores[0] for f in found], abs=1e-3)
    small = translator(folder / "int8").translate_batch(pieces, **options)
    same = sum(p.tokens == f.hypotheses[0] for p, f in zip(expected, small, strict=True))
    assert same >= 0.8 * len(texts)
    assert (folder / "int8/model.bin").stat().st_size < (
        folder / "whole/model.bin"
    ).stat().st_size * 0.35


def test_the_page_says_how_to_use_it(tmp_path, monkeypatch, capsys):
    export("de-en-small", "ctranslate2", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    text = "Das Fenster wird geschlossen."
    (tmp_path / "page.py").write_text(code_of(tmp_path / "out", text), "utf-8")
    runpy.run_path("page.py")
    assert capsys.readouterr().out.strip() == regard.load("de-en-small").translate(text)
    said = json.loads((tmp_path / "out/config.json").read_text())
    assert said["decoder_start_token"] == "<s>"
    assert said["layer_norm_epsilon"] == 1e-6


def test_what_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"no quantization 'int9'.*did you mean 'int8'"):
        export("de-en-small", "ctranslate2", tmp_path / "out", quantization="int9")
    assert not list(tmp_path.iterdir())  # nothing half written


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer", {"attention": {"window": 4}}),
        ("transformer", {"position": {"kind": "shaw"}}),
        ("transformer", {"position": {"kind": "bias"}}),
        ("transformer", {"attention": {"head_dim": 4}}),
        ("following-transformer", {}),
    ],
    ids=str,
)
def test_attention_of_another_kind_is_refused(tmp_path, monkeypatch, name, changes):
    monkeypatch.setitem(FORMS, "other", (name, changes))
    make(tmp_path / "own", "other")
    with pytest.raises(RequestError, match=r"plain multi-head attention|heads of 4"):
        export(tmp_path / "own", "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
