"""`regard demo`, with few updates."""

import gzip
import importlib
import shutil
import subprocess
import sys
import time

import pytest

from regard import loading, recipe
from regard.cli import demo
from regard.cli._common import configure_talk
from regard.data.sources import shipped
from regard.folder import places
from regard.system.extras import install
from tests.cli.run import run
from tests.folder import toy
from tests.repo.tree import TOP


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The demo with 60 dates and a toy translator."""
    place = tmp_path_factory.mktemp("demo")
    (place / "dates").mkdir()
    for split, count in (("train", 60), ("dev", 10), ("test", 20)):
        with gzip.open(shipped() / "dates" / f"{split}.tsv.gz", "rt", encoding="utf-8") as file:
            lines = [file.readline() for _ in range(count + 1)]
        (place / "dates" / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    text = (
        recipe.find(demo.RECIPE).read_text("utf-8").replace("path: dates", f"path: {place}/dates")
    )
    (place / "quick.yaml").write_text(text.replace("hidden: 64", "hidden: 8"), encoding="utf-8")
    toy.make(place / "models" / demo.TRANSLATOR, "transformer")
    for name in demo.READERS:
        shutil.copytree(places.SHIPPED / name, place / "models" / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "RECIPE", str(place / "quick.yaml"))
        patch.setattr(places, "SHIPPED", place / "models")
        yield place


@pytest.mark.slow
def test_the_demo_ends_with_one_json_line(capsys, quick, tmp_path):
    out = tmp_path / "out"
    ran = run(capsys, "demo", "--json", "--updates", "3", "-o", str(out))
    assert (ran.code, ran.out.count("\n")) == (0, 1), ran.out + ran.err
    result = ran.result
    assert list(result) == ["translation", "found", "dates", "pictures", "seconds"]
    assert list(result["translation"]) == list(demo.SENTENCES)
    assert list(result["dates"]["read"]) == list(demo.DATES)
    assert result["dates"]["examples"] == 20
    assert result["pictures"] == [
        str(out / "pictures" / f"{name}.png") for name in ("translation", *demo.READERS, "dates")
    ]
    assert "[V gave]" in result["found"]["roles-small"]
    assert result["found"]["relations-small"] == "Cause-Effect(e2,e1)"
    assert result["found"]["movie-reviews-small"] == "pos"
    assert result["found"]["stories-small"] == "hall"
    for picture in result["pictures"]:
        with open(picture, "rb") as file:
            assert file.read(4) == b"\x89PNG"
    loaded = loading.load(out / "dates")
    for written, read in result["dates"]["read"].items():
        assert loaded.translate(written) == read


def test_people_see_dates_and_what_comes_next(capsys, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(places, "SHIPPED", tmp_path)
    ran = run(capsys, "demo", "--updates", "1", "-o", str(tmp_path / "out"))
    assert ran.code == 0  # a build without models is no failure
    for said in (
        "does not come with this build",
        "1 updates",
        "of 20 held-out dates are read right",
        "picture: ",
        f'regard look {tmp_path / "out" / "dates"} "May 9, 2031"',
        "regard serve de-en-small",
        "regard train classification/self-attentive-pros-cons",
    ):
        assert said in ran.out


@pytest.mark.slow
def test_a_model_is_reused_only_if_asked(capsys, quick, tmp_path, monkeypatch):
    from regard import train

    monkeypatch.setattr(places, "SHIPPED", tmp_path)
    own, calls = train.fit, []
    monkeypatch.setattr(
        train, "fit", lambda *a, **k: calls.append(k) or own(*a, **k), raising=False
    )
    words = ("demo", "--updates", "2", "-o", str(tmp_path / "out"), "--json")
    first = run(capsys, *words, "--reuse").result  # nothing there to reuse
    again = run(capsys, *words, "--reuse").result
    assert len(calls) == 1
    assert first["dates"] == again["dates"]
    run(capsys, *words)
    assert len(calls) == 2
    assert calls[1]["fresh"]


def test_without_matplotlib_there_are_no_pictures(capsys, quick, tmp_path, monkeypatch):
    importlib.import_module("torchmetrics")  # its first import takes an installed one for usable
    monkeypatch.setattr(places, "SHIPPED", tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = run(capsys, "demo", "--updates", "1", "-o", str(tmp_path / "out"), "--json")
    assert (ran.code, ran.result["pictures"]) == (0, [])
    assert install("view") in ran.err


def test_something_is_said_every_few_seconds(capsys):
    configure_talk()  # whatever other tests left: one of them says -q
    with demo._heartbeat(every=0.3):
        time.sleep(1.5)
    assert capsys.readouterr().err.count("working") >= 2
    with demo._heartbeat(every=0.6) as heard:
        for _ in range(4):
            time.sleep(0.3)
            heard()
    assert "working" not in capsys.readouterr().err


def test_the_dates_are_those_of_the_tool_and_none_is_in_two_splits(tmp_path):
    made = subprocess.run([sys.executable, TOP / "tools" / "dates.py", tmp_path], check=False)
    assert made.returncode == 0
    days = {}
    for split, count in (("train", 20_000), ("dev", 500), ("test", 500)):
        file = f"{split}.tsv.gz"
        text = gzip.decompress((tmp_path / file).read_bytes())
        assert text == gzip.decompress((shipped() / "dates" / file).read_bytes())
        rows = [line.split("\t") for line in text.decode().splitlines()[1:]]
        assert len(rows) == count
        days[split] = {iso for _, iso in rows}
    assert not days["train"] & (days["dev"] | days["test"])
    assert not days["dev"] & days["test"]
