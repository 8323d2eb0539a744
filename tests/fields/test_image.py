"""The field of pictures: how they are fitted, scaled, laid in scenes, kept."""

import numpy as np
import pytest
import torch

from regard.data.images.images import png
from regard.data.images.scenes import Cluttered
from regard.errors import RequestError
from regard.fields import Bad, ImageField
from regard.fields import image as fields_image
from regard.protocols import Inputs


def written(folder, count=3, size=(4, 6)):
    """Gray pictures, a number each, and their addresses."""
    for i in range(count):
        (folder / f"{i}.png").write_bytes(png(np.full((*size, 1), 50 * i + 5, np.uint8)))
    return [f"{i}.png" for i in range(count)]


def read(field, folder, names):
    own = field.beside(str(folder / "data.tsv"))
    return [own.read(name, {}) for name in names]


def column(field, values):
    return field.encode(values, lambda *_: None, {})


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_pictures_of_another_form_come_to_the_size(tmp_path, fit):
    one = np.zeros((8, 16, 1), np.uint8)
    one[:, 4:12] = 200  # the middle square
    (tmp_path / "a.png").write_bytes(png(one))
    field = ImageField(4, 1, fit=fit, normalize=False)
    (value,) = read(field, tmp_path, ["a.png"])
    batch = column(field, [value]).collate(np.array([0]))
    assert isinstance(batch, Inputs)
    found = batch.values[0, 0] * 255
    if fit == "crop":
        expected = torch.full((4, 4), 200.0)
    elif fit == "pad":  # the whole in two of four lines
        expected = torch.zeros(4, 4)
        expected[1:3, 1:3] = 200.0
    else:
        expected = torch.tensor([0.0, 200.0, 200.0, 0.0]).expand(4, 4)
    # Where light and dark meet a pixel has some of both.
    assert (found - expected).abs().mean() < 30
    assert found.shape == (4, 4)
    assert (found[1:3, 1:3] > 150).all()


def test_numbers_have_the_mean_and_the_deviation_of_training(tmp_path):
    values = read(ImageField((4, 6), 1), tmp_path, written(tmp_path))
    field = ImageField((4, 6), 1).learn(values)
    light = np.array([5, 55, 105]) / 255
    np.testing.assert_allclose(field.mean, light.mean(), rtol=1e-5)
    np.testing.assert_allclose(field.deviation, light.std(), rtol=1e-5)
    again = ImageField((4, 6), 1).load(field.dump(), "field.image.json")
    for own in (field, again):
        found = column(own, values).collate(np.array([2, 0])).values
        assert found.shape == (2, 1, 4, 6)
        assert found.dtype == torch.float32
        expected = torch.tensor((light[[2, 0]] - light.mean()) / light.std()).float()
        torch.testing.assert_close(found[:, 0, 1, 1], expected, atol=1e-4, rtol=1e-4)
    assert field.arguments() == {"in_channels": 1}
    with pytest.raises(RequestError, match="no field of kind 'image'"):
        ImageField(4, 3).load(field.dump(), "field.image.json")


def test_pictures_are_read_when_a_batch_has_them_and_small_ones_kept(tmp_path, monkeypatch):
    field = ImageField((4, 6), 1, normalize=False)
    values = read(field, tmp_path, written(tmp_path))
    opened = []
    true = fields_image.images.pixels
    monkeypatch.setattr(
        fields_image.images, "pixels", lambda p, c: (opened.append(p.name), true(p, c))[1]
    )
    made = column(field, values)
    assert opened == []
    made.collate(np.array([1]))
    made.take(np.array([1, 2])).collate(np.array([0, 1]))
    assert opened == ["1.png", "2.png"]
    monkeypatch.setattr(ImageField, "room", 0)
    made = column(field, values)
    made.collate(np.array([1]))
    made.collate(np.array([1]))
    assert opened == ["1.png", "2.png", "1.png", "1.png"]


def test_a_scene_is_the_same_each_time_and_another_for_each_number(tmp_path):
    scene = Cluttered(12, clutter=2, piece=2)
    field = ImageField(4, 1, normalize=False, scene=scene)
    assert field.size == (12, 12)
    values = read(field, tmp_path, written(tmp_path, size=(4, 4)))
    from dataclasses import replace

    placed = [replace(one, scene=i) for one in values for i in range(3)]
    made = column(field, placed)
    first = made.collate(np.arange(9)).values
    assert first.shape == (9, 1, 12, 12)
    assert torch.equal(first, column(field, placed).collate(np.arange(9)).values)
    some = column(field, placed).take(np.array([4, 7]))  # the others stay the others
    assert torch.equal(some.collate(np.array([1])).values, first[7:8])
    assert len({one.numpy().tobytes() for one in first}) == 9
    whole = column(field, values).collate(np.array([1])).values[0, 0] * 255
    expected = torch.zeros(12, 12)
    expected[4:8, 4:8] = 55.0
    torch.testing.assert_close(whole, expected)  # given by a user: in the middle, nothing else


def test_the_middle_of_a_large_picture_and_colors_of_a_gray_one(tmp_path):
    names = written(tmp_path, 1, (40, 60))
    field = ImageField((8, 8), 3, normalize=False)
    found = column(field, read(field, tmp_path, names)).collate(np.array([0])).values
    torch.testing.assert_close(found, torch.full((1, 3, 8, 8), 5 / 255))


def test_what_cannot_be_read_is_bad(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    field = ImageField().beside(str(tmp_path / "data.tsv"))
    for cell, what in ((" ", "empty"), ("a.png", "empty picture"), ("b.png", "no such picture")):
        with pytest.raises(Bad) as told:
            field.read(cell, {})
        assert told.value.what == what


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"size": 1}, "2 pixels or more"),
        ({"size": [3, 4, 5]}, "height, width"),
        ({"channels": 2}, "1 .gray. or 3"),
        ({"fit": "cut"}, "no 'cut'"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        ImageField(**settings)
