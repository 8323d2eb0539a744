"""Taggers in ONNX: emissions and chains are ours, and so are the tags of the page's code."""

import json
import runpy

import numpy as np
import pytest
import torch

from regard.convert import export
from regard.convert._tagger_graph import tagger_graph
from regard.errors import RequestError
from regard.models.bilstm_crf import BiLSTMCRF
from regard.models.deep_bilstm_crf import DeepBiLSTMCRF
from regard.models.highway_bilstm import HighwayBiLSTM
from regard.models.srl_attention import DeepAttTagger
from regard.protocols import Inputs
from tests.convert.folders import code_of
from tests.tasks import taggers

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

DEEP = {"embed": 10, "mark": 6, "layers": 2, "heads": 4, "ffn_dim": 20}
CRF = {"embed": 8, "hidden": 7}
FORMS = {
    "ffn": lambda: DeepAttTagger(40, 5, **DEEP),
    "rnn": lambda: DeepAttTagger(40, 5, **DEEP, sublayer="rnn", positions="none"),
    "cnn": lambda: DeepAttTagger(40, 5, **DEEP, sublayer="cnn", positions="learned"),
    "no marks": lambda: DeepAttTagger(40, 5, **{**DEEP, "embed": 16}, marks=False),
    "highway": lambda: HighwayBiLSTM(40, 5, embed=8, mark=4, hidden=6, layers=3),
    "highway, no marks": lambda: HighwayBiLSTM(40, 5, embed=8, marks=False, hidden=6, layers=2),
    "crf": lambda: BiLSTMCRF(40, 5, **CRF),
    "crf, all": lambda: BiLSTMCRF(40, 5, 30, 9, 2, **CRF, marks=True, ffn_dim=None),
}


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        tagger_graph(model).model("tagger").SerializeToString(), options
    )


def batch(names, rows, time, letters):
    lengths = torch.randint(1, time + 1, (rows,))
    lengths[0] = time
    real = torch.arange(time) < lengths[:, None]
    extras = {
        "marks": (torch.arange(time) == (lengths // 2)[:, None]).long(),
        "features": torch.randint(1, 9, (rows, time, 2)) * real[..., None],
        "characters": torch.randint(4, 30, (rows, time, letters))
        * (torch.arange(letters) < torch.randint(1, letters + 1, (rows, time, 1)))
        * real[..., None],
    }
    own = {name: value for name, value in extras.items() if name in names}
    return Inputs(torch.randint(4, 40, (rows, time)) * real, lengths, own), real


@pytest.mark.parametrize("form", FORMS)
def test_emissions_and_chains_are_ours(form):
    torch.manual_seed(2)
    model = FORMS[form]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    made = session(model)
    names = [value.name for value in made.get_inputs()]
    for rows, time, letters in ((3, 7, 5), (1, 1, 1), (4, 20, 8)):
        source, real = batch(names, rows, time, letters)
        with torch.no_grad():
            ours = model(source)
        given = {"words": source.values, "lengths": source.lengths, **source.extras}
        found = dict(
            zip(
                [value.name for value in made.get_outputs()],
                made.run(None, {name: value.numpy() for name, value in given.items()}),
                strict=True,
            )
        )
        expected = ours.logits.masked_fill(~real[..., None], 0.0).numpy()
        np.testing.assert_allclose(found.pop("emissions"), expected, atol=1e-5)
        assert set(found) == set(ours.extra)
        for name, value in found.items():
            np.testing.assert_array_equal(value, ours.extra[name].detach().numpy())


def test_a_tagger_without_a_graph_is_refused_in_one_sentence():
    with pytest.raises(RequestError, match="of taggers only DeepAttTagger, BiLSTMCRF and HighwayB"):
        tagger_graph(DeepBiLSTMCRF(40, 5, embed=8, hidden=6, layers=2))


def test_the_page_s_code_finds_our_tags_of_roles(tmp_path, monkeypatch, capsys):
    data = taggers.data(tmp_path / "data")
    source = {"path": str(data), "format": "conll2005"}
    task = {"scorer": "roles", "marks": True, "constraints": "scheme"}
    loaded = taggers.make(tmp_path / "own", "deepatt", source, **task)
    files = export(tmp_path / "own", "onnx", tmp_path / "out")
    assert files == ["README.md", "tagger.onnx", "tags.json", "tokenizer.json"]
    monkeypatch.chdir(tmp_path)
    code = code_of(tmp_path / "out", "Ann gave Bo a book").replace('book")', 'book", [1])')
    (tmp_path / "page.py").write_text(code, "utf-8")
    tag = runpy.run_path("page.py")["tag"]
    texts = [("Ann gave Bo a book", 1), ("nobody knows Ann .", 1), ("Bo", 0)]
    ours = [one.output for one in loaded.predict([f"{text} ||| {at}" for text, at in texts])]
    assert capsys.readouterr().out.strip() == ours[0]
    assert [tag(text, [at]) for text, at in texts] == ours
    assert len(set(" ".join(ours).split())) > 2


def test_the_page_s_code_finds_our_tags_of_names(tmp_path, monkeypatch):
    rows = [
        {"text": "Dr Bo met Ann", "tags": "B-P I-P O B-P", "pos": "T N V N"},
        {"text": "Ann saw it", "tags": "B-P O O", "pos": "N V P"},
    ]
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev", "test"):
        (data / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    task = {
        "characters": True, "features": ["pos"], "learned_as": "iobes", "constraints": "scheme",
        "outside": 0.5, "temperature": 1.5,
    }  # fmt: skip
    loaded = taggers.make(tmp_path / "own", "bilstm-crf", {"path": str(data)}, **task)
    export(tmp_path / "own", "onnx", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    code = code_of(tmp_path / "out", "Ann").replace('print(tag("Ann"))', "")
    (tmp_path / "page.py").write_text(code, "utf-8")
    tag = runpy.run_path("page.py")["tag"]
    texts = [("Dr Bo met Ann", "T N V N"), ("zoë Saw Bo and it", "N V N ? P"), ("Bo", "N")]
    for text, pos in texts:
        (ours,) = loaded.predict([f"{text} ||| {pos}"])
        field = loaded.fields["tags"]
        assert tag(text, [], pos) == " ".join(field.names[i] for i in ours.ids)
