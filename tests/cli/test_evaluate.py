"""`regard evaluate`: the official scores of every kind of file, and what is wrong with others."""

import gzip
import json

import pytest
import sacrebleu

from regard import loading
from tests.cli.run import run
from tests.folder import toy

PAIRS = [
    ("die Datei wird gespeichert .", "the file is saved ."),
    ("ein Hund läuft .", "a dog runs ."),
    ("das Fenster wird geschlossen .", "the window is closed ."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose outputs are words, so that BLEU finds four in a row."""
    return str(toy.make(tmp_path_factory.mktemp("cli") / "toy", "rnnsearch", kind="words"))


@pytest.fixture(scope="module")
def files(tmp_path_factory, folder):
    """The same pairs in every format; two of three references are the model's outputs."""
    place = tmp_path_factory.mktemp("data")
    outputs = loading.load(folder).translate([de for de, _ in PAIRS])
    rows = [
        (de, out if i else en) for i, ((de, en), out) in enumerate(zip(PAIRS, outputs, strict=True))
    ]
    lines = ["id\ten\tde", *(f"{i}\t{en}\t{de}" for i, (de, en) in enumerate(rows))]
    text = "\n".join(lines) + "\n"
    (place / "test.tsv").write_text(text)
    (place / "test.tsv.gz").write_bytes(gzip.compress(text.encode()))
    objects = [json.dumps({"de": de, "en": en}) for de, en in rows]
    (place / "test.jsonl").write_text("\n".join(objects))
    (place / "plain.tsv").write_text("\n".join(f"{en}\t{de}" for de, en in rows))
    (place / "folder").mkdir()
    (place / "folder" / "test.tsv").write_text(text)
    (place / "folder" / "dev.tsv").write_text("\n".join(lines[:2]))
    (place / "broken.tsv").write_text(text + "3\tx\n" + "4\tthe file\t\n")
    references = [en for _, en in rows]
    score = sacrebleu.corpus_bleu(outputs, [references]).score
    assert 0 < score < 100
    return place, score


@pytest.mark.parametrize("name", ["test.tsv", "test.tsv.gz", "test.jsonl", "folder"])
def test_the_score_is_sacrebleus_whatever_the_file(name, capsys, folder, files):
    place, score = files
    ran = run(capsys, "evaluate", folder, "--data", str(place / name), "--json")
    assert ran.code == 0
    assert list(ran.result) == ["metrics", "signature", "examples", "seconds"]
    assert ran.result["metrics"]["bleu"] == pytest.approx(score)
    assert ran.result["signature"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert set(ran.result["metrics"]) == set(ran.result["signature"]) == {"bleu", "chrf"}
    assert ran.result["examples"] == 3
    assert ran.result["seconds"] >= 0


def test_other_columns_by_name_or_number(capsys, folder, files):
    place, score = files
    words = ("evaluate", folder, "--data", str(place / "test.tsv"), "--json")
    ran = run(capsys, *words, "--columns", "source=3,target=2")
    assert ran.result["metrics"]["bleu"] == pytest.approx(score)
    swapped = run(capsys, *words, "--columns", "source=en,target=de")
    assert swapped.result["metrics"]["bleu"] != pytest.approx(score)


def test_a_split_of_a_folder(capsys, folder, files):
    place, _ = files
    words = ("evaluate", folder, "--data", str(place / "folder"), "--json", "--split", "dev")
    assert run(capsys, *words).result["examples"] == 1


def test_people_get_lines(capsys, folder, files):
    place, score = files
    ran = run(capsys, "evaluate", folder, "--data", str(place / "test.tsv"))
    assert ran.out.splitlines()[0].split()[:2] == ["bleu", f"{score:.2f}"]
    assert "nrefs:1" in ran.out
    assert "3 examples" in ran.err


def test_settings_reach_decoder_and_task(capsys, folder, files):
    place, score = files
    words = ("evaluate", folder, "--data", str(place / "test.tsv"), "--json")
    ran = run(capsys, *words, "--set", "task.lowercase=true", "--set", "max_length=1")
    assert "case:lc" in ran.result["signature"]["bleu"]
    assert ran.result["metrics"]["bleu"] < score


def test_rows_are_chosen_as_in_training_and_the_signature_says_so(capsys, tmp_path, files):
    """The reference is the score of files that have only the chosen rows."""
    place, _ = files
    made = toy.make(tmp_path / "model", "rnnsearch", kind="words")
    config = json.loads((made / "config.json").read_text())
    config["data"]["where"] = {"of": ["a", "b"]}
    (made / "config.json").write_text(json.dumps(config))
    rows = (place / "test.tsv").read_text().splitlines()
    every = [f"{row}\t{of}" for row, of in zip(rows, ["of", "a", "b", "c"], strict=True)]
    for name, some in (("all", every), ("ab", every[:3]), ("c", [every[0], every[3]])):
        (tmp_path / f"{name}.tsv").write_text("\n".join([*some, *["x"] * (name == "ab")]) + "\n")

    def scored(file, *words):
        ran = run(capsys, "evaluate", str(made), "--data", str(tmp_path / file), "--json", *words)
        told = ran.result
        return ran.code, told.get("examples"), told["metrics"]["bleu"], told["signature"]["bleu"]

    code, count, bleu, signature = scored("all.tsv")
    assert (code, count) == (0, 2)
    assert signature.endswith("|where:of=a,b")
    only = scored("ab.tsv", "--where", "all")
    assert only[:3] == (0, 2, pytest.approx(bleu))
    assert "where" not in only[3]
    assert only[3].endswith("|left_out:1")
    assert scored("all.tsv", "--where", "of=c")[:3] == scored("c.tsv", "--where", "all")[:3]
    assert scored("all.tsv", "--where", "all")[1] == 3
    for words, said in (
        ([], "--where all reads every row"), (["--where", "of"], "expected COLUMN=VALUE"),
        (["--where", "off=a"], "off"), (["--split", "dev"], "one file without splits"),
    ):  # fmt: skip
        ran = run(capsys, "evaluate", str(made), "--data", str(place / "test.tsv"), *words)
        assert ran.code == 2
        assert said in ran.err


def test_bad_lines_are_left_out_and_counted(capsys, folder, files):
    place, score = files
    ran = run(capsys, "evaluate", folder, "--data", str(place / "broken.tsv"), "--json")
    assert ran.result["examples"] == 3
    assert ran.result["metrics"]["bleu"] == pytest.approx(score)
    assert "2 lines were left out" in ran.err
    assert "broken.tsv:5" in ran.err


@pytest.mark.parametrize(("expect", "code"), [([0, 1], 1), ([99, 100], 1), ([0, 100], 0)])
def test_the_ranges_are_the_recipes(expect, code, capsys, files, tmp_path):
    place, _ = files
    made = toy.make(tmp_path / "model", "rnnsearch", kind="words")
    recipe = (made / "recipe.yaml").read_text()
    start = recipe.index("expect:")
    (made / "recipe.yaml").write_text(recipe[:start] + f"expect: {{bleu: {expect}}}\n")
    ran = run(capsys, "evaluate", str(made), "--data", str(place / "test.tsv"), "--check", "--json")
    assert ran.code == code
    assert ran.result["check"]["outside"] == (["bleu"] if code else [])
    assert ("the recipe expects" in ran.err) == bool(code)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--columns", "source=fr,target=en"], "no column 'fr' for 'source'; the heading line has"),
        (["--columns", "source=fr,target=en"], "'id', 'en', 'de'"),
        (["--columns", "sauce=de"], "did you mean 'source'"),
        (["--columns", "de,en"], "expected FIELD=NAME"),
        (["--split", "tset"], "tset"),
    ],
)
def test_wrong_requests_exit_with_2(words, said, capsys, folder, files):
    place, _ = files
    ran = run(capsys, "evaluate", folder, "--data", str(place / "test.tsv"), "--json", *words)
    assert ran.code == 2
    assert said in ran.result["error"]


def test_no_such_data_exits_with_2(capsys, folder):
    ran = run(capsys, "evaluate", folder, "--data", "nowhere/test.tsv")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no data at 'nowhere/test.tsv'" in ran.err
