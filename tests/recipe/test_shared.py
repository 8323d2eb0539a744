"""A `data:` section that recipes share: found by name or file, laid under a recipe's own keys."""

import pytest

from regard import recipe
from regard.errors import RequestError

TOP = """
model: {name: transformer, dim: 32}
task: {name: translation}
data:
  use: %s
  max_length: 50
tiny: {data.path: small}
"""


@pytest.fixture
def given(tmp_path):
    """A recipe that uses another file of its folder, and that file."""
    shared = tmp_path / "shared.yaml"
    shared.write_text("path: corpus\ncolumns: {source: en, target: de}\nmax_length: 100\n")
    mine = tmp_path / "mine.yaml"
    mine.write_text(TOP % "shared.yaml")
    return mine, shared


def test_keys_beside_it_lie_over_what_is_shared(given):
    mine, shared = given
    found = recipe.load(mine, ["data.columns.target=fr"])
    assert found.data == {
        "path": "corpus", "columns": {"source": "en", "target": "fr"}, "max_length": 50,
    }  # fmt: skip
    assert found.shared == shared
    places = [found.where(f"data.{key}") for key in ("path", "max_length", "columns.target")]
    assert [place.rpartition("/")[2] for place in places] == [
        "shared.yaml:1", "mine.yaml:6", "command line",
    ]  # fmt: skip
    assert recipe.load(mine, tiny=True).data["path"] == "small"
    assert "use" not in found.dump()


def test_another_section_can_be_asked_for(given):
    mine, _ = given
    assert recipe.load(mine, ["data.use=data/questions"]).data["path"] == "questions"


KEPT = "where: {speaker: ann}\nvectors: {path: glove.npz}\n"


@pytest.mark.parametrize(
    ("overrides", "kept"),
    [
        ({"data": {"path": "other"}}, ["where", "vectors"]),
        ({"data.path": "other"}, ["where", "vectors"]),
        ({"data": {"path": "other", "vectors": None}}, ["where"]),
        ({"data.path": "other", "data.where": None}, ["vectors"]),
        ({"data.path": "other", "data.where.speaker": "bob", "data.vectors.path": "a.npz"}, []),
        ({"data.path": "corpus"}, []),
        ({"data.where": None}, []),
    ],
)
def test_what_stays_of_other_data_is_said(given, overrides, kept, caplog):
    """A path is merged as any key: rows that `where` chose are then chosen of other data."""
    mine, shared = given
    shared.write_text(shared.read_text() + KEPT)
    found = recipe.load(mine, overrides)
    found.check()
    found.check()  # it is said once
    lines = {"where": 4, "vectors": 5}
    which = " and ".join(f"data.{key} ({recipe.load(mine).where(f'data.{key}')})" for key in kept)
    assert all(f"shared.yaml:{lines[key]})" in which for key in kept)
    said = f"command line: data.path is 'other' now, and {which} still hold"
    end = f"{'s' * (len(kept) == 1)}; data.{kept[0]}=null leaves it out" if kept else ""
    assert caplog.messages == [said + end] * bool(kept)


def test_a_recipe_that_gives_another_path_than_its_shared_data_says_what_stays(given, caplog):
    mine, shared = given
    shared.write_text(shared.read_text() + KEPT)
    mine.write_text(mine.read_text().replace("  max_length", "  path: own\n  max_length"))
    recipe.load(mine).check()
    (said,) = caplog.messages
    assert "mine.yaml:6: data.path is 'own' now, and data.where (" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data/multi30", r"mine.yaml:5: data.use: expected .* got 'data/multi30': .*data/multi30k"),
        ("nowhere.yaml", r"mine.yaml:5: data.use: there is no file .*nowhere.yaml"),
        ("3", r"mine.yaml:5: data.use: expected a shared section"),
        ("translation/rnnsearch-multi30k", "expected a shared section"),
    ],
)
def test_what_is_not_there(given, text, said):
    mine, _ = given
    mine.write_text(TOP % text)
    with pytest.raises(RequestError, match=said):
        recipe.load(mine)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a list\n", r"shared.yaml:1: expected the keys of a data section"),
        ("path: a\nuse: data/questions\n", r"shared.yaml:2: use: a shared section uses no other"),
    ],
)
def test_a_shared_file_of_something_else(given, text, said):
    mine, shared = given
    shared.write_text(text)
    with pytest.raises(RequestError, match=said):
        recipe.load(mine)


def test_shared_sections_are_no_recipes_and_all_are_used():
    assert not [name for name in recipe.names() if name.startswith("data/")]
    used = [recipe.load(name).shared for name in recipe.names()]
    for file in (recipe.folder() / "data").glob("*.yaml"):
        assert used.count(file) > 1, f"{file.name} is used by fewer than two recipes"
