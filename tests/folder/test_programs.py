"""Answers of a folder's program are those of its model, and never of another one."""

import json
import logging
import shutil

import pytest

from regard import loading
from regard.convert import add_program, export
from regard.errors import RequestError
from regard.folder.places import find
from regard.folder.programs import open_program
from regard.runtime.stored_program import PROGRAM, BeyondProgram
from tests.folder import toy

TEXTS = ["die Datei wird", "", "ein Hund läuft", "wird   wird", "?", "Äpfel Äpfel"]


@pytest.fixture(scope="module", params=["rnnsearch", "transformer", "convs2s"])
def folder(request, tmp_path_factory):
    made = toy.make(tmp_path_factory.mktemp("programs") / request.param, request.param)
    add_program(made)
    return made


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def same(found, expected):
    assert [one.output for one in found] == [one.output for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.input, ours.ids, ours.tokens) == (theirs.input, theirs.ids, theirs.tokens)
        assert ours.refused == theirs.refused
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)
        assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-4)
        same(ours.alternatives, theirs.alternatives)


@pytest.mark.parametrize(
    ("changes", "n_best"),
    [
        ({}, 3),
        ({"beam_size": 4}, 1),
        ({"length_penalty": 0, "beam_size": 3}, 3),
        ({"min_length": 3, "beam_size": 5}, 1),
        *(
            pytest.param(changes, n_best, marks=pytest.mark.slow)
            for changes, n_best in (
                ({}, 1),
                ({"beam_size": 4}, 3),
                ({"length_penalty": 0, "beam_size": 3}, 1),
                ({"min_length": 3, "beam_size": 5}, 3),
            )
        ),
    ],
    ids=str,
)
def test_answers_are_the_model_s(changes, n_best, folder):
    program = open_program(folder, changes, n_best)
    same(program.predict(TEXTS), loading.load(folder).predict(TEXTS, n_best=n_best, **changes))


def test_a_folder_without_a_program_has_none(tmp_path):
    assert open_program(toy.make(tmp_path / "plain")) is None


def changed_config(folder):
    toy.edit(folder, decode__beam_size=2)


def changed_tokenizer(folder):
    path = next(folder.glob("tokenizer*.json"))
    path.write_text(path.read_text() + "\n")


def changed_weights(folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def edited(**values):
    def change(folder):
        path = folder / PROGRAM
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


def half_a_file(folder):
    path = folder / PROGRAM
    path.write_text(path.read_text()[:1000])


WRONG = {
    "config": (changed_config, "config.json is another one; export the program again"),
    "tokenizer": (changed_tokenizer, "is another one"),
    "weights": (changed_weights, "the weights are not those of config.json"),
    "format": (edited(format=9), "expected format 1, got 9"),
    "half": (half_a_file, "; export the program again"),
    "a list": (lambda folder: (folder / PROGRAM).write_text("[]"), "; export the program again"),
    "no graph": (edited(encoder=None), "; export the program again"),
    "a kind of tomorrow": (edited(kind="pictures"), "KeyError: 'pictures'"),
    "an operator of tomorrow": (
        edited(encoder={"inputs": [], "outputs": [], "constants": {},
                        "nodes": [["Fft", [], ["x"], {}]]}), "Fft"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_program_of_other_files_is_not_used(case, copy, caplog):
    change, said = WRONG[case]
    change(copy)
    with caplog.at_level(logging.INFO, "regard"):
        assert open_program(copy) is None
    assert f"{copy / PROGRAM} is not used: " in caplog.text
    assert said in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        *({"name": "greedy"}, {"coverage_penalty": 0.2}, {"beam_size": 0}, {"beam_size": "x"}),
        *({"beam_size": 2.5}, {"length_penalty": -1}, {"max_ratio": 0, "max_extra": 0}),
        *(
            {"max_length": 2, "min_length": 4},
            {"beam_size": True},
            {"no_such": 1},
            {"beam_size": 5000},
        ),
    ],
    ids=str,
)
def test_what_the_search_does_not_have_is_left_to_pytorch(changes, folder):
    assert open_program(folder, changes) is None


def test_more_outputs_than_a_beam_has_are_left_to_pytorch(folder):
    assert open_program(folder, {"beam_size": 2}, 3) is None


def test_a_text_that_is_too_long_is_refused_alone(copy, caplog):
    toy.edit(copy, task__max_source=6)
    add_program(copy)
    texts = ["die Datei wird " * 5, "die Datei"]
    with caplog.at_level(logging.WARNING, "regard"):
        found = open_program(copy).predict(texts)
    same(found, loading.load(copy).predict(texts))
    assert found[0].refused.startswith("too long: ")
    assert caplog.text.count("1 of 2 inputs have more than 6 tokens and are refused") == 2


def test_unknown_letters_are_told_of(folder, caplog):
    with caplog.at_level(logging.WARNING, "regard"):
        open_program(folder).predict(["漢字仮名", "die Datei"])
        loading.load(folder).predict(["漢字仮名", "die Datei"])
    assert caplog.text.count("1 of 2 inputs: half of the letters or more are unknown") == 2


def test_a_text_beyond_the_tables_is_left_to_pytorch(folder):
    program = open_program(folder, {"max_extra": 100_000, "max_length": 100_000})
    if program._most is None and program._steps is None:
        pytest.skip("no table of positions")
    with pytest.raises(BeyondProgram, match="at most"):
        program.predict(["die Datei wird"])


def test_outputs_longer_than_is_usual_are_left_to_pytorch_which_says_so(folder):
    own = open_program(folder, {"min_length": 30, "max_extra": 1, "max_length": 40})
    with pytest.raises(BeyondProgram, match="no longer than max_ratio and max_extra allow"):
        own.predict(["die Datei wird"])
    assert open_program(folder, {"min_length": 3}).predict(["die Datei wird"])[0].output


def test_a_folder_written_again_has_its_program(folder, tmp_path):
    files = export(folder, "program", tmp_path / "again")
    assert {PROGRAM, "config.json", "model.safetensors", "recipe.yaml"} <= set(files)
    same(open_program(tmp_path / "again").predict(TEXTS), open_program(folder).predict(TEXTS))


REFUSED = {
    "another task": ("handwriting-small", "images has its own `reads_files`"),
    "files": ("emoji-small", "captioning has its own `"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_program_is_refused(case, tmp_path):
    name, said = REFUSED[case]
    with pytest.raises(RequestError, match=said):
        export(name, "program", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ({"name": "sample"}, "expected a beam or greedy decoding, got Sample"),
        ({"name": "beam", "coverage_penalty": 0.2}, r"decode\.coverage_penalty is PyTorch's alone"),
        ({"name": "beam", "no_repeat_ngram": 3}, r"decode\.no_repeat_ngram is PyTorch's alone"),
    ],
)
def test_decoders_that_the_search_is_not_are_refused(decode, said, copy):
    toy.edit(copy, decode=decode)
    with pytest.raises(RequestError, match=said):
        add_program(copy)


def test_greedy_decoding_is_a_search_too(copy):
    toy.edit(copy, decode={"name": "greedy"})
    add_program(copy)
    same(open_program(copy).predict(TEXTS), loading.load(copy).predict(TEXTS))


SENTENCES = [
    *("He didn't go (home).", "", "Mr. X left .", "word " * 600, "Yes", "What is it?"),
    "She gave him the book that he had wanted to read before the end of the year .",
]


@pytest.mark.parametrize("constrained", [True, False])
def test_trees_are_the_model_s(constrained, tmp_path):
    folder = shutil.copytree(find("parser-small"), tmp_path / "parser")
    toy.edit(folder, task__constrained=constrained)
    add_program(folder)
    found = open_program(folder, n_best=2).predict(SENTENCES)
    same(found, loading.load(folder).predict(SENTENCES, n_best=2))
    assert found[0].input == "He did n't go ( home ) ."
    assert found[3].refused.startswith("too long")


def test_where_no_tree_fits_the_input_is_refused(tmp_path):
    folder = shutil.copytree(find("parser-small"), tmp_path / "parser")
    add_program(folder)
    changes = {"max_length": 3}
    found = open_program(folder, changes).predict(SENTENCES[:1])
    same(found, loading.load(folder).predict(SENTENCES[:1], **changes))
