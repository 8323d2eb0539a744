"""Folders of ours as transformers loads them: logits, beams, the page, and back again."""

import runpy

import pytest
import torch

import regard
from regard.convert import convert, export
from regard.errors import RequestError
from tests.convert.folders import FORMS, SOURCES, batch, code_of, make

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

THEIRS = {form: transformers.MarianMTModel for form in FORMS}
THEIRS |= dict.fromkeys(["pre, halves", "gelu", "no end"], None)  # pre-norm
PEGASUS = transformers.PegasusForConditionalGeneration


@pytest.mark.parametrize("form", FORMS)
def test_logits_are_ours(tmp_path, form):
    loaded = make(tmp_path / "own", form)
    export(tmp_path / "own", "huggingface", tmp_path / "out")
    peer = (THEIRS[form] or PEGASUS).from_pretrained(tmp_path / "out").eval()
    assert type(transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")) is type(peer)
    source, lengths, target = batch(loaded)
    seen = lengths if form != "no end" else lengths - 1
    mask = torch.arange(source.shape[1]) < seen[:, None]
    with torch.no_grad():
        ours = loaded.model(source, target, lengths).logits
        theirs = peer(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
    assert (ours - theirs).abs().max() < 2e-5  # whatever the epsilon of the norms


@pytest.mark.slow
def test_pieces_and_beams_are_ours(tmp_path):
    export("de-en-small", "huggingface", tmp_path / "out")
    loaded = regard.load("de-en-small")
    texts = ["Das Fenster wird automatisch geschlossen.", "Wählen Sie eine Datei aus:  bitte"]
    own = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "out")
    made = own(texts, return_tensors="pt", padding=True)
    expected = [[*loaded.tokenizers["source"].encode(text).ids, 2] for text in texts]
    assert [[i for i in row if i] for row in made["input_ids"].tolist()] == expected
    peer = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    out = peer.generate(
        made["input_ids"], attention_mask=made["attention_mask"],
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    best = loaded.predict(texts, bound="now")
    assert own.batch_decode(out.sequences, skip_special_tokens=True) == [p.output for p in best]
    assert out.sequences_scores.tolist() == pytest.approx([p.score for p in best], abs=1e-3)


def test_the_page_says_how_to_use_it(tmp_path, monkeypatch, capsys):
    export("de-en-small", "huggingface", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.py").write_text(code_of(tmp_path / "out", "Die Datei."), "utf-8")
    runpy.run_path("page.py")
    expected = regard.load("de-en-small").translate("Die Datei.", bound="now")
    assert capsys.readouterr().out.splitlines()[-1] == str([expected])


def test_there_and_back(tmp_path):
    loaded = make(tmp_path / "own", "two vocabularies")
    export(tmp_path / "own", "huggingface", tmp_path / "out")
    convert(tmp_path / "out", "huggingface", tmp_path / "back")
    back = regard.load(tmp_path / "back")
    source, lengths, target = batch(loaded)
    with torch.no_grad():
        before = loaded.model(source, target, lengths).logits
        after = back.model(source, target, lengths).logits
    assert (before - after).abs().max() < 1e-4
    assert back.translate(SOURCES) == loaded.translate(SOURCES, bound="now")


def test_pre_norm_without_one_embedding_is_refused(tmp_path):
    make(tmp_path / "own", "untied")
    from tests.convert import folders

    folders.FORMS["pre, untied"] = ("transformer", {"norm": "pre", "tied": "none"})
    make(tmp_path / "pre", "pre, untied")
    with pytest.raises(RequestError, match="one embedding for everything"):
        export(tmp_path / "pre", "huggingface", tmp_path / "out")
    assert not (tmp_path / "out").exists()
