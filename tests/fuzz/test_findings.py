"""What fuzzing found once, each as small as it can be; bombs of every kind of archive."""

import gzip
import io
import json
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import regard
from regard import loading, recipe
from regard.bulk.finished_files import Notes
from regard.convert import _normalization, convert
from regard.data import addresses, formats
from regard.data.files import npz, packing
from regard.data.formats import documents
from regard.data.problems import Problems
from regard.data.storage import building
from regard.data.storage.store import opened
from regard.data.text.word_vectors import read_word_vectors
from regard.errors import MOST, RegardError, RequestError
from regard.fields.predicates import PredicatesField
from regard.settings.overlay import override
from regard.settings.yaml_reader import LONGEST, parse
from regard.viewer.seen_file.file import MAGIC, START, dump
from regard.viewer.seen_file.file import parse as parse_seen
from tests.convert.test_checkpoints import fairseq
from tests.folder import toy
from tests.fuzz.binaries import _npz
from tests.fuzz.seeds import COLUMNS, TEXTS

LONG = b"9" * 5000


@contextmanager
def little_memory(most=64 << 20):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def refused(work, said=""):
    with pytest.raises(RegardError) as caught:
        work()
    told = str(caught.value)
    assert said in told
    assert "\n" not in told
    assert 0 < len(told) < 1100
    return told


def rows(tmp_path, name, content, ending="txt"):
    path = tmp_path / f"in.{ending}"
    path.write_bytes(content)
    problems = Problems(shown=0)
    found = list(formats.read(path, COLUMNS[name], name, problems=problems))
    return found, dict(problems.counts)


def test_numbers_of_thousands_of_digits(tmp_path):
    found, _ = rows(tmp_path, "cbt", LONG + b" A .\n" + TEXTS["cbt"][0])
    assert len(found) == 2
    _, counts = rows(tmp_path, "babi", LONG + b" Mary went.\n" + TEXTS["babi"][0])
    assert counts["not a numbered line"] == 1
    path = tmp_path / "in.vec"
    path.write_bytes(b"2 " + LONG + b"\na 1\n")
    refused(lambda: read_word_vectors(path), "expected a dimension of at most")
    path.write_bytes(LONG + b" 1\na 1\n")
    refused(lambda: read_word_vectors(path))
    (tmp_path / "d.npz").write_bytes(_npz(images=np.zeros((2, 4, 4), "u1"), clips=np.zeros(3)))
    from regard.data.images import images as pictures
    from regard.data.images import video as clips

    name = str(tmp_path / "d.npz") + "#" + LONG.decode()
    refused(lambda: pictures.pixels(pictures.located(name), 1), "a number below 2")
    refused(lambda: clips.frames(clips.located(name), 1), "a number below 3")


def test_a_long_input_is_not_repeated_whole():
    told = refused(lambda: override("x" * 50_000), "expected key=value")
    assert len(told) <= MOST + 5
    assert str(RequestError("a\n" * 2000)) == "a\n" * 2000  # lists of differences stay


@pytest.mark.parametrize("text", ["a: \x00", "a: \ud800"])
def test_characters_that_yaml_has_not_are_said_in_one_line(text):
    refused(lambda: parse(text, "x.yaml"), "x.yaml: not YAML: ")


def test_recipes_have_a_longest(tmp_path):
    refused(lambda: parse("a: 1\n" * LONGEST, "x.yaml"), "expected at most 65,536 characters")
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * (1 << 20))
    refused(lambda: recipe.load(path), "expected a recipe of at most 65,536 characters")
    path.write_text("train: {steps: 1}\n")
    deep = ".".join("a" * 2000)
    refused(lambda: recipe.load(path, [f"{deep}=1"]), "levels of keys")
    path.write_text("a: &a [x, x]\nb: &b [*a, *a]\n")  # the beginning of a bomb of aliases
    refused(lambda: recipe.load(path), "got an anchor or a tag")


def test_gzip_files_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "SMALL", 1 << 20)
    bomb = gzip.compress(b" " * (4 << 20))
    for name, ending, read in (
        ("squad", "json.gz", lambda p: list(formats.read(p, COLUMNS["squad"], "squad"))),
        ("bioc", "xml.gz", lambda p: list(documents.read(p))),
    ):
        path = tmp_path / f"{name}.{ending}"
        path.write_bytes(bomb)
        with little_memory(4 << 20):
            refused(lambda p=path, r=read: r(p), "unpacks to more than 1,048,576")
        path.write_bytes(bomb[:200] + b"\xff" * 40 + bomb[300:400])
        refused(lambda p=path, r=read: r(p), "damaged gzip file")
    path = tmp_path / "in.tsv.gz"
    path.write_bytes(gzip.compress(b"source\ttarget\n" + b"a" * (6 << 20) + b"\nb\tc\n"))
    with little_memory():
        found = list(formats.read(path, COLUMNS["tsv"], problems=Problems(shown=0)))
    assert [row.fields["source"] for row in found] == ["b"]
    path = tmp_path / "v.vec.gz"
    path.write_bytes(gzip.compress(b"a 1 2\n" + b"b" * (20 << 20)))
    with little_memory(100 << 20):
        refused(lambda: read_word_vectors(path), "line 2: more than 16,777,216 bytes")


def test_offsets_of_bioc_that_would_fill_the_memory(tmp_path):
    path = tmp_path / "in.xml"
    whole = TEXTS["bioc"][0]
    for old, new in (
        (b"<offset>22<", b"<offset>9999999999<"),
        (b"<offset>22<", LONG.join([b"<offset>", b"<"])),
    ):
        path.write_bytes(whole.replace(old, new))
        problems = Problems(shown=0)
        with little_memory():
            assert list(documents.read(path, problems=problems)) == []
        assert problems.counts["broken document"] == 1
    path.write_bytes(whole.replace(b"UTF-8", b"no-such"))
    refused(lambda: list(documents.read(path)), "not XML: ")
    entities = b'<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><collection>&b;</collection>'
    path.write_bytes(entities)
    refused(lambda: list(documents.read(path)), "declares entities")
    path.write_bytes(b"<a>" * 100_000)
    refused(lambda: list(documents.read(path)), "not XML")


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def header(text, version=(1, 0)):
    raw = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(raw)) + raw


def of(kind, size):
    return header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({size},), }}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (of("<f8", 99_999_999_999), "says that"),
        (of("<f8", -1), "a says that"),
        (of("|O", 1) + b"x" * 8, ""),
        (of("<U1", 1) + b"\xff" * 4, "text"),
        (of("<U1", 1) + b"\0\xd8\0\0", "text"),
        (header("{'descr': '<f8', 'fortran_order': (((("), ""),
        (b"no array", ""),
    ],
)  # fmt: skip
def test_arrays_that_are_none(tmp_path, content, said):
    path = tmp_path / "in.npz"
    path.write_bytes(zipped(images=content, a=content))
    with little_memory():
        refused(lambda: npz.arrays(str(path)), "is no .npz file of plain arrays")
        if said:
            with pytest.raises(ValueError, match=said.replace("a says", "images.npy says")):
                npz.plain_arrays(path)


def test_zip_files_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "SMALL", 1 << 20)
    path = tmp_path / "in.npz"
    one = header("{'descr': '|u1', 'fortran_order': False, 'shape': (30000000,), }")
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("images.npy", "w") as file,
    ):
        file.write(one)
        for _ in range(30):
            file.write(bytes(1_000_000))
    with little_memory():
        refused(lambda: npz.arrays(str(path)), "are said to unpack to 30,000,")
    from regard.data.graphs.files import read

    with little_memory():
        refused(lambda: read(path), "are said to unpack to 30,000,")


def test_tar_files_whose_members_reach_beyond_them(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo("cat/1.png")
        info.size = 20
        archive.addfile(info, io.BytesIO(b"x" * 20))
    raw = bytearray(buffer.getvalue())
    raw[124:136] = b"77777777777\0"
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    path = tmp_path / "in.tar"
    path.write_bytes(raw)
    with little_memory():
        refused(lambda: addresses.content(str(path), "cat/1.png"))


@pytest.mark.parametrize(
    "name", ["x" * 5000 + ".png", "a\0b.png", "d.npz#" + "1" * 300, "a\nb.png"]
)
def test_names_that_no_file_system_has(tmp_path, name):
    from regard.data.audio import audio
    from regard.data.images import images as pictures
    from regard.data.images import video as clips

    (tmp_path / "d.npz").write_bytes(_npz(images=np.zeros((2, 4, 4), np.uint8)))
    for module in (pictures, clips, audio):
        with pytest.raises(addresses.FileError) as caught:
            (module.pixels if module is pictures else module.frames if module is clips else
             module.samples)(*[module.located(name, str(tmp_path / "in.tsv"))],
                             *([1] if module is not audio else []))  # fmt: skip
        assert "\n" not in str(caught.value)


def test_text_in_a_seen_file_that_no_page_can_hold():
    content = dump(regard.view(np.eye(2, dtype=np.float32)))
    packed = struct.unpack_from("<I", content, 8)[0]
    head = json.loads(zlib.decompress(content[START : START + packed])) | {"title": "\ud800"}
    raw, body = json.dumps(head).encode(), content[START + packed :]
    small = zlib.compress(raw)
    check = zlib.crc32(body, zlib.crc32(small))
    broken = MAGIC + struct.pack("<III", len(small), len(raw), check) + small + body
    refused(lambda: parse_seen(broken), "not JSON")


@pytest.fixture(scope="module")
def made_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "s"
    pairs = zip(toy.GERMAN, toy.ENGLISH, strict=True)
    some = [(i, {"source": s, "target": t}) for i, (s, t) in enumerate(pairs)]
    building.build(folder, some, toy.tokenizers(False), 50, lambda *_: None)
    return folder


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("store.json", b"{"),
        ("store.json", b"[]"),
        ("store.json", b'{"rows": 9}'),
        ("store.json", b'{"fields": ["../x"], "rows": 9}'),
        ("store.json", b'{"fields": ["source", "target"], "rows": -1}'),
        ("store.json", b'{"fields": ["source", "target"], "rows": 8}'),
        ("source.ids.npy", b"\x93NUMPY"),
        ("source.starts.npy", header("{'descr': '<i8', 'fortran_order': : ")),
        ("lines.npy", b"\x80\x04."),
        ("target.text.npy", None),
    ],
)
def test_damaged_stores_are_said(made_store, file, content):
    path = made_store / file
    before = path.read_bytes()
    try:
        path.unlink() if content is None else path.write_bytes(content)
        refused(lambda: opened(made_store), "damaged")
    finally:
        path.write_bytes(before)
    assert len(opened(made_store)) == 9


def test_rows_of_a_store_that_are_not_there(made_store):
    path = made_store / "source.starts.npy"
    before = path.read_bytes()
    starts = np.load(path)
    try:
        for wrong in (-5, 10**15):
            np.save(path, np.where(np.arange(len(starts)) == 1, wrong, starts))
            store_ = opened(made_store)
            refused(lambda s=store_: s.ids["source"].take(np.array([0, 1])), "no such rows")
    finally:
        path.write_bytes(before)


def test_model_folders_that_say_strange_things(tmp_path):
    folder = toy.make(tmp_path / "toy", "rnnsearch")
    before = (folder / "config.json").read_text()
    toy.edit(folder, weights__tied=["a"])
    refused(lambda: loading.load(folder), "weights.tied: expected an object")
    (folder / "config.json").write_text(before)
    path = folder / "tokenizer.source.json"
    told = json.loads(path.read_text())
    told["model"]["unk_token"] = "nowhere"
    path.write_text(json.dumps(told))
    refused(lambda: loading.load(folder), "is not a tokenizer of regard")


def test_fields_that_hold_something_else():
    for state in ({"weights": [], "bias": 0}, {"weights": {"a": {}}, "bias": 0}, {}):
        text = json.dumps({"kind": PredicatesField.kind, **state})
        refused(
            lambda t=text: PredicatesField("text", marks="predicate").load(t, "f.json"),
            "f.json holds no field",
        )


def test_a_mapping_without_weights():
    refused(lambda: regard.view({}), "expected weights, got none")


def charsmap(units, texts):
    """SentencePiece's rules: an array of Darts, then texts."""
    array = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(array)) + array + texts


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cut off"),
        (struct.pack("<I", 400) + bytes(8), "cut off"),
        (charsmap([1 << 10], b"\0"), "leads out of itself"),
        (charsmap([300 << 10, *[0] * 255], b"\0"), "leads out of itself"),
        # 'a' (97) is a rule whose text would begin behind all texts, or in the middle of a letter.
        (charsmap([0, *[0] * 96, 97 | 1 << 8 | 3 << 10, *[9] * 158], b"\0"), "no text"),
        (charsmap([0, *[0] * 96, 97 | 1 << 8 | 3 << 10, *[1] * 158], "é\0".encode()), "no text"),
    ],
)
def test_rules_for_letters_that_lead_nowhere(content, said):
    with pytest.raises(ValueError, match=said):
        _normalization.check(content)


def test_rules_for_letters_that_are_whole():
    _normalization.check(
        charsmap([0, *[0] * 96, 97 | 1 << 8 | 3 << 10, *[0] * 158], "é\0".encode())
    )


@pytest.mark.parametrize("lacking", ["encoder_embed_dim", "encoder_layers"])
def test_a_setting_that_a_checkpoint_lacks_is_named(lacking, tmp_path):
    fairseq(tmp_path)
    content = torch.load(tmp_path / "checkpoint_best.pt", weights_only=False)
    settings = vars(content["cfg"]["model"])
    del settings[lacking], settings[lacking.replace("encoder", "decoder")]
    torch.save(content, tmp_path / "checkpoint_best.pt")
    with pytest.raises(RequestError, match=f"it lacks '{lacking}'"):
        convert(tmp_path, "fairseq", tmp_path / "own")


def test_sizes_of_no_machine_take_no_memory(tmp_path):
    fairseq(tmp_path, encoder_ffn_embed_dim=10**12, decoder_ffn_embed_dim=10**12)
    with pytest.raises(RequestError, match="do not fit"):
        convert(tmp_path, "fairseq", tmp_path / "own")


@pytest.mark.parametrize(
    "note", ["[" * 9999, '{"models": 1.5}', '{"models": [["a"]]}', '{"settings": []}', "[]"]
)
def test_a_damaged_note_of_a_shard_is_none(note, tmp_path):
    (tmp_path / ".bulk").mkdir()
    (tmp_path / ".bulk" / "a.txt.json").write_text(note)
    assert Notes(tmp_path, [("one", "1")], {}).read("a.txt") is None


def test_a_note_of_several_lines_is_said_in_one(tmp_path):
    (tmp_path / ".bulk").mkdir()
    note = json.dumps({"models": [["a\nb", "2"]], "settings": {}})
    (tmp_path / ".bulk" / "a.txt.json").write_text(note)
    with pytest.raises(RequestError, match="was made with the model a b: "):
        Notes(tmp_path, [("one", "1")], {}).check([], fresh=False)
