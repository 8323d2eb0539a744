"""Pictures and sounds come as bytes; nothing that a request names is ever opened."""

import base64
import io
import json
import mimetypes
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import catalog, tasks
from regard.data.images.images import png
from regard.folder import writing
from tests.serve.running import Direct, application
from tests.tasks.pictured import VGG, arrays, drawn
from tests.tasks.sounding import RATE, spoken, write

CTC = {"name": "ctc", "hidden": 8, "layers": 1, "join": 2}
OPENED: list[str] = []
_WATCHING = [False]


def _note(event, arguments):
    named = not (arguments and isinstance(arguments[0], int))  # not a pipe of another thread
    if (
        _WATCHING[0]
        and named
        and event in ("open", "os.listdir", "os.scandir", "pickle.find_class")
    ):
        OPENED.append(str(arguments[0]))
    if _WATCHING[0] and event in ("socket.connect", "urllib.Request", "subprocess.Popen"):
        OPENED.append(event)


@pytest.fixture
def opened():
    """What is opened, listed or connected to while this is there."""
    if not getattr(sys, "_regard_watched", False):
        sys.addaudithook(_note)  # an audit hook cannot be taken back; once is enough
        sys._regard_watched = True
    mimetypes.init()  # the client reads the system's list when it first names a file
    OPENED.clear()
    _WATCHING[0] = True
    yield OPENED
    _WATCHING[0] = False


def untrained(folder, data, model, task):
    """A model folder whose fields know the data; its weights are as they were made."""
    settings = {key: value for key, value in task.items() if key != "name"}
    made = tasks.load(task["name"])(**settings)
    fields = made.data({"path": str(data)}).fields
    spec = {**model, **made.model_arguments(fields)}
    name = spec.pop("name")
    torch.manual_seed(3)
    built = catalog.load(name)(**spec)
    plan = {"model": {"name": name, **spec}, "task": task, "data": {"path": str(data)}}
    return writing.save_pretrained(folder, built, task=task, fields=fields, recipe=plan)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    place = tmp_path_factory.mktemp("served-pictures")
    task = {"name": "images", "size": 8, "channels": 1}
    return untrained(place / "run", arrays(place / "data"), VGG, task)


@pytest.fixture(scope="module")
def direct(pictures):
    return Direct(application(f"halves={pictures}"))


@pytest.fixture(scope="module")
def photos():
    made, _ = drawn(3, 9)
    return [png(one) for one in made]


def expected_of(folder, contents):
    urls = [f"data:;base64,{base64.b64encode(one).decode()}" for one in contents]
    return [(one.output, pytest.approx(one.score, abs=1e-5))
            for one in regard.load(folder).predict(urls)]  # fmt: skip


def found_of(answer):
    assert answer.status_code == 200, answer.text
    return [(one["output"], one["score"]) for one in answer.json()["predictions"]]


def test_uploads_in_every_form(direct, pictures, photos):
    expected = expected_of(pictures, photos)
    form = [("file", (f"{i}.png", one, "image/png")) for i, one in enumerate(photos)]
    assert found_of(direct.post("/predict", files=form)) == expected
    assert found_of(direct.post("/predict", data={"model": "halves"}, files=form)) == expected
    for kind in ("image/png", "application/octet-stream"):
        answer = direct.post(
            "/predict?model=halves", content=photos[1], headers={"content-type": kind}
        )
        assert found_of(answer) == expected[1:2]
    urls = [f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in photos]
    assert found_of(direct.post("/predict", {"inputs": urls})) == expected
    lines = "\n".join(map(json.dumps, urls)).encode()
    kind = {"content-type": "application/x-ndjson"}
    answer = direct.post("/predict", content=lines, headers=kind)
    assert [json.loads(one)["output"] for one in answer.text.splitlines()] == [
        output for output, _ in expected
    ]


def test_answers_do_not_repeat_the_bytes(direct, photos):
    answer = direct.post("/predict", files={"file": photos[0]})
    (found,) = answer.json()["predictions"]
    assert len(found["input"]) < 100
    assert f"({len(photos[0]):,} bytes)" in found["input"]


def test_look_at_an_upload(direct, photos):
    answer = direct.post(
        "/look?format=html", content=photos[0], headers={"content-type": "image/png"}
    )
    assert answer.headers["content-type"].startswith("text/html"), answer.text
    told = direct.post("/look", files={"file": photos[0]}).json()
    assert told["look"]["output"] in ("up", "down")


@pytest.mark.parametrize("kind", ["image/png", "audio/wav"])
@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"\x80\x04."]
)
def test_bad_files(direct, content, kind):
    answer = direct.post("/predict", content=content, headers={"content-type": kind})
    if not content:
        assert answer.status_code == 422
        return
    (found,) = answer.json()["predictions"]
    assert found["output"] == ""
    assert "picture" in found["refused"]


def test_odd_forms(direct, photos):
    two = [("file", ("a.png", photos[0])), ("other", ("b.png", photos[1]))]
    assert "called file" in direct.post("/predict", files=two).json()["error"]
    told = {"inputs": "a"}
    assert direct.post("/predict", data=told, files={"file": photos[0]}).status_code == 422
    assert direct.post("/predict", data={"model": "halves"}, files={"file": b""}).status_code == 422
    many = [("file", ("a.png", photos[0]))] * 2
    assert "one file" in direct.post("/look", files=many).json()["error"]
    odd = direct.post("/predict", data={"decode": "[1]"}, files={"file": photos[0]})
    assert "decode" in odd.json()["error"]


HOSTILE = [
    "{secret}", "file://{secret}", " {secret}", "{folder}/photos.tar#secret.png",
    "{folder}/photos.npz#0", "../../../../../../../../etc/passwd", "/etc/passwd",
    "http://127.0.0.1:9/x.png", "data:{secret}", "data:/../{folder}/photos.npz", "DATA:{secret}",
    "data:;base64,!!", "data:,abc", "data:x.npz", "\\\\host\\share", "{secret}\x00.png", "~",
    "/dev/zero", "/proc/self/environ", "model.pkl",
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_name_of_a_request_is_opened(direct, photos, tmp_path, opened, hostile):
    secret = tmp_path / "secret.png"
    secret.write_bytes(photos[0])
    made, _ = drawn(1, 9)
    np.savez(tmp_path / "photos.npz", images=made[..., 0])
    given = hostile.format(secret=secret, folder=tmp_path)
    kind = {"content-type": "application/x-ndjson"}
    OPENED.clear()
    answers = [
        direct.post("/predict", {"inputs": given}),
        direct.post("/look", {"input": given}),
        direct.post("/score", {"pairs": [{"input": given, "output": "up"}]}),
        direct.post("/predict", content=json.dumps({"input": given}).encode(), headers=kind),
        direct.post("/predict", {"model": given, "inputs": given}),
        direct.post("/predict", files={"file": (given.replace("\x00", ""), photos[0])}),
        direct.post("/predict", {"inputs": given, "decode": {"name": given}}),
    ]
    ours = (sys.prefix, str(Path(regard.__file__).parent))  # code, and what the page is made of
    named = [one for one in opened if not one.startswith(ours) and "site-packages" not in one]
    assert named == []
    for answer in (*answers[:5], answers[6]):
        assert '"up"' not in answer.text.replace('"output": "up", "score": null', "")
        assert '"down"' not in answer.text
        assert "root:" not in answer.text
    assert [one["output"] in ("up", "down") for one in answers[5].json()["predictions"]] == [True]


def test_sounds(tmp_path_factory):
    soundfile = pytest.importorskip("soundfile")
    place = tmp_path_factory.mktemp("served-sounds")
    task = {"name": "speech-ctc", "beam": 2, "rate": RATE, "filters": 16}
    untrained(place / "run", write(place / "data", (12, 4, 4)), CTC, task)
    own = Direct(application(f"letters={place / 'run'}"))
    held = io.BytesIO()
    soundfile.write(held, spoken("ab ca", np.random.default_rng(9)), RATE, format="WAV")
    kind = {"content-type": "audio/wav"}
    answer = own.post("/predict", content=held.getvalue(), headers=kind)
    assert found_of(answer) == expected_of(place / "run", [held.getvalue()])
    path = str(place / "data" / "test0.flac")
    assert "upload" in own.post("/predict", {"inputs": path}).json()["error"]


def test_of_several_files_an_empty_one_is_refused_by_itself(direct, photos):
    files = [("file", ("empty.png", b"")), ("file", ("a.png", photos[0]))]
    empty, good = direct.post("/predict", files=files).json()["predictions"]
    assert (empty["output"], "0 bytes" in empty["refused"]) == ("", True)
    assert good["output"] in ("up", "down")
