"""Twenty scripts through every task of texts: nothing depends on the normal form of a file."""

import json
import unicodedata

import pytest

import regard
from regard import catalog, recipe, tasks, train
from regard.data.formats import read, write_back
from regard.data.text.normal_form import composed
from regard.evaluation.scoring import scored
from regard.inference.alignment import align
from regard.inference.unknown_words import read_lexicon
from tests.tasks.normal_forms import FORMS, plain, same_examples
from tests.tasks.scripts import DATA, MODELS, SCRIPTS, SETTINGS, write


def config(task, folder):
    return {"path": str(folder), **DATA.get(task, {})}


def test_the_scripts_are_twenty_and_most_have_two_forms():
    assert len(SCRIPTS) == 20
    two = [one for one in SCRIPTS.values() if unicodedata.normalize("NFD", one) != composed(one)]
    assert len(two) >= 10


@pytest.mark.parametrize("name", MODELS)
def test_data_in_both_forms_are_the_same_examples(name, tmp_path):
    for form in FORMS:
        write(name, tmp_path / form, form)
    task = tasks.load(name)(**SETTINGS.get(name, {}))
    own = {form: task.data(config(name, tmp_path / form)) for form in FORMS}
    mixed = [
        task.data(config(name, tmp_path / one), own[other].fields)
        for one, other in (FORMS, FORMS[::-1])
    ]
    for found in (own["NFD"], *mixed):
        same_examples(found, own["NFC"])


def test_names_of_columns_rows_and_groups_are_found_in_both_forms(tmp_path):
    columns = {"text": "té", "label": "žena"}
    where = {"pays": ["Bénin", "한국"]}
    found = []
    for form in FORMS:
        for end in ("csv", "tsv", "jsonl", "json"):
            folder = tmp_path / f"{form}-{end}"
            folder.mkdir()
            rows = [
                (f"é {n}", "äb"[n % 2], ("Bénin", "Việt", "한국")[n % 3], f"é{n % 14}")
                for n in range(84)
            ]
            names = ("té", "žena", "pays", "gé")
            told = [dict(zip(names, row, strict=True)) for row in rows]
            between = {"csv": ",", "tsv": "\t"}.get(end)
            lines = [between.join(row) for row in (names, *rows)] if between else []
            if end == "jsonl":
                lines = [json.dumps(row, ensure_ascii=False) for row in told]
            whole = [json.dumps(told, ensure_ascii=False)] if end == "json" else lines
            text = "".join(line + "\n" for line in whole)
            (folder / f"a.{end}").write_text(unicodedata.normalize(form, text), encoding="utf-8")
            told = {"path": str(folder / f"a.{end}"), "columns": columns, "where": where}
            split = {"shares": [0.6, 0.2, 0.2], "by": "gé" if end == "jsonl" else ""}
            data = tasks.load("classification")().data({**told, "split": split})
            found.append((end, data.noted["split"]["digest"], plain(data.test.texts)))
    for one, other in zip(found[:4], found[4:], strict=True):
        assert one == other


def test_what_a_lexicon_and_tags_say_holds_in_both_forms(tmp_path):
    (tmp_path / "words.tsv").write_text(unicodedata.normalize("NFD", "été\tverão\n"))
    assert read_lexicon(tmp_path / "words.tsv") == {"été": unicodedata.normalize("NFD", "verão")}
    file = write("tagging", tmp_path / "data", "NFD") / "test.conll"
    rows = list(read(file, {"text": 1, "tags": 2}))
    said = {row.line: composed(row.fields["tags"]) for row in rows}
    write_back(file, tmp_path / "same.conll", said, column=2)
    assert (tmp_path / "same.conll").read_bytes() == file.read_bytes()  # nothing has changed
    said[rows[0].line] = "O O O O"
    write_back(file, tmp_path / "one.conll", said, column=2)
    old, new = (one.read_bytes().split(b"\n") for one in (file, tmp_path / "one.conll"))
    assert [n for n, both in enumerate(zip(old, new, strict=True)) if both[0] != both[1]] == [
        0,
        1,
        3,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_and_is_scored_in_both_forms(name, tmp_path):
    for form in FORMS:
        write(name, tmp_path / form, form)
    model = MODELS[name]
    text = {
        "model": {"name": model, **catalog.entry(model).tiny},
        "task": {"name": name, **SETTINGS.get(name, {})},
        "data": config(name, tmp_path / "NFC"),
        "train": {
            "steps": 4, "batch": {"tokens": 150}, "log": 100, "seed": 1,
            "optimizer": {"name": "adam", "lr": 0.02}, "validate": {"every": 100, "examples": 4},
        },
    }  # fmt: skip
    (tmp_path / "own.yaml").write_text(json.dumps(text))
    train.fit(recipe.load(tmp_path / "own.yaml"), tmp_path / "run", progress=False)
    loaded = regard.load(tmp_path / "run")
    tests = {form: next((tmp_path / form).glob("test.*")) for form in FORMS}
    found = {form: scored(loaded, tests[form]) for form in FORMS}
    assert {k: v.value for k, v in found["NFC"].scores.items()} == pytest.approx(
        {k: v.value for k, v in found["NFD"].scores.items()}
    )
    answers = {form: loaded.predict(list(found[form].examples.texts)) for form in FORMS}
    for one, other in zip(answers["NFC"], answers["NFD"], strict=True):
        assert composed(one.output) == composed(other.output)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.refused == other.refused
        if name == "tagging":
            assert [composed(e["text"]) for e in one.entities] == [
                composed(e["text"]) for e in other.entities
            ]
            for each in (one, other):
                assert all(each.input[e["start"] : e["end"]] == e["text"] for e in each.entities)
        if name == "relations":
            assert one.document.id == other.document.id
            for a, b in zip(one.document.mentions, other.document.mentions, strict=True):
                assert composed(a.of(one.document.text)) == composed(b.of(other.document.text))
    if name == "translation":
        links = [
            [one.alignment for one in align(loaded.model, answers[form], loaded.tokenizers)]
            for form in FORMS
        ]
        assert links[0] == links[1]
