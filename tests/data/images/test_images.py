"""Pictures of files as odd as they come, their addresses, and scenes."""

import base64
import io
import tarfile
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data import formats
from regard.data.images.images import PictureError, located, pixels, png
from regard.data.images.scenes import Cluttered, Cued, scene_of
from regard.data.problems import Problems
from regard.errors import RequestError

RED, BLUE = (200, 40, 10), (0, 20, 220)
NOISE = np.random.default_rng(1).integers(0, 255, (40, 40, 3), np.uint8)


def picture(path, mode="RGB", form=None, size=(4, 3), color=RED, **more):
    Image.new(mode, size, color).save(path, form, **more)
    return path


def one(path, channels=3):
    return pixels(located(path.name, str(path.parent / "data.tsv")), channels)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp"])
def test_each_format_is_read(tmp_path, name):
    picture(tmp_path / name, **({"lossless": True} if name.endswith("webp") else {}))
    found = one(tmp_path / name)
    assert found.shape == (3, 4, 3)
    assert np.abs(found.astype(int) - RED).max() <= (4 if name.endswith("jpg") else 0)
    assert one(tmp_path / name, 1).shape == (3, 4, 1)


def test_a_palette_cmyk_and_sixteen_bits_are_converted(tmp_path):
    Image.new("RGB", (4, 3), RED).quantize().save(tmp_path / "palette.png")
    assert (one(tmp_path / "palette.png") == RED).all()
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "cmyk.jpg")
    assert np.abs(one(tmp_path / "cmyk.jpg").astype(int) - (255, 0, 0)).max() <= 4
    values = np.array([[0, 257 * 100], [257 * 200, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    assert one(tmp_path / "deep.png", 1)[..., 0].tolist() == [[0, 100], [200, 255]]
    Image.new("1", (4, 3), 1).save(tmp_path / "bits.png")
    assert (one(tmp_path / "bits.png") == 255).all()


def test_what_is_transparent_is_white(tmp_path):
    picture(tmp_path / "clear.png", "RGBA", color=(*RED, 0))
    assert (one(tmp_path / "clear.png") == 255).all()
    picture(tmp_path / "half.png", "LA", color=(0, 128))
    assert np.abs(one(tmp_path / "half.png", 1).astype(int) - 127).max() <= 1


def test_a_photograph_is_turned_as_its_camera_says(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    picture(tmp_path / "turned.jpg", exif=exif)
    assert one(tmp_path / "turned.jpg").shape == (4, 3, 3)


def _bomb(path):
    """The head of a PNG file of 60,000 x 60,000 pixels, with next to nothing behind it."""
    content = bytearray(png(np.zeros((2, 2, 3), np.uint8)))
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    path.write_bytes(bytes(content))


def _animated(path):
    frames = [Image.new("RGB", (4, 4), color) for color in (RED, BLUE)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=50)


ODD = {
    "empty.png": (lambda p: p.write_bytes(b""), "empty picture", "0 bytes"),
    "text.png": (lambda p: p.write_text("no picture"), "no picture", "PNG, JPEG or WebP"),
    "cut.png": (
        lambda p: p.write_bytes(png(NOISE)[:900]),
        "damaged picture", "",
    ),
    "pixel.png": (lambda p: picture(p, size=(1, 1)), "picture too small", "1 × 1 pixels"),
    "bomb.png": (_bomb, "picture too large", "more than 67,108,864 pixels"),
    "moves.webp": (_animated, "animated picture", "2 frames"),
    "moves.png": (_animated, "animated picture", "2 frames"),
    "drawing.gif": (picture, "no picture", "PNG, JPEG or WebP"),
    "folder": (lambda p: p.mkdir(), "no such picture", "is a folder; a file was expected"),
    "many.tar": (lambda p: tarfile.open(p, "w").close(), "no such picture", "many.tar#NAME"),
    "none.npz": (lambda p: np.savez(p), "no array of pictures", "there is nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_refused_with_a_sentence(tmp_path, name):
    make, what, detail = ODD[name]
    make(tmp_path / name)
    with pytest.raises(PictureError) as told:
        one(tmp_path / name)
    assert told.value.what == what
    assert detail in told.value.detail
    assert "\n" not in str(told.value)


def test_addresses_in_archives_arrays_and_urls(tmp_path):
    content = png(np.full((3, 4, 3), RED, np.uint8))
    with tarfile.open(tmp_path / "train.tar", "w") as archive:
        member = tarfile.TarInfo("cat/1.png")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    np.savez(
        tmp_path / "a.npz",
        images=np.full((2, 3, 4), 7, np.uint8),
        other=np.full((1, 3, 4, 3), 9, np.uint8),
    )
    file = str(tmp_path / "train.tsv")
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    for address, value in (
        ("train.tar#cat/1.png", RED), ("cat/1.png", RED), (url, RED),
        ("a.npz#1", (7, 7, 7)), ("a.npz#other/0", (9, 9, 9)),
    ):  # fmt: skip
        assert (pixels(located(address, file), 3) == value).all(), address
    for address, said in (
        ("a.npz#2", "below 2"), ("a.npz#x", "below 2"), ("a.npz#none/0", "'none' of bytes"),
        ("train.tar#dog.png", "has no 'dog.png'"), ("data:image/png,xyz", "base64"),
    ):  # fmt: skip
        with pytest.raises(PictureError, match=said):
            pixels(located(address, file), 3)
    with pytest.raises(PictureError, match="there is no file"):
        located("nothing.png", file.replace("train", "test"))
    with pytest.raises(PictureError, match="folder"):
        located(".", file.replace("train", "test"))


def rows(path, **columns):
    problems = Problems(shown=0)
    found = list(
        formats.read(path, columns or {"image": "image", "label": "label"}, problems=problems)
    )
    return found, problems


def test_arrays_folders_and_archives_give_the_same_rows(tmp_path):
    content = png(np.full((3, 4, 3), RED, np.uint8))
    names = ["cat/1.png", "cat/2.png", "dog/1.png"]
    with tarfile.open(tmp_path / "test.tar", "w") as archive:
        for name in [*names, "cat/notes.txt", "alone.png"]:
            (tmp_path / "train" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "train" / name).write_bytes(content)
            archive.add(tmp_path / "train" / name, name)
    np.savez(tmp_path / "dev.npz", images=np.zeros((3, 2, 2), np.uint8), labels=np.array([4, 4, 7]))
    found, problems = rows(tmp_path / "train")
    assert [row.fields["image"] for row in found] == [f"train/{name}" for name in names]
    assert [row.fields["label"] for row in found] == ["cat", "cat", "dog"]
    assert [p.what for p in problems] == ["no label"]
    found, problems = rows(tmp_path / "test.tar")
    assert [row.fields["image"] for row in found] == [f"test.tar#{name}" for name in names]
    assert [p.what for p in problems] == ["no label"]
    found, _ = rows(tmp_path / "dev.npz")
    assert [tuple(row.fields.values()) for row in found] == [
        ("dev.npz#0", "4"), ("dev.npz#1", "4"), ("dev.npz#2", "7")
    ]  # fmt: skip
    for row in found:
        assert pixels(located(row.fields["image"], row.file), 1).shape == (2, 2, 1)
    with pytest.raises(RequestError, match="no column 'color'"):
        rows(tmp_path / "dev.npz", image="image", label="color")
    (tmp_path / "broken.npz").write_bytes(b"PK no")
    with pytest.raises(RequestError, match=r"no \.npz file"):
        rows(tmp_path / "broken.npz")
    (tmp_path / "broken.tar").write_bytes(b"none" * 200)
    with pytest.raises(RequestError, match="no tar archive"):
        rows(tmp_path / "broken.tar")


DIGIT = np.arange(1, 17, dtype=np.uint8).reshape(4, 4, 1)


def others(number):
    return np.full((6, 6, 1), 100 + number, np.uint8)


def laid(scene, seed=1):
    return scene.lay(DIGIT, others, 5, np.random.default_rng(seed))


def test_a_cluttered_scene_has_the_picture_whole_and_pieces_of_others():
    for seed in range(20):
        plain = laid(Cluttered(12, clutter=0), seed)
        high, wide = np.argwhere(plain[..., 0]).min(0)
        assert (plain[high : high + 4, wide : wide + 4] == DIGIT).all()
        assert plain.sum() == DIGIT.sum()
        full = laid(Cluttered(12, clutter=3, piece=2), seed)
        there = full[high : high + 4, wide : wide + 4]
        assert ((there == DIGIT) | (there >= 100)).all()  # it is drawn first from the same numbers
        assert 4 <= (full >= 100).sum() <= 12
    assert (laid(Cluttered(12), 1) == laid(Cluttered(12), 1)).all()
    places = {
        tuple(np.argwhere(laid(Cluttered(12, clutter=0), s)[..., 0]).min(0)) for s in range(300)
    }
    assert {p[0] for p in places} == {p[1] for p in places} == set(range(9))


def test_a_cue_names_the_corner_of_the_picture():
    corners = set()
    for seed in range(40):
        found = laid(Cued(16, cell=4, mark=4), seed)[..., 0]
        bright = np.argwhere(found == 255)
        assert len(bright) == 4
        y, x = (bright.min(0) - 6) // 2
        corners.add((y, x))
        for i in range(2):
            for j in range(2):
                cell = found[12 * i : 12 * i + 4, 12 * j : 12 * j + 4]
                assert (cell == DIGIT[..., 0]).all() == ((i, j) == (y, x))
    assert len(corners) == 4


def test_what_a_scene_cannot_be_is_said():
    assert scene_of({}) is None
    assert scene_of({"size": 40, "clutter": 2}) == Cluttered(40, clutter=2)
    for told, said in (
        ({"name": "clutter"}, "did you mean 'cluttered'"), ({"sise": 3}, "no key 'sise'"),
        ({"size": "large"}, "whole number"), ({"clutter": -1}, "no negative clutter"),
        ({"name": "cued", "size": 20}, "does not fit"), ({"size": 1}, "a size of 2"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=said):
            scene_of(told)
    with pytest.raises(RequestError, match="does not fit"):
        laid(Cluttered(3, piece=2))
    with pytest.raises(RequestError, match=r"scene.cell is 9"):
        laid(Cued(30, cell=9))
