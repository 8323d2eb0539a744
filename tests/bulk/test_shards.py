"""Shards in, shards out: the lines of `regard predict`, each output whole or not at all."""

import contextlib
import gzip
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from regard.bulk import Order, predict_shards, shard_writer
from regard.cli import predict
from regard.data.files import packing
from regard.data.files.lines import LONGEST
from regard.errors import RegardError, RequestError
from regard.system.extras import install
from tests.bulk.toys import bytes_of, lines_of, objects_of, sentences
from tests.cli.run import run
from tests.cli.toy import _loads, folder, load_once, loaded
from tests.train.test_full_disk import room

__all__ = ["_loads", "folder", "load_once", "loaded"]
pytestmark = pytest.mark.usefixtures("load_once")


@pytest.fixture
def corpus(tmp_path):
    made = tmp_path / "corpus"
    made.mkdir()
    return made


def made(folder, corpus, out, **more):
    order = {k: more.pop(k) for k in [*more] if k in Order.__dataclass_fields__}
    return predict_shards(Order(folder, **order), str(corpus), out, workers=0, **more)


def test_text_lines_are_those_of_predict(capsys, folder, corpus, tmp_path, monkeypatch):
    for module in (shard_writer, predict):
        monkeypatch.setattr(module, "CHUNK", 16)
    texts = sentences(53)
    texts[3] = ""
    (corpus / "a.txt").write_text("\n".join(texts), "utf-8")  # no newline at the end
    with gzip.open(corpus / "b.de.gz", "wt", encoding="utf-8") as file:
        file.write("\ufeff" + "\r\n".join(texts[:40]) + "\r\n")
    (corpus / "empty.txt").touch()
    plain = run(capsys, "predict", folder, "-i", str(corpus / "a.txt")).out
    ran = run(capsys, "predict", folder, "-i", f"{corpus}/*", "-o", f"{tmp_path}/o", "--workers=0")
    assert (ran.code, ran.out) == (0, "")
    assert "3 of 3 shards made: 93 lines, 0 bad" in ran.err
    assert (tmp_path / "o" / "a.txt").read_text("utf-8") == plain
    assert lines_of(tmp_path / "o" / "b.de.gz") == plain.splitlines()[:40]
    assert bytes_of(tmp_path / "o").keys() == {"a.txt", "b.de.gz", "empty.txt"}
    assert (tmp_path / "o" / "empty.txt").read_bytes() == b""


def test_json_of_text_lines_is_that_of_predict(capsys, folder, corpus, tmp_path):
    (corpus / "a.txt").write_bytes("\n".join(sentences(5)).encode() + b"\n\xff\n")
    plain = run(capsys, "predict", folder, "-i", f"{corpus}/a.txt", "--json", "--n-best", "2")
    ran = run(capsys, "predict", folder, "-i", f"{corpus}", "-o", f"{tmp_path}/o", "--workers=0",
              "--json", "--n-best", "2")  # fmt: skip
    assert objects_of(tmp_path / "o" / "a.txt") == [json.loads(s) for s in plain.out.splitlines()]
    assert (ran.result["lines"], ran.result["bad"], ran.result["made"]) == (6, 1, 1)


def test_objects_keep_their_keys_and_bad_ones_their_place(folder, loaded, corpus, tmp_path):
    one, two = sentences(2)
    rows = [
        json.dumps({"id": 7, "de": one}), "{", json.dumps({"id": 8}), json.dumps(two), "",
        '{"de": null}', "[1]", '{"de": "\\ud800"}', json.dumps({"de": two, "score": "old"}),
    ]  # fmt: skip
    (corpus / "a.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    summary = made(folder, corpus, tmp_path / "o", columns=(("source", "de"),))
    found = objects_of(tmp_path / "o" / "a.jsonl")
    first, second = loaded.predict([one, two])
    assert found[0] == {"id": 7, **json.loads(json.dumps(first.as_json()))}
    assert [row["output"] for row in found] == [
        first.output, "", "", second.output, "", "", "", "", second.output
    ]  # fmt: skip
    assert found[8]["score"] == pytest.approx(second.score)
    bad = objects_of(tmp_path / "o" / "a.jsonl.bad.jsonl")
    assert [(row["file"], row["line"]) for row in bad] == [
        ("a.jsonl", n) for n in (2, 3, 5, 6, 7, 8)
    ]
    assert [row["reason"] for row in bad] == [row["refused"] for row in found if "refused" in row]
    assert "there is no 'de' among 'id'" in bad[1]["reason"]
    assert (summary.lines, summary.bad) == (9, 6)


def test_rows_get_a_column(folder, loaded, corpus, tmp_path):
    one, two = sentences(2)
    (corpus / "a.tsv").write_text(f"id\tde\n1\t{one}\n2\n3\t{two}\n", "utf-8")
    (corpus / "b.tsv").write_text("id\ten\n1\tx\n", "utf-8")
    summary = made(folder, corpus, tmp_path / "o")  # the folder says that the source is `de`
    first, second = loaded.translate([one, two])
    assert lines_of(tmp_path / "o" / "a.tsv") == [
        "id\tde\toutput", f"1\t{one}\t{first}", "2\t", f"3\t{two}\t{second}"
    ]  # fmt: skip
    assert [row["line"] for row in objects_of(tmp_path / "o" / "a.tsv.bad.jsonl")] == [3]
    assert "there is no 'source' among 'id', 'en'" in summary.failed["b.tsv"]
    assert bytes_of(tmp_path / "o").keys() == {"a.tsv", "a.tsv.bad.jsonl"}
    (corpus / "b.tsv").write_text(f"1\t{two}\n", "utf-8")
    made(folder, corpus / "b.tsv", tmp_path / "p", columns=(("source", 2),))
    assert lines_of(tmp_path / "p" / "b.tsv") == [f"1\t{two}\t{second}"]


def test_rows_of_csv_keep_their_quotes(folder, loaded, corpus, tmp_path):
    one, two = sentences(2)
    first, second = loaded.translate([one, two])
    (corpus / "a.csv").write_text(f'id;de\n"1;\n2";{one}\n2\n3;"{two}"\n', "utf-16")
    made(folder, corpus, tmp_path / "o")
    assert (tmp_path / "o" / "a.csv").read_text("utf-8") == (
        f'id;de;output\n"1;\n2";{one};{first}\n2;\n3;{two};{second}\n'
    )
    made(folder, corpus, tmp_path / "p", output_column="id")
    assert lines_of(tmp_path / "p" / "a.csv")[1:] == [f"{first};{one}", "2", f"{second};{two}"]


def test_an_output_takes_the_place_of_a_column(folder, loaded, corpus, tmp_path):
    one, two = sentences(2)
    first, second = loaded.translate([one, two])
    long = " ".join(["Hund"] * 2000)
    (corpus / "a.tsv").write_text(f"en\tde\tid\nx\t{one}\t1\nx\ny\t{long}\t3\nz\t{two}\t4\n")
    rows = [{"en": "x", "de": one}, {"en": "y", "de": long}, {"de": two, "id": 3}]
    (corpus / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "[]\n")
    changes = ("task.max_source=50",)
    made(folder, corpus, tmp_path / "o", output_column="en", changes=changes)
    assert lines_of(tmp_path / "o" / "a.tsv") == [  # what is refused keeps what it had
        "en\tde\tid", f"{first}\t{one}\t1", "x", f"y\t{long}\t3", f"{second}\t{two}\t4"
    ]  # fmt: skip
    assert objects_of(tmp_path / "o" / "b.jsonl") == [
        {"en": first, "de": one}, rows[1], {"en": second, "de": two, "id": 3}, {"en": ""}
    ]  # fmt: skip
    bad = [objects_of(tmp_path / "o" / f"{name}.bad.jsonl") for name in ("a.tsv", "b.jsonl")]
    assert [[row["line"] for row in rows] for rows in bad] == [[3, 4], [2, 4]]
    made(folder, corpus, tmp_path / "p", output_column="new", changes=changes)
    assert lines_of(tmp_path / "p" / "a.tsv")[:2] == ["en\tde\tid\tnew", f"x\t{one}\t1\t{first}"]
    assert objects_of(tmp_path / "p" / "b.jsonl")[0] == {"new": first, **rows[0]}


def test_a_numbered_column_is_replaced_by_its_number(folder, loaded, corpus, tmp_path):
    one, two = sentences(2)
    first, second = loaded.translate([one, two])
    (corpus / "a.tsv").write_text(f"x\t{one}\ny\t{two}\n")
    columns = (("source", 2),)
    made(folder, corpus, tmp_path / "o", columns=columns, output_column="1")
    assert lines_of(tmp_path / "o" / "a.tsv") == [f"{first}\t{one}", f"{second}\t{two}"]
    for wrong in "3", "en", "0":
        found = made(folder, corpus, tmp_path / wrong, columns=columns, output_column=wrong)
        assert "expected a number of 1 to 2, as --columns has numbers" in found.failed["a.tsv"]


def test_lines_of_text_have_no_columns(capsys, folder, corpus, tmp_path):
    (corpus / "a.txt").write_text("Hund\n")
    with pytest.raises(RequestError, match="--output-column en: lines of text have no columns"):
        made(folder, corpus, tmp_path / "o", output_column="en")
    alone = run(capsys, "predict", folder, "-i", str(corpus / "a.txt"), "--output-column", "en")
    assert alone.code == 2
    assert "--output-column: it is for whole files; expected with -o FOLDER" in alone.err


def test_bad_bytes_and_long_lines_keep_their_place(folder, corpus, tmp_path):
    one, two = (text.encode() for text in sentences(2))
    long = b"x" * (LONGEST + 9)
    (corpus / "a.txt").write_bytes(b"\n".join([one, b"\xff", long, two]))
    made(folder, corpus, tmp_path / "o")
    found = lines_of(tmp_path / "o" / "a.txt")
    assert [bool(line) for line in found] == [True, False, False, True]
    bad = objects_of(tmp_path / "o" / "a.txt.bad.jsonl")
    assert [row["reason"] for row in bad] == ["not UTF-8 (byte 1)", f"more than {LONGEST:,} bytes"]


def test_zstandard_in_several_frames(folder, corpus, tmp_path):
    zstandard = pytest.importorskip("zstandard")
    texts = [f"{text}\n".encode() for text in sentences(60)]
    packed = [zstandard.compress(b"".join(texts[:20])), zstandard.compress(b"".join(texts[20:]))]
    (corpus / "a.txt.zst").write_bytes(b"".join(packed))
    (corpus / "a.txt").write_bytes(b"".join(texts))
    (corpus / "cut.txt.zst").write_bytes(b"".join(packed)[:-9])
    (corpus / "no.txt.zst").write_bytes(b"plain text")
    summary = made(folder, corpus, tmp_path / "o")
    with open(tmp_path / "o" / "a.txt.zst", "rb") as file:
        found = zstandard.ZstdDecompressor().stream_reader(file).read()
    assert found == (tmp_path / "o" / "a.txt").read_bytes()
    assert summary.lines == 120
    assert summary.failed["cut.txt.zst"].endswith("damaged or cut off: it ends within a frame")
    assert "damaged or cut off" in summary.failed["no.txt.zst"]


def test_without_zstandard_one_sentence(folder, corpus, tmp_path, monkeypatch):
    (corpus / "a.txt.zst").touch()

    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(packing, "import_module", none)
    packing.zstd.cache_clear()
    with pytest.raises(RequestError, match=re.escape(install("zstd"))):
        made(folder, corpus, tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_what_is_done_is_not_done_again(folder, corpus, tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        (corpus / name).write_text("\n".join(sentences(3)), "utf-8")
    out = tmp_path / "o"
    made(folder, corpus, out)
    whole = bytes_of(out)
    (out / "b.txt").unlink()
    (corpus / "c.txt").write_text("die Datei\n", "utf-8")
    (out / ".a.txt.4711").write_text("half")  # what a killed process leaves
    (out / ".bulk" / ".a.txt.json.4711").write_text("half")
    before = (out / "a.txt").stat().st_mtime_ns
    again = made(folder, corpus, out)
    assert (again.made, again.there, again.lines) == (2, 1, 4)
    assert (out / "a.txt").stat().st_mtime_ns == before
    found = bytes_of(out)
    assert (found["a.txt"], found["b.txt"]) == (whole["a.txt"], whole["b.txt"])
    assert len(lines_of(out / "c.txt")) == 1
    assert found.keys() == whole.keys()
    assert {path.name for path in (out / ".bulk").iterdir()} == {f"{name}.json" for name in whole}
    assert "nothing to do" in str(made(folder, corpus, out))


def test_bad_lines_that_are_gone_are_told_of_no_more(folder, corpus, tmp_path):
    (corpus / "a.txt").write_bytes(b"\xff\n")
    made(folder, corpus, tmp_path / "o")
    assert (tmp_path / "o" / "a.txt.bad.jsonl").is_file()
    (corpus / "a.txt").write_text("die Datei\n")
    made(folder, corpus, tmp_path / "o")
    assert bytes_of(tmp_path / "o").keys() == {"a.txt"}


def test_other_settings_and_models_are_not_mixed(folder, corpus, tmp_path):
    (corpus / "a.txt").write_text("die Datei\n")
    (corpus / "b.txt").write_text("die Datei\n")
    out, other = tmp_path / "o", tmp_path / "other"
    shutil.copytree(folder, other)
    made(folder, corpus, out)
    whole = bytes_of(out)
    made(str(other), corpus, out)  # the same model under another name
    with pytest.raises(RequestError, match=r"a\.txt was made with --set = its default, and not "
                       r"beam_size=1: --fresh makes all"):  # fmt: skip
        made(folder, corpus, out, changes=("beam_size=1",))
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "decode": {"name": "greedy"}}))
    with pytest.raises(RequestError, match=r"was made with the model .*toy: --fresh"):
        made(str(other), corpus, out)
    # Of one shard alone: the other one would stay.
    with pytest.raises(RequestError, match=r"b\.txt was made with --set .*: -o another folder"):
        made(folder, corpus / "a.txt", out, changes=("beam_size=1",), fresh=True)
    assert bytes_of(out) == whole
    assert made(folder, corpus, out, as_json=True, fresh=True).made == 2
    assert objects_of(out / "a.txt")[0]["input"] == "die Datei"
    assert made(folder, corpus, out, as_json=True).made == 0


def test_files_of_others_are_not_written_over(folder, corpus, tmp_path):
    (corpus / "a.txt").write_text("die Datei\n")
    out = tmp_path / "o"
    out.mkdir()
    (out / "a.txt").write_text("mine")
    with pytest.raises(RequestError, match="was not made by this command: --fresh writes over it"):
        made(folder, corpus, out)
    assert (out / "a.txt").read_text() == "mine"
    assert made(folder, corpus, out, fresh=True).made == 1
    with pytest.raises(RequestError, match="its output would take its place"):
        made(folder, corpus, corpus, fresh=True)


@pytest.mark.parametrize("name", ["a.json", "a.conll.gz", "a.txt.bz2", "a.parquet"])
def test_what_is_no_shard_is_refused(name, folder, corpus, tmp_path):
    (corpus / name).touch()
    with pytest.raises(RequestError, match="unsupported file type; expected"):
        made(folder, corpus, tmp_path / "o")


def test_names_must_differ(folder, corpus, tmp_path):
    for part in "ab":
        (corpus / part).mkdir()
        (corpus / part / "x.txt").touch()
    with pytest.raises(RequestError, match=r"a/x\.txt and .*b/x\.txt have one name"):
        made(folder, corpus / "*" / "*.txt", tmp_path / "o")
    (corpus / "a" / "x.txt.bad.jsonl").touch()
    with pytest.raises(RequestError, match="would be told there"):
        made(folder, corpus / "a", tmp_path / "o")


def test_a_shard_that_vanishes_or_is_damaged_stops_no_other(
    capsys, folder, corpus, tmp_path, monkeypatch
):
    for name in ("a.txt", "b.txt", "d.txt"):
        (corpus / name).write_text("die Datei\n")
    packed = gzip.compress("\n".join(sentences(200)).encode())
    (corpus / "c.txt.gz").write_bytes(packed[:-20])
    real = shard_writer.reading

    def reading(path, suffix):
        if path.name == "a.txt":  # after the list of shards was made
            (corpus / "b.txt").unlink()
        if path.name == "d.txt":
            os.utime(path, (1, 1))
        return real(path, suffix)

    monkeypatch.setattr(shard_writer, "reading", reading)
    ran = run(capsys, "predict", folder, "-i", f"{corpus}", "-o", f"{tmp_path}/o", "--workers=0")
    assert ran.code == 1
    assert f"{corpus / 'b.txt'}: it is not there any more" in ran.err
    assert f"{corpus / 'c.txt.gz'}: could not be read: damaged or cut off: " in ran.err
    assert f"{corpus / 'd.txt'}: it changed while it was read" in ran.err
    assert ran.err.splitlines()[-1].endswith("; 3 failed")
    assert bytes_of(tmp_path / "o").keys() == {"a.txt"}


def test_a_full_disk_ends_it_and_the_next_call_goes_on(capsys, folder, corpus, tmp_path):
    (corpus / "a.txt").write_text("die Datei\n")
    (corpus / "b.jsonl").write_text("\n".join(json.dumps(t) for t in sentences(60)))
    (corpus / "c.txt").write_text("die Datei\n")
    words = ["predict", folder, "-i", f"{corpus}", "-o", f"{tmp_path}/o", "--workers=0"]
    with room(8_000):
        ran = run(capsys, *words)
    assert ran.code == 1
    said = f"{tmp_path}/o/b.jsonl: could not be written: file too large; make room and run the same"
    assert said in ran.err.splitlines()[-1]
    assert bytes_of(tmp_path / "o").keys() == {"a.txt"}
    ran = run(capsys, *words)
    assert (ran.code, len(lines_of(tmp_path / "o" / "b.jsonl"))) == (0, 60)
    assert "2 of 3 shards made" in ran.err


@contextlib.contextmanager
def nobody():
    """Root may write everywhere, so that these tests must not be root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_a_folder_that_cannot_be_written():
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "a.txt").write_text("abc\n")
        (place / "o").mkdir()
        (place / "o").chmod(0o555)
        place.chmod(0o555)
        try:
            for out in ("o", "new"):
                with nobody(), pytest.raises(RegardError, match="could not be written: permission"):
                    made("de-en-small", place / "a.txt", place / out)
        finally:
            place.chmod(0o755)
        assert not list((place / "o").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-i", "x/*.txt", "-o", "o"], "--input x/*.txt: there is no such file"),
        (["-o", "o"], "-o o: expected --input"),
        (["-i", "a.txt", "b.txt", "-o", "o"], "got 'b.txt' beside it"),
        (["-i", "a.txt", "-o", "o", "--into", "x"], "give --into or -o, not both"),
        (["-i", "a.txt", "--workers", "2"], "--workers: it is for whole files; expected with -o"),
        (["-i", "a.txt", "-o", "o", "--engine", "spark"], "--engine spark: "),
        (["-i", "a.txt", "-o", "o", "--workers=0", "--set", "bean=1"], "bean"),
        (["-i", "a.txt", "-o", "o", "--workers=0", "--head", "1"], "expected with --align"),
    ],
)
def test_wrong_words(words, said, capsys, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("die Datei\n")
    ran = run(capsys, "predict", folder, *words)
    assert ran.code == 2
    assert said in ran.err.splitlines()[-1]
    assert not Path("o").exists() or not bytes_of(Path("o"))


def test_an_order_is_told_as_plain_values():
    order = Order("f", others=("g",), columns=(("source", "de"), ("x", 2)), force_words=("a",))
    assert Order.of(json.loads(json.dumps(order.plain()))) == order
    assert order.settings().keys() == {"chunk", "columns", "force_words"}


def test_wishes_and_links(capsys, folder, corpus, tmp_path):
    (corpus / "a.txt").write_text("\n".join(sentences(4)))
    wishes = ["--align", "--prefix", "the", "--bad-words", "dog"]
    plain = run(capsys, "predict", folder, "-i", f"{corpus}/a.txt", *wishes)
    ran = run(
        capsys, "predict", folder, "-i", f"{corpus}", "-o", f"{tmp_path}/o", "--workers=0", *wishes
    )
    assert ran.code == plain.code == 0, ran.err
    assert (tmp_path / "o" / "a.txt").read_text() == plain.out
    assert " ||| " in plain.out
