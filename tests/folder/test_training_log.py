"""`regard curves`: what a log says, along each axis, as a table, as JSON and as a picture."""

import json

import pytest

from regard.errors import RequestError
from regard.folder.training_log import TrainingLog, bars, read_trainings, usual
from regard.views.curves import Curve
from tests.cli.run import run

LINES = [
    {"step": 10, "epoch": 0.5, "loss": 4.0, "lr": 0.1, "reward": 0.2, "wall": 3.0, "cpu": 2.0},
    {"step": 20, "epoch": 1.0, "loss": 2.0, "lr": 0.2, "reward": None, "wall": 6.0, "cpu": 4.0},
    {"step": 15, "dev": {"loss": 3.0, "perplexity": 20.0, "bleu": 7.5}, "best": 7.5, "seconds": 1.0,
     "wall": 4.5, "cpu": 3.0},
    {"step": 20, "dev": {"loss": 2.5, "perplexity": 12.0, "bleu": 9.0}, "best": 9.0, "seconds": 1.0,
     "wall": 6.5, "cpu": 4.5},
]  # fmt: skip


def write(folder, lines=LINES, end="\n"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)) + end)
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "one")


def test_each_number_along_each_axis(folder):
    (one,) = read_trainings([folder])
    assert one.curve("loss") == Curve(folder, "loss", (10.0, 20.0), (4.0, 2.0))
    assert one.curve("dev.bleu", "cpu") == Curve(folder, "dev.bleu", (3.0, 4.5), (7.5, 9.0))
    assert one.curve("dev.loss", "epoch").x == (0.75, 1.0)  # step 15 lies between 10 and 20
    assert one.curve("reward").y == (0.2,)  # what was not finite is left out
    assert not {"best", "seconds", "step"} & {*one.names}


def test_what_is_shown_where_nothing_is_asked_for(folder):
    assert usual(read_trainings([folder])) == [["loss", "dev.loss"], ["dev.bleu"]]


def test_the_table_the_json_and_the_picture(capsys, folder, tmp_path):
    other = write(tmp_path / "two", LINES[:2])
    ran = run(capsys, "curves", folder, other)
    assert ran.code == 0, ran.err
    head, *rows, _, last = ran.out.splitlines()
    assert head.split() == ["CURVE", "RUN", "FIRST", "LAST", "LOWEST", "HIGHEST"]
    assert [row.split()[:2] for row in rows] == [
        ["loss", folder], ["loss", other], ["dev.loss", folder], ["dev.bleu", folder],
    ]  # fmt: skip
    assert rows[0].split()[-6:] == ["2", "at", "20", "4", "at", "10"]
    assert last == "from left to right: 10 to 20 updates"

    drawn = tmp_path / "curves.svg"
    ran = run(
        capsys, "curves", folder, other, "--show", "loss+dev.loss,lr", "-o", str(drawn), "--json"
    )
    assert ran.code == 0, ran.err
    named = [(one["name"], one["run"]) for one in ran.result["curves"]]
    assert named == [
        ("loss", folder), ("loss", other), ("dev.loss", folder), ("lr", folder), ("lr", other),
    ]  # fmt: skip
    assert ran.result["curves"][0]["y"] == [4.0, 2.0]
    assert drawn.read_text().count('<g id="axes_') == 2


def test_seeds_are_trainings_of_their_own(tmp_path):
    for seed in (10, 9, 1):
        write(tmp_path / "runs" / f"seed-{seed}")
    names = [one.run.rpartition("-")[2] for one in read_trainings([tmp_path / "runs"])]
    assert names == ["1", "9", "10"]


def test_a_line_that_is_being_written(tmp_path):
    folder = write(tmp_path / "running", LINES[:1], end='\n{"step": 20, "lo')
    assert read_trainings([folder])[0].curve("loss").x == (10,)


def test_bars_lie_on_one_axis():
    late = Curve("late", "loss", (6.0, 8.0), (2.0, 0.0))
    assert bars(late, (0.0, 8.0), (0.0, 2.0), width=8) == "      █▁"
    assert bars(Curve("flat", "loss", (1.0,), (3.0,)), (1.0, 1.0), (3.0, 3.0), width=3) == "▁  "


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--show", "dev.blue"), "no training here has a curve 'dev.blue': did you mean"),
        (("--by", "epcoh"), "--by epcoh: did you mean 'epoch'?"),
        (("-o", "curves.gif"), "curves.gif: pictures are written as .pdf, .png, .svg"),
        (("nowhere",), "nowhere"),
    ],
)  # fmt: skip
def test_what_is_refused(capsys, folder, words, said):
    ran = run(capsys, "curves", folder, *words)
    assert ran.code == 2
    assert said in ran.err


def test_logs_that_are_none(tmp_path):
    with pytest.raises(RequestError, match=r"expected a model folder with log\.jsonl"):
        read_trainings([tmp_path])
    with pytest.raises(RequestError, match="nothing is logged yet"):
        read_trainings([write(tmp_path / "begun", [], end="")])
    (tmp_path / "broken").mkdir()
    broken = tmp_path / "broken" / "log.jsonl"
    broken.write_text('{"step": 1, "loss": 2}\nloss 3\n')
    with pytest.raises(
        RequestError, match=r"log.jsonl, line 2: expected a JSON object, got 'loss 3'"
    ):
        TrainingLog("broken", broken)
