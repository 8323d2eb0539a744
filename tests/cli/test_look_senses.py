"""`regard look` of pictures, sounds, measures of Hugging Face folders, and of models of scripts."""

import numpy as np
import pytest
import torch

from tests.cli.run import run
from tests.viewer import small_transformers

transformers = pytest.importorskip("transformers")
pytest.importorskip("soundfile")
pytest.importorskip("PIL")
from tests.viewer import small_senses  # noqa: E402

TEXT = "the cats sat."
SCRIPT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(300, 8)
        self.look = nn.MultiheadAttention(8, 2, batch_first=True)
    def forward(self, ids):
        x = self.embed(ids)
        return self.look(x, x, x)[0]

def read(text):
    words = text.split()
    return torch.tensor([[len(word) for word in words]]), words

def make_model():
    return Model(), read

def make_nothing():
    return Model()

def make_other():
    return read, Model()
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    top = tmp_path_factory.mktemp("senses")
    made = {kind: (top / kind, small_senses.write(kind, top / kind)) for kind in small_senses.KINDS}
    for kind in ("masked", "causal", "both", "classes"):
        made[kind] = (top / kind, small_transformers.write(kind, top / kind))
    small_senses.sound(top / "a.wav")
    small_senses.picture(top / "a.png")
    (top / "mine.py").write_text(SCRIPT)
    return made, top


def asked(capsys, folders, kind, *words):
    ran = run(capsys, "look", f"hf:{folders[0][kind][0]}", *words, "--json")
    assert ran.code == 0, ran.err
    return ran.result


def test_a_picture_has_what_cls_looks_at_over_its_patches(capsys, folders):
    made, top = folders
    folder, model = made["picture"]
    result = asked(capsys, folders, "picture", str(top / "a.png"), "--head", "2", "--layer", "1")
    assert result["rows"] == ["[CLS]"]
    assert result["columns"][:5] == ["1, 1", "2, 1", "3, 1", "4, 1", "1, 2"]
    from PIL import Image

    given = transformers.AutoImageProcessor.from_pretrained(folder)(
        Image.open(top / "a.png"), return_tensors="pt"
    )
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**given, output_attentions=True)
    own = output.attentions[0][0, 1, 0, 1:]
    np.testing.assert_allclose(result["pictures"][0]["weights"][0], own, atol=2e-5)
    assert result["output"] == model.config.id2label[int(output.logits.argmax())]
    whole = asked(capsys, folders, "picture", str(top / "a.png"), "--kind", "self", "--head", "1")
    own = output.attentions[1][0, 0, 1:, 1:]
    np.testing.assert_allclose(whole["pictures"][0]["weights"], own, atol=2e-5)


def test_the_picture_is_what_the_model_sees(folders):
    from regard.data.images.images import located, pixels
    from regard.views import ViewOptions
    from regard.watching.huggingface.opening import open_transformers

    made, top = folders
    view = open_transformers(f"hf:{made['plain'][0]}").view([str(top / "a.png")], ViewOptions())
    side = view.axes[view.maps[0].columns]
    assert side.grid == (4, 4)
    (top / "seen.png").write_bytes(side.image)
    found = pixels(located(str(top / "seen.png")), 3)
    assert found.shape == (32, 32, 3)
    assert found[2, 2].tolist() == [230, 200, 90]
    assert found[28, 28].tolist() == [40, 40, 40]
    assert view.maps[0].shape == (2, 1, 16)


@pytest.mark.slow
def test_speech_is_written_over_seconds(capsys, folders):
    result = asked(
        capsys, folders, "speech", str(folders[1] / "a.wav"), "--target", "the cat", "--pieces"
    )
    assert result["output"] == "the cat"
    assert result["columns"][:3] == ["0.00 s", "0.02 s", "0.04 s"]
    assert len(result["columns"]) == 50  # a second of 100 frames, two a place
    weights = np.array(result["pictures"][0]["weights"])
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-3)


@pytest.mark.slow
def test_letters_are_spelled(capsys, folders):
    result = asked(capsys, folders, "letters", str(folders[1] / "a.wav"), "--measure", "gradient")
    assert result["columns"][0] == "0.00 s"
    assert result["output"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("causal", (TEXT,)),
        pytest.param("masked", ("the [MASK] sat",), marks=pytest.mark.slow),
        pytest.param("both", (TEXT,), marks=pytest.mark.slow),
        pytest.param("classes", (TEXT,), marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_why_says_what_each_change_did(kind, words, capsys, folders):
    """The best change is done again by hand: a head's columns are zeroed where they are read."""
    target = ("--target", "the mat") if kind == "both" else ()
    result = asked(capsys, folders, kind, *words, "--why", *target)
    changes = [effect["change"] for effect in result["effects"]]
    assert changes == sorted(changes)
    assert result["log_prob"] < 0
    layers = {"both": 3, "causal": 2, "masked": 2, "classes": 2}[kind]
    assert len(changes) == layers * 4
    if kind != "causal":
        return
    model = folders[0][kind][1]
    ids = small_transformers.tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    effect = next(e for e in result["effects"] if e["head"] == 2)
    linear = model.get_submodule(effect["attention"]).c_proj

    def score():
        with torch.no_grad():
            logs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        return logs.gather(1, ids[0, 1:, None]).sum().item()

    assert score() == pytest.approx(result["log_prob"], abs=1e-4)
    before, kept = score(), linear.weight.detach().clone()
    with torch.no_grad():
        linear.weight[8:] = 0
        assert score() - before == pytest.approx(effect["change"], abs=1e-4)
        linear.weight.copy_(kept)


@pytest.mark.parametrize("measure", ["norms", "gradient", "rollout"])
def test_measures_of_a_folder(measure, capsys, folders, tmp_path):
    result = asked(capsys, folders, "causal", TEXT, "--measure", measure)
    weights = np.array(result["pictures"][0]["weights"])
    assert np.abs(np.triu(weights, 1)).max() < 1e-6
    assert weights.any()
    if measure == "rollout":
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-3)


def test_a_model_of_a_script(capsys, folders):
    mine = folders[1] / "mine.py"
    ran = run(capsys, "look", f"{mine}:make_model", "a cat sat", "--json")
    assert ran.code == 0, ran.err
    assert ran.result["rows"] == ["a", "cat", "sat"]
    np.testing.assert_allclose(np.sum(ran.result["pictures"][0]["weights"], 1), 1, atol=1e-3)
    ran = run(capsys, "look", f"{mine}:make_model", "a cat", "--measure", "rollout", "--json")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.py:make", "a"), "there is no script"),
        (("mine.py:make_modell", "a"), "did you mean 'make_model'"),
        (("mine.py:make_nothing", "a"), "expected (model, read)"),
        (("mine.py:make_other", "a"), "got (function, Model)"),
        (("mine.py:make_model", "a", "--why"), "why: no view"),
        (("mine.py:make_model", "a", "--measure", "gradient"), "no score that is known"),
        (("mine.py:make_model", "a", "--max", "3"), "is for hf:FOLDER"),
    ],
)
def test_wrong_scripts(words, said, capsys, folders, monkeypatch):
    monkeypatch.chdir(folders[1])
    ran = run(capsys, "look", *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("plain", ("a.png", "--why"), "no output whose score"),
        ("plain", ("none.png",), "no such picture"),
        ("letters", ("a.png",), "sound"),
    ],
)
def test_wrong_inputs(kind, words, said, capsys, folders, monkeypatch):
    monkeypatch.chdir(folders[1])
    ran = run(capsys, "look", f"hf:{folders[0][kind][0]}", *words)
    assert ran.code in (1, 2)
    assert said in ran.err
