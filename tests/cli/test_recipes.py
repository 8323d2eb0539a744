"""`regard recipes`: list, show, copy, check."""

import pytest

from regard import recipe
from tests.cli.run import run

GOOD = """\
# regard train translation/small
# a second line
model: {name: transformer, dim: 16, heads: 2, layers: 1, ffn_dim: 16}
task:  {name: translation}
data:  {path: mt/de-en, columns: {source: other, target: en}}
train: {steps: 20}
expect: {bleu: [1.0, 3.5]}
tiny:  {train.steps: 3}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A recipe folder of two, in place of the real one."""
    root = tmp_path / "recipes"
    (root / "translation").mkdir(parents=True)
    (root / "pronunciation").mkdir()
    (root / "translation" / "small.yaml").write_text(GOOD)
    (root / "pronunciation" / "none-yet.yaml").write_text(GOOD.replace("expect", "# expect"))
    monkeypatch.setattr("regard.recipe.files.folder", lambda: root)
    monkeypatch.chdir(tmp_path)
    return root


def test_list_says_what_was_measured(capsys, folder):
    ran = run(capsys, "recipes")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["pronunciation/none-yet", "transformer", "mt/de-en", "-"] in lines
    assert ["translation/small", "transformer", "mt/de-en", "bleu", "1-3.5"] in lines
    rows = run(capsys, "recipes", "list", "translation", "--json").result["recipes"]
    assert [r["name"] for r in rows] == ["translation/small"]
    assert rows[0]["expect"] == {"bleu": [1.0, 3.5]}


def test_show_prints_the_file(capsys, folder):
    assert run(capsys, "recipes", "show", "small").out == GOOD
    shown = run(capsys, "recipes", "show", "small", "--json").result
    assert shown["name"] == "translation/small"
    assert shown["recipe"]["train"] == {"steps": 20}


def test_a_copy_is_the_users_own_and_says_so(capsys, folder, tmp_path):
    assert run(capsys, "recipes", "copy", "small", "my/own.yaml").code == 0
    text = (tmp_path / "my" / "own.yaml").read_text()
    assert text == GOOD.replace("translation/small", "my/own.yaml")
    assert recipe.load("my/own.yaml").train == {"steps": 20}

    ran = run(capsys, "recipes", "copy", "small", "my/own.yaml")
    assert ran.code == 2
    assert "my/own.yaml exists" in ran.err
    assert run(capsys, "recipes", "copy", "small", "my/own.yaml", "--force").code == 0

    assert run(capsys, "recipes", "copy", "small", "my", "--json").result["file"] == "my/small.yaml"
    assert run(capsys, "recipes", "copy", "small").code == 0
    assert (tmp_path / "small.yaml").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lst"], "there is no 'lst': did you mean 'list'?"),
        (["show"], "expected a recipe, got 0 words"),
        (["show", "smal"], "did you mean 'small'?"),
        (["copy", "small", "own.txt"], "ends in .yaml"),
        (["list", "translaton"], "did you mean 'translation'?"),
    ],
)
def test_wrong_requests(capsys, folder, words, said):
    ran = run(capsys, "recipes", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_check_finds_the_wrong_ones(capsys, folder):
    good = run(capsys, "recipes", "check")
    assert (good.code, good.out.count("good")) == (0, 2), good.err
    wrong = GOOD.replace("heads", "hedas")
    (folder / "translation" / "wrong.yaml").write_text(wrong)
    ran = run(capsys, "recipes", "check")
    assert ran.code == 1
    assert "wrong  translation/wrong" in ran.out
    assert "did you mean 'heads'?" in ran.out
    assert "wrong.yaml:3" in ran.out
    assert run(capsys, "recipes", "check", "small").code == 0

    ran = run(capsys, "recipes", "check", "--json")
    assert ran.result == {"error": "wrong recipes: translation/wrong"}
    assert '"checked": 3' in ran.out


def test_check_reads_the_tiny_form_too(capsys, folder):
    bad = GOOD.replace("train.steps: 3", "train.stepz: 3")
    (folder / "translation" / "small.yaml").write_text(bad)
    ran = run(capsys, "recipes", "check", "small")
    assert ran.code == 1
    assert "stepz" in ran.out


@pytest.mark.slow  # each is checked in tests/recipe; the command is tested on a few above
def test_every_recipe_of_the_repository_is_good(capsys):
    names = recipe.names()
    ran = run(capsys, "recipes", "check", "--json")
    assert ran.code == 0, ran.out
    assert ran.result == {"checked": len(names), "wrong": {}}
