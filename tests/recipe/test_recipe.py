"""Recipes: layers with their origins, names, checks against constructors, and what is said."""

import math
import subprocess
import sys

import pytest

from regard import recipe
from regard.errors import RequestError

TEXT = """\
# regard train small
model: {name: transformer, dim: 16, heads: 2, layers: 1, ffn_dim: 16}
task: {name: translation, smoothing: 0.1}
data: {path: mt/de-en, columns: {source: other, target: en}}
train:
  steps: 20_000
  batch: {tokens: 512}
  optimizer: {name: adam, lr: 3e-4, betas: [0.9, 0.98]}
  schedule: {name: inverse-sqrt, warmup: 100}
decode: {name: beam, beam_size: 4}
expect: {bleu: [1.0, 3.5]}
tiny:
  model.ffn_dim: 8
  train: {steps: 3, optimizer.lr: 1}
  expect.bleu: [0, 100]
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(TEXT)
    return path


def test_values_and_where_they_are_from(file):
    found = recipe.load("small.yaml", ["train.batch.accumulate=2", "model.layers=3"])
    assert found.name == "small"
    assert found.train["steps"] == 20000
    assert found.train["optimizer"]["lr"] == 0.0003
    assert found.train["batch"] == {"tokens": 512, "accumulate": 2}
    assert found.model["layers"] == 3
    places = {
        "model": "small.yaml:2",
        "model.heads": "small.yaml:2",
        "model.layers": "command line",
        "train.optimizer": "small.yaml:8",
        "train.optimizer.lr": "small.yaml:8",
        "train.batch.tokens": "small.yaml:7",
        "train.batch.accumulate": "command line",
        "train.seed": "small.yaml:5",  # not there: the nearest above
        "nothing": "small.yaml",
    }
    assert {key: found.where(key) for key in places} == places
    origins = {key: origin for key, _, origin in found.table()}
    assert origins["train.steps"] == "small.yaml:6"
    assert origins["model.layers"] == "command line"
    assert origins["train.seed"] == "default"


def test_tiny_lies_over_the_rest_and_the_command_line_over_both(file):
    found = recipe.load(file, ["train.steps=2"], tiny=True).check()
    assert found.name == "small-tiny"
    assert found.model["ffn_dim"] == 8
    assert found.train["steps"] == 2
    assert found.train["optimizer"] == {"name": "adam", "lr": 1, "betas": [0.9, 0.98]}
    assert found.expect == {"bleu": [0, 100]}
    assert found.where("model.ffn_dim") == "small.yaml:13"
    assert found.where("train.optimizer.lr") == "small.yaml:14"
    assert found.where("train.steps") == "command line"
    assert recipe.load(file).train["steps"] == 20000


def test_a_mapping_of_another_name_replaces_and_of_the_same_merges(file):
    other = recipe.load(file, ["train.optimizer={name: sgd, lr: 1}"]).check()
    assert other.train["optimizer"] == {"name": "sgd", "lr": 1}
    assert other.where("train.optimizer.lr") == "command line"
    same = recipe.load(file, ["train.optimizer={name: adam, lr: 1}"])
    assert same.train["optimizer"] == {"name": "adam", "lr": 1, "betas": [0.9, 0.98]}
    assert same.where("train.optimizer.betas") == "small.yaml:8"
    asked = recipe.load(file, {"train.steps": 5, "model": {"heads": 4}})
    assert (asked.train["steps"], asked.model["heads"], asked.model["dim"]) == (5, 4, 16)


def test_resolved_has_the_defaults_of_the_constructors(file):
    found = recipe.load(file).check().resolved()
    assert found["train"]["batch"] == {
        "tokens": 512, "accumulate": 1, "ahead": 0, "step_tokens": None,
    }  # fmt: skip
    assert found["train"]["validate"]["every"] == 1000
    assert found["train"]["optimizer"]["eps"] == 1e-8
    assert found["train"]["optimizer"]["lr"] == 0.0003
    assert found["decode"]["beam_size"] == 4
    assert found["decode"]["length_penalty"] == 1.0
    assert found["model"]["ffn_dim"] == 16
    assert not {"source_vocab_size", "target_vocab_size"} & set(found["model"])
    assert not any(isinstance(v, float) and math.isnan(v) for v in found["train"].values())


@pytest.mark.parametrize("tiny", [False, True])
def test_a_dump_reads_back_to_the_same_recipe(file, tmp_path, tiny):
    first = recipe.load(file, ["model.layers=2"], tiny=tiny)
    copy = tmp_path / "copy.yaml"
    copy.write_text(first.dump())
    second = recipe.load(copy)
    assert second.layers.values == first.layers.values
    assert second.resolved() == first.resolved()
    assert "tiny" not in first.dump()


WRONG = [
    ("model:", "modle:", "small.yaml:2: there is no section 'modle': did you mean 'model'?"),
    ("heads", "hedas", "small.yaml:2: Transformer has no setting 'hedas' (model): did you mean 'h"),
    ("name: transformer", "name: transfomer", "small.yaml:2: model has no 'transfomer': did you m"),
    ("name: translation", "name: translaton", "small.yaml:3: task has no 'translaton': did you me"),
    ("smoothing", "smothing", "small.yaml:3: Translation has no setting 'smothing' (task): did yo"),
    ("  steps", "  setps", "small.yaml:6: Training has no setting 'setps' (train): did you"),
    ("{tokens", "{token", "small.yaml:7: BatchSettings has no setting 'token' (train.batch): did "),
    ("name: adam", "name: adm", "small.yaml:8: train.optimizer has no 'adm': did you mean 'adam'?"),
    ("betas", "beta", "small.yaml:8: adam has no setting 'beta' (train.optimizer): did you"),
    ("inverse-sqrt", "inverse", "small.yaml:9: train.schedule has no 'inverse': "),
    ("warmup", "warm", "small.yaml:9: InverseSqrt has no setting 'warm' (train.schedule): did "),
    ("name: beam", "name: baem", "small.yaml:10: decode has no 'baem': did you mean 'beam'?"),
    ("beam_size", "sise", "small.yaml:10: Beam has no setting 'sise' (decode): "),
    ("20_000", "20k", "small.yaml:6: train.steps: expected a whole number or null, got '20k'"),
    ("20_000", "0", "small.yaml:6: train.steps: expected a whole number or null, got 0"),
    ("20_000", "yes", "small.yaml:6: train.steps: expected a whole number or null, got 'yes'"),
    ("lr: 3e-4", "lr: fast", "small.yaml:8: train.optimizer.lr: expected a number, got 'fast'"),
    ("0.98]", "x]", "small.yaml:8: train.optimizer.betas.1: expected a list, got [0.9, 'x']"),
    ("tokens: 512", "accumulate: 2, step_tokens: 512",
     "small.yaml:7: train.batch.accumulate: it is 2, but train.batch.step_tokens is"),
    ("tokens: 512", "tokens: true", "small.yaml:7: train.batch.tokens: expected a whole number"),
    ("{tokens: 512}", "5", "small.yaml:7: train.batch: expected keys with values, got 5"),
    ("{tokens: 512}", "0", "small.yaml:7: train.batch: expected keys with values, got 0"),
    ("{name: adam, lr: 3e-4, betas: [0.9, 0.98]}", "adam", "small.yaml:8: train.optimizer: expec"),
    ("{bleu: [1.0, 3.5]}", "{bleu: [4, 3]}", "small.yaml:11: expect.bleu: expected [lowest, high"),
    ("{name: translation, smoothing: 0.1}", "5", "small.yaml:3: task: expected keys with values"),
    ("name: transformer, ", "", "small.yaml:2: model needs a name: "),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=[new for _, new, _ in WRONG])
def test_every_error_has_its_place(file, old, new, said):
    assert TEXT.count(old) >= 1
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(RequestError) as caught:
        recipe.load("small.yaml").check()
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("train.steps", "command line: expected key=value (train.steps=2000), got 'train.steps'"),
        ("=3", "command line: expected key=value"),
        ("trian.steps=3", "command line: there is no section 'trian': did you mean 'train'?"),
        ("epochs=2", "command line: there is no section 'epochs': did you mean 'train.epochs'?"),
        ("steps=3", "command line: there is no section 'steps': did you mean 'train.steps'?"),
        (
            "train.stesp=3",
            "command line: Training has no setting 'stesp' (train): did you mean 'st",
        ),
        ("train.steps.more=3", "command line: train.steps.more: train.steps is 20000 and has no k"),
        ("train.ema=1", "command line: train.ema: expected a number, got 1 "),
        ("train.log=-1", "command line: train.log: expected a whole number, got -1 "),
        ("train.precision=fp8", "command line: train.precision: expected one of fp32, bf16, auto"),
        ("train.batch={tokens: [}", "command line: 'train.batch={tokens: [}':1: not YAML"),
        ("model.vocab_size=3", "command line: Transformer has no setting 'vocab_size' (model)"),
    ],
)
def test_wrong_changes(file, override, said):
    with pytest.raises(RequestError) as caught:
        recipe.load("small.yaml", [override]).check()
    assert str(caught.value).startswith(said)


def test_null_is_the_default(file):
    from regard.recipe.train_section import BatchSettings, Training

    changes = ["train.batch=", "train.optimizer=null", "train.steps=~", "train.epochs=1"]
    found = recipe.load(file, changes).check()
    settings = Training.of(found.train)
    assert (settings.batch, settings.optimizer) == (BatchSettings(), {"name": "adam"})
    assert (settings.steps, settings.epochs) == (None, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "small.yaml:1: expected sections (model, task"),
        (b"- a\n", "small.yaml:1: expected sections"),
        (
            TEXT.replace("tiny:", "tiny: 5 #").split("  model.ffn_dim")[0].encode(),
            "small.yaml:12: t",
        ),
        (TEXT.encode() + b"# caf\xe9\n", "small.yaml:16: not UTF-8"),
    ],
)
def test_files_that_are_no_recipes(file, text, said):
    file.write_bytes(text)
    with pytest.raises(RequestError) as caught:
        recipe.load("small.yaml", tiny=True)
    assert str(caught.value).startswith(said)


def test_names_and_paths(file, monkeypatch, tmp_path):
    root = tmp_path / "recipes"
    for name in ("one/a", "one/both", "two/both"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{name}.yaml").write_text(TEXT)
    monkeypatch.setattr("regard.recipe.files.folder", lambda: root)
    assert recipe.names() == ["one/a", "one/both", "two/both"]
    assert recipe.find("a") == recipe.find("one/a") == root / "one" / "a.yaml"
    assert recipe.load("a").name == "one/a"
    assert recipe.load("recipes/one/a.yaml", tiny=True).name == "one/a-tiny"
    assert recipe.load(file).name == "small"
    for name, said in (
        ("b", "there is no recipe 'b': valid: "),
        ("one/aa", "there is no recipe 'one/aa': did you mean 'one/a'?"),
        ("both", "there is no recipe 'both': there are one/both, two/both"),
        ("none.yaml", "there is no recipe file 'none.yaml'"),
        ("recipes", "there is no recipe 'recipes'"),
    ):
        with pytest.raises(RequestError) as caught:
            recipe.find(name)
        assert str(caught.value).startswith(said)


def test_recipes_inside_an_installed_package_come_first(monkeypatch, tmp_path):
    (tmp_path / "src" / "regard").mkdir(parents=True)
    monkeypatch.setattr(
        "regard.recipe.files.__file__", str(tmp_path / "src/regard/recipe/recipe.py")
    )
    assert recipe.folder() == tmp_path / "recipes"
    (tmp_path / "src" / "regard" / "recipes").mkdir()
    assert recipe.folder() == tmp_path / "src" / "regard" / "recipes"


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_here_is_right(name, tiny):
    found = recipe.load(name, tiny=tiny).check()
    assert found.file.read_text().startswith(f"# regard train {name}\n")


def test_reading_imports_nothing_heavy(file):
    code = (
        "import sys; from regard import recipe; recipe.load('small.yaml', ['train.steps=1']); "
        "print(sorted({'torch', 'numpy', 'pydantic', 'pytorch_lightning'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_whole_number_where_a_number_is_meant_reaches_the_model_as_one():
    found = recipe.load(
        "pronunciation/rnnsearch-cmudict", ["model.dropout=0", "train.clip=1", "model.hidden=8"]
    ).check()
    values = (found.model["dropout"], found.train["clip"], found.model["hidden"])
    assert [type(value) for value in values] == [float, float, int]
    assert values == (0.0, 1.0, 8)


# -- names of earlier versions

OLD = TEXT.replace("ffn_dim", "hidden")


def test_a_recipe_in_old_names_says_the_same_and_names_the_new_ones_once(file, caplog):
    today = recipe.load(file, ["model.ffn_dim=4"], tiny=True).check()
    file.write_text(OLD)
    found = recipe.load(file, ["model.hidden=4"], tiny=True)
    assert caplog.messages == []  # a recipe that is only listed is not criticized
    found.check().check()
    assert found.resolved() == today.resolved()
    assert found.model["ffn_dim"] == 4
    assert "hidden" not in found.model
    assert found.where("model.ffn_dim") == "command line"
    assert caplog.messages == ["command line: model.hidden is now called model.ffn_dim"]


@pytest.mark.parametrize(
    ("changes", "tiny", "value", "place"),
    [
        ([], False, 16, "small.yaml:2"),
        ([], True, 8, "small.yaml:13"),
        (["model={hidden: 5}"], True, 5, "command line"),
        (["model.ffn_dim=6"], True, 6, "command line"),
        (["model={hidden: 7, name: marian}", "model.dim=8"], False, 7, "command line"),
    ],
)
def test_an_old_name_is_laid_over_as_the_new_one_is(file, changes, tiny, value, place):
    file.write_text(OLD)
    found = recipe.load(file, changes, tiny=tiny)
    assert (found.model["ffn_dim"], found.where("model.ffn_dim")) == (value, place)


def test_old_settings_of_the_transformer_are_in_sections(file, caplog):
    """A key of a section, and a switch that is another model today."""
    today = TEXT.replace("ffn_dim: 16}", "ffn_dim: 16, position: {kind: shaw, clip: 3}}")
    today = today.replace("name: transformer", "name: following-transformer")
    plain = recipe.load(file).check().resolved()["model"]
    assert plain["position"] == {
        "kind": "sinusoid",
        "max_length": 1024,
        "clip": 16,
        "buckets": 8,
        "relative": "both",
        "tables": "head",
    }
    file.write_text(today)
    expected = recipe.load(file, ["model.attention.window=4"], tiny=True).check()
    file.write_text(TEXT.replace("ffn_dim: 16}", "ffn_dim: 16, positions: shaw, clip: 3}"))
    found = recipe.load(file, ["model.window=4", "model.follow=true"], tiny=True).check()
    assert found.resolved() == expected.resolved()
    assert found.model["attention"] == {"window": 4}
    assert found.where("model.position.kind") == "small.yaml:2"
    assert caplog.messages == [
        "small.yaml:2: model.positions is now called model.position.kind",
        "small.yaml:2: model.clip is now called model.position.clip",
        "command line: model.window is now called model.attention.window",
        "command line: model.follow is now called model.name=following-transformer",
    ]
    off = recipe.load(file, ["model.follow=false"])
    assert off.model["name"] == "transformer"
    with pytest.raises(RequestError, match=r"line: PositionSettings has no setting 'klip'"):
        recipe.load(file, ["model.position.klip=1"]).check()
    with pytest.raises(RequestError, match=r"model\.attention\.dropout: expected a number .*1\.5"):
        recipe.load(file, ["model.attention.dropout=1.5"]).check()


def test_a_name_that_another_model_still_has_stays(file):
    file.write_text(OLD)
    other = recipe.load(file, ["model={name: rnnsearch, hidden: 5, embed: 4}"])
    assert other.model == {"name": "rnnsearch", "hidden": 5, "embed": 4}


def test_old_names_of_decoders_and_tokenizers(file, caplog):
    today = TEXT.replace("target: en}}", "target: en}, tokenizer: {vocab_size: 90, shared: true}}")
    today = today.replace("  model.ffn_dim: 8", "  data.tokenizer: {source: {vocab_size: 80}}")
    file.write_text(today)
    expected = recipe.load(file, ["decode.length_penalty=0.5"], tiny=True).check().resolved()
    assert expected["data"]["tokenizer"]["source"] == {"vocab_size": 80}
    file.write_text(today.replace("vocab_size", "size").replace("beam_size", "size"))
    found = recipe.load(file, ["decode.length=0.5"], tiny=True).check()
    assert found.resolved() == expected
    assert caplog.messages == [
        "small.yaml:4: data.tokenizer.size is now called data.tokenizer.vocab_size",
        "small.yaml:10: decode.size is now called decode.beam_size",
        "small.yaml:13: data.tokenizer.source.size is now called data.tokenizer.source.vocab_size",
        "command line: decode.length is now called decode.length_penalty",
    ]


def test_the_old_name_beside_the_new_one_is_refused(file):
    file.write_text(TEXT.replace("ffn_dim: 16}", "ffn_dim: 16, hidden: 8}"))
    with pytest.raises(RequestError, match=r"small\.yaml:2: model\.hidden and model\.ffn_dim are"):
        recipe.load(file)
