"""Clips: made ones, and those of files; what cannot be read is said in a sentence."""

import base64
from itertools import pairwise

import numpy as np
import pytest

from regard.data.addresses import only_bytes
from regard.data.images import video
from regard.data.images.images import PictureError, png
from regard.data.images.synthetic_video import MOTIONS, Moving, moving_of
from regard.errors import RequestError
from regard.fields.base import Bad
from regard.fields.clip import ClipColumn, ClipField

pytest.importorskip("PIL")


def picture(seed=0, side=16):
    return np.random.default_rng(seed).integers(0, 100, (side, side, 3)).astype(np.uint8)


def frames(count=4, side=8):
    made = np.full((count, side, side, 3), 255, np.uint8)
    for i in range(count):
        made[i, :, i] = 0
    return made


def named(scene, motion):
    return next(f"{i}.png" for i in range(999) if scene.motion(f"{i}.png", 0) == motion)


def center(frame):
    """The middle of what is dark."""
    dark = (frame.mean(-1) < 120).astype(float)
    rows, columns = np.indices(dark.shape)
    return (rows * dark).sum() / dark.sum(), (columns * dark).sum() / dark.sum(), dark.sum()


def test_clips_follow_from_seed_name_and_copy():
    scene, one = Moving(), picture()
    assert np.array_equal(scene.clip(one, "a.png", 0), scene.clip(one, "a.png", 0))
    for other in (scene.clip(one, "b.png", 0), scene.clip(one, "a.png", 1),
                  Moving(seed=2).clip(one, "a.png", 0)):  # fmt: skip
        assert not np.array_equal(scene.clip(one, "a.png", 0), other)
    assert {scene.motion(f"{i}.png", 0) for i in range(200)} == set(MOTIONS)


@pytest.mark.parametrize(
    ("motion", "way"),
    [("left", (0, -1, 0)), ("right", (0, 1, 0)), ("up", (-1, 0, 0)), ("down", (1, 0, 0)),
     ("grow", (0, 0, 1)), ("shrink", (0, 0, -1)), ("pan left", (0, 1, 0)),
     ("pan right", (0, -1, 0))],
)  # fmt: skip
def test_what_is_said_is_what_happens(motion, way):
    scene = Moving()
    made = scene.clip(picture(), named(scene, motion), 0)
    first, last = center(made[0]), center(made[-1])
    moved = [b - a for a, b in zip(first, last, strict=True)]
    moved[2] = moved[2] if any(way[2:]) else 0  # part of it may leave the frame
    found = [0 if abs(m) < 2 else int(np.sign(m)) for m in moved]
    assert tuple(found) == way, moved
    changes = [not np.array_equal(a, b) for a, b in pairwise(made)]
    assert sum(changes) == scene.moving  # and for the rest nothing happens


def test_scenes_that_cannot_be_are_refused():
    for told, what in (
        ({"frames": 4, "moving": 4}, "fewer frames that move"), ({"distance": 99}, "half of them"),
        ({"speed": 1}, "has no key 'speed'"), ({"size": 2.5}, "whole number"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=what):
            moving_of(told)
    assert moving_of({}) is None


def test_every_form_gives_the_same_frames(tmp_path):
    made = frames()
    (tmp_path / "a.gif").write_bytes(video.gif(made))
    np.savez(tmp_path / "a.npz", frames=made)
    np.savez(tmp_path / "many.npz", clips=np.stack([made[::-1], made]))
    (tmp_path / "folder").mkdir()
    for i in range(4):
        (tmp_path / "folder" / f"{i + 8}.png").write_bytes(png(made[i]))  # 8, 9, 10, 11
    for name in ("a.gif", "a.npz", "many.npz#1", "folder"):
        found = video.frames(video.located(str(tmp_path / name)), 3)
        assert np.array_equal(np.stack(found), made), name
        gray = video.frames(video.located(str(tmp_path / name)), 1)
        assert gray[0].shape == (8, 8, 1)


def test_frames_are_read_equally_far_from_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a clip decides the order of its shuffled frames
    np.savez("a.npz", frames=frames(9, 9))
    field = ClipField(9, frames=5, normalize=False)
    (clip,) = [field.read("a.npz", {})]
    column = ClipColumn([clip], field)
    assert column.sizes.tolist() == [5]
    assert np.array_equal(column.pixels(0), frames(9, 9)[::2])
    assert column.collate(np.array([0])).values.shape == (1, 5, 3, 9, 9)
    shuffled = column.shuffled().pixels(0)
    assert not np.array_equal(shuffled, column.pixels(0))
    assert sorted(map(bytes, shuffled)) == sorted(map(bytes, column.pixels(0)))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("a.gif", b"", "empty clip"), ("a.gif", b"GIF89a", "no clip|damaged clip"),
     ("a.png", b"a text", "no clip"), ("b.png", png(picture()), "1 frame, 2 or more"),
     ("a.gif", video.gif(frames())[:60], "damaged clip|1 frame|no picture|no clip")],
)  # fmt: skip
def test_what_is_no_clip_is_said_in_a_sentence(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Bad, match=said):
        ClipField().read(str(tmp_path / name), {})


def test_arrays_and_folders_without_frames_are_said(tmp_path):
    np.savez(tmp_path / "a.npz", frames=np.zeros((3, 4, 4)))
    (tmp_path / "none").mkdir()
    for name, said in (("a.npz", "array 'frames' of bytes"), ("a.npz#3", "array 'clips'"),
                       ("none", "has no .png"), ("nowhere.gif", "no such clip")):  # fmt: skip
        with pytest.raises((Bad, PictureError), match=said):
            ClipField().read(str(tmp_path / name), {})


def test_clips_whose_bytes_are_in_the_address():
    made = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3)).astype(np.uint8)
    address = "data:image/gif;base64," + base64.b64encode(video.gif(made)).decode()
    assert len(address) > 4096  # longer than a path may be
    with only_bytes():
        assert len(video.frames(video.located(address), 3)) == 4


def test_a_server_does_not_look_for_files_nor_folders(tmp_path):
    (tmp_path / "a.png").write_bytes(png(picture()))
    for place in (tmp_path, tmp_path / "a.png", tmp_path / "none"):
        with only_bytes(), pytest.raises(PictureError, match="the bytes of a file were expected"):
            video.located(str(place))
    assert video.located(str(tmp_path)).place == str(tmp_path)
