"""`regard compare`: folders as they are, recipes trained once, and what is refused."""

import json

import pytest

from regard import loading
from regard.errors import RequestError
from regard.evaluation.comparing import markdown, variations
from regard.evaluation.scoring import scored
from regard.metrics import holm, paired
from tests.cli.run import run
from tests.folder import toy
from tests.train.runs import recipe

pytestmark = pytest.mark.usefixtures("steps_by_pytorch")

ROWS = [(german, english) for german, english in zip(toy.GERMAN, toy.ENGLISH, strict=True)][:3]


@pytest.fixture(scope="module")
def test_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "test.tsv"
    lines = [("de", "en"), *ROWS, ("ein Hund wird gespeichert .", "a dog is saved .")]
    file.write_text("".join("\t".join(row) + "\n" for row in lines), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    at = tmp_path_factory.mktemp("models")
    return [str(toy.make(at / name, name)) for name in ("rnnsearch", "transformer")]


def quick(folder, *, steps, test="mt-bible-de/test.tsv.gz"):
    """A recipe of few steps, whose decoder says little."""
    path = recipe(folder, steps=steps, validate=0, checkpoint=0, final="last")
    text = path.read_text().replace("  train:", f"  test: {test}\n  train:")
    text = text.replace("  threads: 1\n", "")  # else seeds train in processes of their own
    path.write_text(text + "decode: {name: greedy, max_length: 2}\n")
    return str(path)


def test_two_folders_on_one_file(capsys, folders, test_file):
    ran = run(capsys, "compare", *folders, "--data", test_file, "--samples", "50", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out.splitlines()[-1])
    scores = [scored(loading.load(folder), test_file).scores for folder in folders]
    assert [s["system"] for s in found["systems"]] == folders
    assert found["examples"] == 4
    assert "test examples only" in found["covers"]
    for name, told in found["systems"][1]["metrics"].items():
        assert told["value"] == pytest.approx(scores[1][name].value)
        true = paired(scores[0][name].sums, scores[1][name].sums, samples=50)
        assert told["difference"] == pytest.approx(true.value)
        assert told["p"] == pytest.approx(true.p)
        assert "p_holm" not in told  # a single comparison
    assert "difference" not in found["systems"][0]["metrics"]["bleu"]
    assert markdown(found).splitlines()[1].startswith("|---|")


def test_the_table_and_one_metric(capsys, folders, test_file):
    ran = run(capsys, "compare", *folders, "--data", test_file, "--metric", "chrf")
    head, _, first, second, *_ = ran.out.splitlines()
    assert head == "| system | parameters | chrf |"
    assert first.startswith(f"| {folders[0]} |")
    assert "(p " in second
    assert "(p " not in first
    assert "cover the choice of test examples only, not the randomness of training" in ran.out


def test_a_folder_of_seeds_is_one_system(capsys, tmp_path, folders, test_file):
    """A mean over seeds; the same model under two seeds is that model, with no more certainty."""
    seeds = tmp_path / "several"
    seeds.mkdir()
    for number, folder in ((2, 0), (10, 1)):
        (seeds / f"seed-{number}").symlink_to(folders[folder], target_is_directory=True)
    twice = tmp_path / "twice"
    twice.mkdir()
    for number in (1, 2):
        (twice / f"seed-{number}").symlink_to(folders[1], target_is_directory=True)
    ran = run(capsys, "compare", *folders, str(seeds), str(twice), "--data", test_file,
              "--samples", "50", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    one, two, several, same = json.loads(ran.out.splitlines()[-1])["systems"]
    assert several["system"] == str(seeds)
    for name, told in several["metrics"].items():
        assert told["each"] == [one["metrics"][name]["value"], two["metrics"][name]["value"]]
        assert told["value"] == pytest.approx(sum(told["each"]) / 2)
        tested = [system["metrics"][name] for system in (two, several, same)]
        assert [each["p_holm"] for each in tested] == holm([each["p"] for each in tested])
        assert "p_holm" not in one["metrics"][name]
        assert same["metrics"][name]["sd"] == 0.0
        for figure in ("interval", "difference", "difference_interval", "p"):
            assert same["metrics"][name][figure] == pytest.approx(two["metrics"][name][figure])


def test_the_table_has_the_corrected_p():
    rows = [{"bleu": {"value": 1.0}}]
    rows += [{"bleu": {"value": 2.0, "difference": 1.0, "p": 0.02, "p_holm": 0.04}}]
    systems = [{"system": n, "parameters": 1, "metrics": m} for n, m in enumerate(rows)]
    table = markdown({"systems": systems, "examples": 5, "samples": 9})
    assert "+1.00 (p 0.020, Holm 0.040)" in table
    assert "corrected for the number of comparisons (Holm)" in table
    del rows[1]["bleu"]["p_holm"]
    assert "Holm" not in markdown({"systems": systems, "examples": 5, "samples": 9})


@pytest.mark.slow
def test_recipes_are_trained_once_and_varied(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = quick(tmp_path, steps=4)
    words = ["compare", path, "--vary", "model.heads=1,2", "--seeds", "1-2", "--samples", "20",
             "--json", "-o", "out"]  # fmt: skip
    ran = run(capsys, *words)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out.splitlines()[-1])
    assert [s["system"].split()[-1] for s in found["systems"]] == ["model.heads=1", "model.heads=2"]
    for system in found["systems"]:
        told = system["metrics"]["bleu"]
        assert len(told["each"]) == 2
        assert told["value"] == pytest.approx(sum(told["each"]) / 2)
        assert system["steps"] == 4
    weights = sorted((tmp_path / "out").rglob("model.safetensors"))
    assert len(weights) == 4
    times = [file.stat().st_mtime_ns for file in weights]
    again = run(capsys, *words)
    assert json.loads(again.out.splitlines()[-1]) == found
    assert [file.stat().st_mtime_ns for file in weights] == times


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{0}"], "two systems or more"),
        (["pronunciation/rnnsearch-cmudict"], "two systems or more"),  # before it is trained
        (["{0}", "{1}", "--tiny"], "--tiny"),
        (["{0}", "{1}", "-o", "x"], "-o"),
        (["{0}", "{1}", "--engine", "local"], "--engine"),
        (["{0}", "{1}", "model.heads=2"], "these are trained folders"),
        (["{0}", "{1}", "--data", "{2}", "--metric", "blue"], "did you mean 'bleu'"),
        (["no-such-recipe", "{0}"], "no-such-recipe"),
    ],
)
def test_what_is_refused(capsys, folders, test_file, words, message):
    ran = run(capsys, "compare", *(word.format(*folders, test_file) for word in words))
    assert ran.code == 2
    assert message in ran.err


def test_other_examples_are_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = []
    for name, test in (("a", "mt-bible-de/test.tsv.gz"), ("b", "mt-gnome-de/test.tsv.gz")):
        (tmp_path / name).mkdir()
        paths.append(quick(tmp_path / name, steps=2, test=test))
    ran = run(capsys, "compare", *paths)
    assert ran.code == 2
    assert "not scored on the same examples" in ran.err


def test_variations_are_every_combination():
    assert variations([]) == [[]]
    assert variations(["a.b=1,2", "c=x,y"]) == [
        ["a.b=1", "c=x"], ["a.b=1", "c=y"], ["a.b=2", "c=x"], ["a.b=2", "c=y"],
    ]  # fmt: skip


def test_a_comma_within_a_value_varies_nothing():
    varied = variations(["m.select=softmax, {name: local-m, reach: 2},[1,[2,3]],'a,b'"])
    assert [one for (one,) in varied] == [
        "m.select=softmax", "m.select={name: local-m, reach: 2}", "m.select=[1,[2,3]]",
        "m.select='a,b'",
    ]  # fmt: skip
    with pytest.raises(RequestError, match="two values or more"):
        variations(["m.select={name: local-m, reach: 2}"])
