"""The task of pictures: trained, used, scored and looked at, whatever form the pictures have."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from regard import loading
from regard.data.dataset import Batch
from regard.data.images.images import png
from regard.errors import RequestError
from regard.losses.reinforce import reinforce
from regard.models.ram import RAM
from regard.protocols import Inputs
from regard.tasks import TASKS
from regard.tasks.generation.captioning import Captioning
from regard.tasks.generation.video import Video
from regard.tasks.labels.images import Images
from regard.viewer import selection
from regard.viewer.rendering import render
from regard.views import ViewOptions
from tests.cli.run import run
from tests.cli.toy import feed
from tests.tasks.pictured import FORMS, PARTS, arrays, drawn, folders, tables, trained
from tests.tasks.pictured import RAM as GLIMPSES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pictures")
    metrics = trained(arrays(place / "data"), place)
    assert metrics["metrics"]["accuracy"] == 100.0
    return place / "run"


@pytest.fixture(scope="module")
def glimpses(tmp_path_factory):
    place = tmp_path_factory.mktemp("glimpses")
    metrics = trained(arrays(place / "data"), place, GLIMPSES, steps=200, reinforce=0.1)
    assert metrics["metrics"]["accuracy"] > 85.0
    return place / "run"


@pytest.fixture
def photo(tmp_path):
    made, labels = drawn(1, 9)
    (tmp_path / "photo.png").write_bytes(png(made[0]))
    return tmp_path / "photo.png", labels[0]


def test_it_is_in_the_table():
    assert TASKS["images"] == "regard.tasks.labels.images:Images"


def batches(task, config):
    data = task.data(config)
    return data, data.train.collate(range(len(data.train)))


def test_each_form_gives_the_same_pictures(tmp_path):
    found = {}
    for name, make in FORMS.items():
        data, batch = batches(Images(size=8, channels=1), {"path": str(make(tmp_path / name))})
        order = sorted(range(60), key=lambda i: batch["image"].values[i].numpy().tobytes())
        found[name] = batch["image"].values[order], batch["label"][order], data.test.references
        assert len(data.problems) == 0
        assert (len(data.train), len(data.dev), len(data.test)) == (60, 20, 20)
    for pictures, labels, _ in found.values():
        assert torch.equal(pictures, found["arrays"][0])
        assert torch.equal(labels, found["arrays"][1])
    assert abs(found["arrays"][0].mean()) < 1e-3
    assert abs(found["arrays"][0].std() - 1) < 1e-2


def test_odd_pictures_are_reported_with_file_and_line_and_counted(tmp_path, caplog):
    data = tables(tmp_path / "data")
    for name in ("empty.png", "text.png"):
        (data / name).write_text("" if name == "empty.png" else "words")
    lines = (data / "train.jsonl").read_text().splitlines()
    for at, name in ((3, "empty.png"), (7, "text.png"), (9, "nothing.png")):
        lines.insert(at, json.dumps({"image": name, "label": "up"}))
    (data / "train.jsonl").write_text("\n".join(lines))
    found = Images(size=8, channels=1).data({"path": str(data)})
    assert len(found.train) == 60
    assert [(p.line, p.what) for p in found.problems] == [
        (4, "empty picture"), (8, "no picture"), (10, "no such picture"),
    ]  # fmt: skip
    assert f"{data}/train.jsonl:8: no picture (text.png: a PNG, JPEG or WebP" in caplog.text


def test_scenes_are_made_of_every_picture_in_training_as_often_as_there_are_copies(tmp_path):
    scene = {"size": 12, "clutter": 1, "piece": 2, "copies": 3}
    task = Images(size=8, channels=1, scene=scene, normalize=False)
    data, batch = batches(task, {"path": str(arrays(tmp_path))})
    assert (len(data.train), len(data.dev)) == (180, 20)
    values = batch["image"].values
    assert values.shape == (180, 1, 12, 12)
    assert len({one.numpy().tobytes() for one in values}) > 170
    _, again = batches(task, {"path": str(arrays(tmp_path))})
    assert torch.equal(again["image"].values, values)


def test_the_loss_is_that_of_labels_and_of_reinforce():
    torch.manual_seed(1)
    model = RAM(1, 3, side=2, glimpses=3, hidden=4, glimpse=4, core=4).train()
    labels = torch.tensor([0, 2, -1, 1])
    batch = Batch({"image": Inputs(torch.randn(4, 1, 6, 6)), "label": labels}, [0, 1, 2, 3], 3)
    task = Images(reinforce=0.3)
    torch.manual_seed(2)
    total, count = task.loss(model, batch, 0)
    torch.manual_seed(2)
    plain, _ = task.loss(model, batch)
    torch.manual_seed(2)
    output = model(batch["image"])
    own = -output.logits.log_softmax(-1)[[0, 1, 3], [0, 2, 1]].sum()
    torch.testing.assert_close(plain, own)
    right = (output.logits.argmax(-1) == labels).float()
    policy, squares = reinforce(output.extra["log_probs"], output.extra["baselines"], right)
    known = torch.tensor([1.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(total, own + ((0.3 * policy + squares) * known).sum())
    assert count == 3


def test_a_photo_is_predicted_by_its_path_and_from_a_pipe(folder, photo, capsys, monkeypatch):
    path, label = photo
    ran = run(capsys, "predict", str(folder), str(path))
    assert (ran.code, ran.out, ran.err) == (0, f"{label}\n", "")
    feed(monkeypatch, path.read_bytes())
    assert run(capsys, "predict", str(folder), "-").out == f"{label}\n"
    feed(monkeypatch, f"{path}\nnothing.png\n{path}\n".encode())
    ran = run(capsys, "predict", str(folder), "-")
    assert ran.out == f"{label}\n\n{label}\n"
    assert "line 2 is refused: no such picture" in ran.err
    ran = run(capsys, "predict", str(folder), "--json", str(path))
    assert ran.code == 0, ran.out
    made = ran.result
    assert (made["input"], made["output"]) == (str(path), label)
    assert sum(np.exp(one["score"]) for one in [made, *made["alternatives"]]) == pytest.approx(1)


def test_a_file_of_another_form_is_one_input_and_not_lines(folder, photo, capsys, monkeypatch):
    path, label = photo
    gif = io.BytesIO()
    Image.open(path).save(gif, "GIF")
    feed(monkeypatch, gif.getvalue())
    ran = run(capsys, "predict", str(folder), "-")
    assert (ran.code, ran.out) == (1, "\n")
    assert "a PNG, JPEG or WebP file was expected" in ran.err
    assert run(capsys, "predict", str(folder), "-i", str(path)).out == f"{label}\n"
    (path.parent / "list.txt").write_text(f"{path}\n\n{path}\n", encoding="utf-8")
    ran = run(capsys, "predict", str(folder), "-i", str(path.parent / "list.txt"))
    assert ran.out == f"{label}\n\n{label}\n"


def test_evaluate_and_data_read_pictures(folder, tmp_path, capsys):
    other = folders(tmp_path / "other")
    ran = run(capsys, "evaluate", str(folder), "--data", str(other), "--json")
    assert ran.result["metrics"]["accuracy"] == 100.0
    for place in (other, arrays(tmp_path / "arrays")):
        ran = run(capsys, "data", str(place))
        assert ran.code == 0
        assert "train: 60 rows" in ran.out
        assert "image" in ran.out


def test_a_folder_keeps_what_the_field_learned(folder):
    loaded = loading.load(folder)
    field = loaded.fields["image"]
    assert 0 < field.mean[0] < 1
    saved = json.loads((folder / "field.image.json").read_text())
    assert saved["mean"] == [pytest.approx(float(field.mean[0]), abs=1e-6)]


def test_what_is_looked_at_is_a_trail_over_the_picture(glimpses, photo):
    loaded, (path, _) = loading.load(glimpses), photo
    view = loaded.task.view(loaded, [str(path)], ViewOptions())
    ((one,), (made,)) = view.maps, view.runs
    assert one.shape == (1, 3, 64)
    assert view.axes[one.columns].grid == (8, 8)
    assert view.axes[one.columns].image.startswith(b"\x89PNG")
    assert [p.kind for p in made.panels] == ["image", "bars"]
    for x, y, look in zip(one.extra["x"], one.extra["y"], one.weights[0], strict=True):
        assert 0 <= min(x, y) <= max(x, y) <= 1
        rows, columns = np.nonzero(look.reshape(8, 8))
        # The patch of 4 x 4 about the place, as far as it is in the picture.
        assert 0 <= rows.min() - (y * 8 - 2) + 0.5 <= 2.5
        assert 0 <= columns.min() - (x * 8 - 2) + 0.5 <= 2.5
        assert look.sum() == pytest.approx(1, abs=1e-5)
    for colour in (True, False):
        text = render(view, made, colour=colour).plain
        assert "glimpse 1" in text
        assert "3" in text.split("glimpse 3")[1]
    assert selection.choose(view, 0, show="image")[0].kind == "image"


def test_each_part_has_a_map_over_the_picture(photo, tmp_path):
    trained(arrays(tmp_path / "data"), tmp_path, PARTS, steps=2)
    loaded = loading.load(tmp_path / "run")
    view = loaded.task.view(loaded, [str(photo[0])], ViewOptions())
    ((one,), (made,)) = view.maps, view.runs
    assert one.shape == (1, 2, 64)
    np.testing.assert_allclose(one.weights.sum(-1), 1.0, atol=1e-5)
    assert not np.allclose(one.weights[0, 0], one.weights[0, 1])
    assert [p.title for p in made.panels] == ["where each part is", "probabilities"]
    text = render(view, made, colour=False).plain
    assert "part 2" in text
    assert "glimpse" not in text


def test_a_model_without_glimpses_shows_its_answers(folder, photo, capsys):
    ran = run(capsys, "look", str(folder), str(photo[0]))
    assert ran.code == 0
    assert "probabilities" in ran.out


@pytest.mark.parametrize("name", ["page.html", "figure.png"])
def test_pages_and_figures(glimpses, photo, tmp_path, capsys, name):
    ran = run(capsys, "look", str(glimpses), str(photo[0]), "-o", str(tmp_path / name))
    assert ran.code == 0, ran.err
    assert (tmp_path / name).stat().st_size > 5000


def test_wrong_requests_are_said():
    with pytest.raises(RequestError, match="one label, several or an ordinal"):
        Images("grade")
    with pytest.raises(RequestError, match="there is no 'clutter'"):
        Images(scene={"name": "clutter"})


def test_few_pictures_are_answered_at_once(tmp_path):
    """Features of all of them together would need as much memory as there are pictures."""
    data = Images(size=8, channels=1).data({"path": str(arrays(tmp_path / "data"))})
    found = Images(size=8, channels=1).batches(data.train, 4096)
    assert [len(batch) for batch in found] == [32, 28]
    assert (Captioning.most, Video.most) == (32, 8)
