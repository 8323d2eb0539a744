"""Roles of plain texts: how they are cut, what they come to, what is said, and what is shown."""

import json

import pytest
import torch

import regard
from regard import tasks
from regard.data.annotations.predicate_texts import words_of
from regard.data.annotations.tagged_text import bracketed
from regard.errors import RequestError
from regard.fields import PredicatesField
from regard.tasks.tags.entities import RolesPrediction
from tests.cli.run import run
from tests.tasks import taggers

TASK = {"scorer": "roles", "marks": True, "constraints": "roles"}
PLAIN = "Ann gave Bo a book to read."
CUT = "Ann gave Bo a book to read ."


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    data = taggers.data(tmp_path_factory.mktemp("data"))
    source = {"path": str(data), "format": "conll2005"}
    return taggers.make(tmp_path_factory.mktemp("model") / "own", "deepatt", source, **TASK)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN, CUT),
        (CUT, CUT),
        ("He didn't, I'm sure!", "He did n't , I 'm sure !"),
        ("Mr. X left .", "Mr. X left ."),  # cut already: nothing else is
        ("(She left)", "( She left )"),
        ("I do n't (know)", "I do n't (know)"),
        ("a well-known U.S. firm - $5,000...", "a well-known U.S. firm - $ 5,000 ..."),
        ("É mesmo?", "É mesmo ?"),
    ],
)
def test_plain_texts_are_cut_and_cut_ones_stay(text, words):
    assert words_of(text) == words.split()


def test_stretches_are_in_brackets():
    words = ["She", "gave", "it", "to", "him"]
    assert bracketed(words, ["B-A0", "B-V", "B-A1", "B-A2", "I-A2"], "bio") == (
        "[A0 She] [V gave] [A1 it] [A2 to him]"
    )
    assert bracketed(words, ["O", "O", "I-A1", "O", "O"], "bio") == "She gave [A1 it] to him"
    assert bracketed(words, ["S-A", "O", "B", "O", "E"], "iobes") == "[A She] gave [it] to [him]"
    assert bracketed(words, list("abcde"), "") == "a b c d e"
    assert bracketed([], [], "bio") == ""


def test_a_plain_text_has_the_roles_of_each_predicate(loaded):
    texts = [PLAIN, f"{CUT} ||| 6", "", "Ann .", f"{CUT} ||| 99", "Bo saw Ann ."]
    found = loaded.predict(texts)
    one, two = loaded.predict([f"{CUT} ||| 1", f"{CUT} ||| 6"])
    plain = found[0]
    assert isinstance(plain, RolesPrediction)
    assert (plain.input, plain.words, plain.predicates) == (PLAIN, CUT.split(), [1, 6])
    words = CUT.split()
    assert plain.output == " | ".join(bracketed(words, p.output.split(), "bio") for p in (one, two))
    assert [part.output for part in plain.alternatives] == [one.output, two.output]
    assert plain.score == pytest.approx(one.score + two.score, rel=1e-5)
    assert found[1].output == two.output
    assert (found[2].output, found[2].refused) == ("", "")
    assert (found[3].output, found[3].refused, found[3].as_json()["predicates"]) == ("", "", [])
    assert found[4].refused == "no such word (99 of 8 words, counted from 0)"
    assert found[5].as_json()["words"] == ["Bo", "saw", "Ann", "."]
    assert [len(p.alternatives) for p in found] == [2, 0, 0, 0, 0, 1]


def test_scores_are_of_examples_and_batches_have_nothing_of_the_finder(loaded):
    data = loaded.task.data(loaded.config["data"], loaded.fields, ["test"]).test
    found = loaded.task.predict(loaded.model, data, None, loaded.fields)
    assert len(found) == len(data) == 80
    assert not any(isinstance(one, RolesPrediction) for one in found)
    assert not data.collate([0, 1])["predicates"].any()


def test_the_finder_is_a_file_of_the_folder_that_old_ones_lack(loaded, tmp_path):
    kept = json.loads((loaded.folder / "field.predicates.json").read_text())
    assert kept["weights"] == loaded.fields["predicates"].finder.weights
    for file in loaded.folder.iterdir():
        if file.name != "field.predicates.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    old = regard.load(tmp_path)
    assert not old.fields["predicates"].learned
    plain, marked = old.predict([PLAIN, f"{CUT} ||| 1"])
    assert "no field.predicates.json, which finds predicates" in plain.refused
    assert marked.output == loaded.predict([f"{CUT} ||| 1"])[0].output
    loaded.together(old)  # they differ in no probability
    with pytest.raises(RequestError, match=r"no field\.predicates\.json"):
        old.task.view(old, [PLAIN])
    (tmp_path / "field.predicates.json").write_text('{"kind": "predicates", "bias": 1}')
    with pytest.raises(RequestError, match=r"field\.predicates\.json holds no field"):
        regard.load(tmp_path)


def test_rows_of_one_text_are_one_sentence():
    rows = [("a b c", [1]), ("a b c", [2]), ("d e", [0])] * 9
    found = PredicatesField("text", "predicate").learn(rows).finder
    assert (found.find(["a", "b", "c"]), found.find(["d", "e"])) == ([1, 2], [0])


def test_texts_with_further_columns_have_marks_always():
    assert "predicates" not in tasks.load("tagging")().fields()
    with_pos = tasks.load("tagging")(marks=True, features=["pos"])
    (found,) = with_pos.predict(torch.nn.Identity(), [PLAIN], None, {})
    assert found.refused == "expected 3 inputs, text ||| predicate ||| pos; got 1"


def test_a_view_has_a_panel_for_each_predicate(loaded):
    view = loaded.task.view(loaded, [PLAIN, f"{CUT} ||| 6"])
    plain, marked = view.runs
    spans = [panel for panel in plain.panels if panel.kind == "spans"]
    assert [(p.title, p.anchor) for p in spans] == [("roles of gave", 1), ("roles of read", 6)]
    assert plain.output == loaded.predict([PLAIN])[0].output
    assert plain.result["predicates"] == [1, 6]
    layers = len(marked.maps)
    kinds = [view.maps[m].kind for m in plain.maps]
    assert kinds == ["self of gave"] * layers + ["self of read"] * layers
    assert {view.maps[m].kind for m in marked.maps} == {"self"}
    twice = loaded.task.view(loaded, ["Ann gave Bo and gave Ann"]).runs[0]
    titles = [panel.title for panel in twice.panels if panel.kind == "spans"]
    assert titles == ["roles of gave (1)", "roles of gave (4)"]
    kinds = [panel.kind for panel in plain.panels]  # roles first, then the last layer of each
    assert kinds == ["spans", "spans", "matrix", "matrix"]
    assert [view.maps[p.map].layer for p in plain.panels[2:]] == [layers, layers]
    with pytest.raises(RequestError, match="no predicate was found in 'Ann': mark a word"):
        loaded.task.view(loaded, ["Ann"])
    with pytest.raises(RequestError, match=r"was found in 'x{80}…': mark a word.* as in 'x{80}…"):
        loaded.task.view(loaded, ["x" * 5000])
    with pytest.raises(RequestError, match="the input is empty: there is nothing to look at"):
        loaded.task.view(loaded, [" "])


def test_the_command_line_reads_plain_texts(capsys, loaded):
    ran = run(capsys, "predict", str(loaded.folder), PLAIN, "Ann .", "--json")
    assert (ran.code, ran.err) == (0, "")
    plain, none = (json.loads(line) for line in ran.out.splitlines())
    assert (plain["predicates"], len(plain["alternatives"])) == ([1, 6], 2)
    assert (none["output"], none["predicates"], "refused" in none) == ("", [], False)
    ran = run(capsys, "look", str(loaded.folder), PLAIN, "--show", "spans")
    assert ran.code == 0
    assert ran.out.index("roles of gave") < ran.out.index("roles of read")


def test_a_long_line_is_read_by_sentences_and_that_is_said(loaded, caplog, monkeypatch):
    from regard.data.annotations import predicate_texts

    alone = loaded.predict([CUT])[0]
    monkeypatch.setattr(predicate_texts, "WHOLE", 8)
    monkeypatch.setattr(predicate_texts, "MANY", 16)
    (found,) = loaded.predict([f"{CUT} " * 6])
    said = [one for one in caplog.messages if "each reads its sentence" in one]
    assert len(said) == 1
    assert said[0].endswith("(at most 8 words): this takes minutes")
    count = len(CUT.split())
    assert list(found.predicates) == [
        i * count + place for i in range(6) for place in alone.predicates
    ]
    for i, one in enumerate(found.alternatives):
        own = one.output.split()
        assert len(own) == 6 * count
        start = i // len(alone.predicates) * count
        assert own[start : start + count] == alone.alternatives[i % 2].output.split()
        assert {*own[:start], *own[start + count :]} <= {"O"}
    assert found.output.count(" | ") == len(found.predicates) - 1


def test_what_a_predicate_reads_has_a_bound(monkeypatch):
    from regard.data.annotations import predicate_texts

    monkeypatch.setattr(predicate_texts, "WHOLE", 4)
    words = "a b c d e f g . h ? i".split()
    asked = predicate_texts.AskedText(" ".join(words), True, words, (0, 4, 6, 8, 10))
    read = [words[slice(*asked.window(place))] for place in asked.places]
    assert [" ".join(one) for one in read] == ["a b c d", "c d e f", "e f g .", "h ?", "i"]
    for place, example in zip(asked.places, asked.examples, strict=True):
        text, mark = example.split(" ||| ")
        assert text.split()[int(mark)] == words[place]
    short = predicate_texts.AskedText("a . b", True, ["a", ".", "b"], (2,))
    assert short.window(2) == (0, 3)
