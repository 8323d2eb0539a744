"""Tags of a folder's program are those of its model."""

import json

import pytest

from regard import loading
from regard.convert import add_program
from regard.errors import RequestError
from regard.folder.programs import open_program
from regard.runtime.stored_program import PROGRAM, BeyondProgram
from tests.folder.test_programs import same
from tests.tasks import taggers

NAMES = [
    {"text": "Dr Bo met Ann", "tags": "B-P I-P O B-P", "pos": "T N V N"},
    {"text": "Ann saw it", "tags": "B-P O O", "pos": "N V P"},
]
ROLES = {"scorer": "roles", "marks": True}
TEXTS = [
    *("Ann gave Bo a book to read.", "", "Bo saw Ann .", "Ann ||| 0", "Zoë reads Bo ||| 0 2"),
    *("Ann ||| 4", "Ann ||| ", " ||| 1", "Ann ||| x", "Ann ||| 1 ||| 2", "no predicate"),
    *("漢字 仮名 ||| 0", "Ann gave Bo a book . " * 30),
]


def data(folder):
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, NAMES * 6)) + "\n")
    return {"path": str(folder)}


def roles(folder, model="deepatt", **task):
    source = {"path": str(taggers.data(folder / "data")), "format": "conll2005"}
    return taggers.make(folder / "run", model, source, **ROLES, **task).folder


def alike(folder, texts):
    found, expected = open_program(folder).predict(texts), loading.load(folder).predict(texts)
    same(found, expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.line == theirs.line
        assert list(ours.as_json()) == list(theirs.as_json())
        for name in ("words", "predicates", "entities"):
            assert ours.as_json().get(name) == theirs.as_json().get(name)
    return found


@pytest.mark.parametrize("model", ["deepatt", "highway-bilstm", "bilstm-crf"])
@pytest.mark.parametrize("constraints", ["", "scheme", "roles"])
def test_roles_are_the_model_s(model, constraints, tmp_path):
    folder = roles(tmp_path, model, constraints=constraints, temperature=1.3)
    add_program(folder)
    found = alike(folder, TEXTS)
    assert found[0].line.startswith("[") or "[" in found[0].line
    assert [bool(one.refused) for one in found] == [False] * 5 + [True] * 5 + [False] * 3


@pytest.mark.parametrize("learned_as", ["", "iobes"])
def test_names_with_characters_are_the_model_s(learned_as, tmp_path):
    task = {"characters": True, "learned_as": learned_as, "constraints": "scheme", "outside": 0.5}
    taggers.make(tmp_path / "run", "bilstm-crf", data(tmp_path / "data"), **task)
    add_program(tmp_path / "run")
    texts = ["Dr Bo met Ann", "", "Ann", "Unbekannte sahen  Bo", "x" * 40 + " Ann", "Á A\u0301"]
    alike(tmp_path / "run", texts)


def test_words_of_any_tags_are_the_model_s(tmp_path):
    taggers.make(tmp_path / "run", "bilstm-crf", data(tmp_path / "data"), scheme="")
    add_program(tmp_path / "run")
    alike(tmp_path / "run", ["Dr Bo met Ann", "Ann"])


def test_predicates_that_nothing_finds_are_asked_for(tmp_path):
    folder = roles(tmp_path)
    (folder / "field.predicates.json").unlink()
    add_program(folder)
    found = alike(folder, ["Ann gave Bo a book.", "Ann gave Bo ||| 1"])
    assert "has no field.predicates.json" in found[0].refused
    assert found[1].output


def test_another_finder_of_predicates_is_not_used(tmp_path):
    folder = roles(tmp_path)
    add_program(folder)
    path = folder / "field.predicates.json"
    path.write_text(path.read_text() + "\n")
    assert open_program(folder) is None


def test_a_word_that_the_tokenizer_divides_is_left_to_pytorch(tmp_path):
    folder = roles(tmp_path)
    add_program(folder)
    with pytest.raises(BeyondProgram, match="a character in it that divides words"):
        open_program(folder).predict(["Ann\x1cgave Bo ||| 1"])


def test_a_text_beyond_the_table_of_positions_is_left_to_pytorch(tmp_path):
    folder = roles(tmp_path)
    add_program(folder)
    program = open_program(folder)
    assert program._most > 1000
    with pytest.raises(BeyondProgram, match="at most"):
        program.predict([f"{'Ann ' * (program._most + 1)} ||| 0"])


def test_a_tagger_has_no_decoder(tmp_path):
    folder = roles(tmp_path)
    add_program(folder)
    assert open_program(folder, {"beam_size": 2}) is None


REFUSED = {
    "columns": ("bilstm-crf", {"features": ["pos"]}, r"task\.features have no form there yet"),
    "windows": ("bilstm-crf", {"window": 4}, r"task\.window have no form there yet"),
    "another tagger": ("deep-bilstm-crf", ROLES, "of taggers only DeepAttTagger, BiLSTMCRF and"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_taggers_without_a_program_are_refused(case, tmp_path):
    model, task, said = REFUSED[case]
    if task.get("marks"):
        source = {"path": str(taggers.data(tmp_path / "data")), "format": "conll2005"}
    else:
        source = data(tmp_path / "data")
    taggers.make(tmp_path / "run", model, source, **task)
    with pytest.raises(RequestError, match=said):
        add_program(tmp_path / "run")
    assert not (tmp_path / "run" / PROGRAM).exists()
