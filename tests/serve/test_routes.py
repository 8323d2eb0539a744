"""Every route: what it answers is what the model gives by itself."""

import base64
import json
import re

import pytest

from regard.inference import alignment
from regard.serve import AsyncClient, Client, ServerError
from regard.serve._sample_inputs import as_input
from tests.serve.running import Direct, application

TEXTS = ["Das Fenster wird geschlossen.", "Guten Morgen.", "", "Die Datei wird gespeichert."]


def same(found, expected):
    """Predictions but for the last digits of scores."""
    expected = json.loads(json.dumps(expected))
    assert found["output"] == expected["output"]
    assert [t["token"] for t in found["tokens"]] == [t["token"] for t in expected["tokens"]]
    assert found["score"] == pytest.approx(expected["score"], abs=1e-4)
    for one, other in zip(found["alternatives"], expected["alternatives"], strict=True):
        assert one["output"] == other["output"]


def test_predict(direct, translator):
    answer = direct.post("/predict", {"model": "de-en-small", "inputs": TEXTS, "n_best": 2})
    assert answer.status_code == 200
    assert answer.json()["model"] == "de-en-small"
    expected = [translator.predict([text], n_best=2)[0].as_json() for text in TEXTS]
    for found, one in zip(answer.json()["predictions"], expected, strict=True):
        assert found["input"] == one["input"]
        same(found, one)


def test_predict_asks_the_decoder(direct, translator):
    told = {"decode": {"beam_size": 1, "length_penalty": 0.5}, "prefix": "Then", "inputs": TEXTS[0]}
    found = direct.post("/predict", {"model": "de-en-small", **told}).json()["predictions"]
    expected = translator.predict([TEXTS[0]], prefix="Then", beam_size=1, length_penalty=0.5)
    same(found[0], expected[0].as_json())
    assert found[0]["output"].startswith("Then")


def test_predict_with_words(direct, translator):
    wishes = {"bad_words": ["file", "File"], "force_words": ["folder"]}
    told = {"model": "de-en-small", "inputs": ["Datei speichern"] * 2, "prefix": ["Save", "The"]}
    found = direct.post("/predict", {**told, **wishes}).json()["predictions"]
    each = {name: [own] * 2 for name, own in wishes.items()}
    expected = translator.predict(told["inputs"], prefix=told["prefix"], **each)
    assert [one["output"] for one in found] == [one.output for one in expected]
    for one, first in zip(found, told["prefix"], strict=True):
        assert one["output"].startswith(first)
        assert "folder" in one["output"]
        assert "file" not in one["output"].split()


def test_predict_keeps_what_is_to_be_kept(direct, translator):
    text = "Die Datei <b>{name}</b> wird gespeichert."
    told = {"model": "de-en-small", "inputs": text, "keep": ["all"]}
    found = direct.post("/predict", told).json()["predictions"]
    same(found[0], translator.predict([text], keep=["all"])[0].as_json())
    assert "<b>{name}</b>" in found[0]["output"]
    assert direct.post("/predict", {**told, "keep": ["(a+)+b"]}).status_code == 422
    assert direct.post("/predict", {**told, "align": True}).status_code == 422
    told = {"model": "movie-reviews-small", "inputs": "A film.", "keep": ["all"]}
    assert "writes no text" in direct.post("/predict", told).text


def test_a_classifier_beside_a_translator(direct, critic):
    told = {"model": "movie-reviews-small", "inputs": "A lovely film."}
    found = direct.post("/predict", told).json()["predictions"]
    same(found[0], critic.predict(["A lovely film."])[0].as_json())


def test_score(direct, translator):
    found = translator.predict(TEXTS[:1], n_best=3)[0]
    pairs = [{"input": TEXTS[0], "output": p.output} for p in (found, *found.alternatives)]
    scores = direct.post("/score", {"model": "de-en-small", "pairs": pairs}).json()["scores"]
    for one, expected in zip(scores, (found, *found.alternatives), strict=True):
        assert one["log_prob"] == pytest.approx(expected.log_prob, abs=1e-3)
        assert one["score"] == pytest.approx(expected.score, abs=1e-3)


def test_score_of_labels(direct, critic):
    (expected,) = critic.predict(["A lovely film."])
    pairs = [{"input": "A lovely film.", "output": label} for label in ("pos", "neg", "good")]
    scores = direct.post("/score", {"model": "movie-reviews-small", "pairs": pairs}).json()
    by_label = {one["output"]: one for one in scores["scores"]}
    for label in ("pos", "neg"):
        probability = expected.probability_of(label)
        assert 2.718281828 ** by_label[label]["log_prob"] == pytest.approx(probability, abs=1e-6)
    assert "no score" in by_label["good"]["refused"]
    assert by_label["good"]["score"] is None


def test_align(direct, translator):
    found = direct.post("/align", {"model": "de-en-small", "inputs": TEXTS[:2]}).json()
    expected = alignment.align(
        translator.model, translator.predict(TEXTS[:2]), translator.tokenizers
    )
    for one, other in zip(found["predictions"], expected, strict=True):
        assert one["alignment"] == [list(link) for link in other.alignment]
        assert one["input_words"] == other.input.split()
        assert one["output_words"] == other.output.split()


def test_align_given_outputs(direct):
    pairs = [{"input": "Guten Morgen.", "output": "Good morning."}]
    (found,) = direct.post("/align", {"model": "de-en-small", "pairs": pairs}).json()["predictions"]
    assert found["alignment"] == [[0, 0], [1, 1]]
    assert found["log_prob"] < 0


def test_look_as_json(direct):
    told = {"model": "de-en-small", "input": "Guten Morgen.", "head": "2", "layer": "1"}
    found = direct.post("/look", told).json()
    (picture,) = found["look"]["pictures"]
    assert picture["layer"] == 1
    assert picture["head"] == 2
    assert found["look"]["columns"][:2] == ["Guten", "Morgen"]
    assert [sum(row) for row in picture["weights"]] == pytest.approx(
        [1.0] * len(picture["weights"]), abs=1e-3
    )
    assert {one["kind"] for one in found["attentions"]} == {"cross", "encoder", "decoder"}


def test_look_of_a_classifier_is_its_own_result(direct):
    told = {"model": "movie-reviews-small", "input": "A lovely film. The plot is thin."}
    assert direct.post("/look", told).json()["look"]["output"] in ("pos", "neg")


def test_look_as_svg_and_page(direct):
    told = {"model": "de-en-small", "input": "Guten Morgen."}
    svg = direct.post("/look", {**told, "format": "svg"})
    assert svg.headers["content-type"] == "image/svg+xml"
    assert svg.text.rstrip().endswith("</svg>")
    page = direct.post("/look", {**told, "format": "html"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.text.lstrip().lower().startswith("<!doctype html")


def events(text):
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    return [(kind, json.loads(data)) for kind, data in found]


def test_stream(direct, translator):
    told = {"model": "de-en-small", "input": TEXTS[0], "decode": {"name": "greedy"}}
    answer = direct.post("/stream", told)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    *steps, (last, done) = found
    assert last == "done"
    assert {kind for kind, _ in steps} == {"step"}
    assert [data["step"] for _, data in steps] == list(range(1, len(steps) + 1))
    expected = [one.output for one in translator.stream(TEXTS[0], name="greedy")]
    assert [data["output"] for _, data in steps] == expected
    same(done["prediction"], translator.predict([TEXTS[0]], name="greedy")[0].as_json())


def test_stream_of_a_refused_input_says_why(direct):
    told = {"model": "de-en-small", "input": "Haus " * 3000}
    text = direct.post("/stream", told).text
    assert "tokens" in text
    assert "refused" in text
    assert '"output": ""' in direct.post("/stream", {"model": "de-en-small", "input": ""}).text


def test_stream_of_what_is_wrong_has_a_status(direct):
    refused = direct.post("/stream", {"model": "movie-reviews-small", "input": "A film."})
    assert refused.status_code == 422
    assert "writes no text" in refused.json()["error"]
    told = {"model": "de-en-small", "input": "Hallo", "force_words": ["\u2603"]}
    assert direct.post("/stream", told).status_code == 422


def test_json_lines(direct, translator):
    lines = [
        json.dumps(TEXTS[0]), "", json.dumps({"input": TEXTS[1], "n_best": 2}), "[1", "3",
        json.dumps({"text": "x"}), json.dumps({"input": "a", "n_best": "2"}),
    ]  # fmt: skip
    kind = {"content-type": "application/x-ndjson; charset=utf-8"}
    answer = direct.post(
        "/predict?model=de-en-small", content="\n".join(lines).encode(), headers=kind
    )
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert len(found) == 6
    same(found[0], translator.predict([TEXTS[0]])[0].as_json())
    same(found[1], translator.predict([TEXTS[1]], n_best=2)[0].as_json())
    assert [set(one) for one in found[2:]] == [{"error"}] * 4
    assert "text" in found[4]["error"]


def test_json_lines_take_keys_of_the_address(direct):
    where = "/predict?model=de-en-small&n_best=2&decode.beam_size=2"
    kind = {"content-type": "application/x-ndjson"}
    (line,) = direct.post(where, content=b'"Guten Morgen."\n', headers=kind).text.splitlines()
    assert len(json.loads(line)["alternatives"]) == 1


def test_the_models(direct):
    found = {one["name"]: one for one in direct.get("/models").json()["models"]}
    assert set(found) == {"de-en-small", "movie-reviews-small"}
    assert found["de-en-small"]["writes"]
    assert found["de-en-small"]["decode"]["beam_size"] == 5
    assert not found["movie-reviews-small"]["writes"]
    assert found["movie-reviews-small"]["inputs"] == ["text"]


SMALL = (
    "aspects-small", "cloze-small", "movie-reviews-small", "parser-small", "relations-small",
    "roles-small", "stories-small",
)  # fmt: skip
READS = {
    None: "Das Fenster wird geschlossen.",
    "en-de-small": "The window is closed.",
    "en-zh-small": "The window is closed.",
    "zh-en-small": "请检查文件名。",
}


@pytest.mark.parametrize("name", [*SMALL, *READS])
def test_examples_can_be_asked(direct, name):
    own = direct if name is None else Direct(application(name))
    (one, *_) = own.get("/models").json()["models"]
    body = own.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]
    shown = body["content"]["application/json"]["examples"][one["name"]]["value"]
    assert shown["model"] == one["name"]
    assert shown["inputs"] == [as_input(one["task"], cells) for cells in one["examples"]]
    assert shown["inputs"][0] == READS.get(name, shown["inputs"][0])  # in the language it reads
    answered = own.post("/predict", shown).json()["predictions"]
    assert len(answered) >= 2
    for found in answered:
        assert found["output"]
        assert "refused" not in found


def test_examples_are_told_to_nobody_without_a_key(models):
    own = Direct(application("de-en-small", "movie-reviews-small", models=models, keys=("k" * 8,)))
    assert "movie-reviews-small" not in own.get("/openapi.json").text


def test_health_and_pages(direct):
    assert direct.get("/health").json() == {"status": "ok"}
    assert direct.get("/ready").status_code == 200
    front, docs = direct.get("/").text, direct.get("/docs").text
    assert "de-en-small" in front
    for route in ("/predict", "/stream", "/score", "/align", "/look", "/models"):
        assert route in docs
    assert "http" not in re.sub(r"http://127\.0\.0\.1", "", docs)  # asks nobody else


def test_the_metrics_count(direct):
    direct.post("/predict", {"model": "movie-reviews-small", "inputs": ["Good.", "Bad."]})
    found = direct.get("/metrics").text
    counted = re.search(r'regard_texts_total\{model="movie-reviews-small"\} (\S+)', found)
    assert float(counted[1]) >= 2
    assert 'regard_requests_total{model="movie-reviews-small",route="/predict"' in found


def test_openapi_describes_every_route(direct):
    found = direct.get("/openapi.json").json()
    posts = {path for path, methods in found["paths"].items() if "post" in methods}
    assert posts == {"/predict", "/stream", "/score", "/align", "/look"}
    for path in posts:
        content = found["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        given = [own["value"] for own in content.get("examples", {}).values()]
        given += [content["example"]] if "example" in content else []
        assert given, path
        for example in given:
            answer = direct.post(path, example)
            assert answer.status_code == 200, (path, answer.text)


def test_the_client(address, translator):
    client = Client(address)
    expected = translator.predict(TEXTS[:2])
    found = client.predict(TEXTS[:2], model="de-en-small")
    assert [one["output"] for one in found] == [one.output for one in expected]
    assert {one["name"] for one in client.models()} == {"de-en-small", "movie-reviews-small"}
    (scored,) = client.score([(TEXTS[0], expected[0].output)], model="de-en-small")
    assert scored["log_prob"] == pytest.approx(expected[0].log_prob, abs=1e-3)
    assert client.align(TEXTS[1], model="de-en-small")[0]["alignment"]
    assert client.look(TEXTS[1], model="de-en-small")["look"]["pictures"]
    assert "</svg>" in client.look(TEXTS[1], model="de-en-small", format="svg")
    *_, last = client.stream(TEXTS[1], model="de-en-small")
    assert last["prediction"]["output"] == expected[1].output
    with pytest.raises(ServerError, match="no model is called 'de-em-small': did you mean") as told:
        client.predict("x", model="de-em-small")
    assert told.value.status == 404
    with pytest.raises(ServerError, match="writes no text"):
        next(client.stream("x", model="movie-reviews-small"))


def test_the_asynchronous_client(address, translator):
    import asyncio

    async def ask():
        client = AsyncClient(address)
        every = await asyncio.gather(
            *(client.predict(text, model="de-en-small") for text in TEXTS * 5)
        )
        steps = [one async for one in client.stream(TEXTS[1], model="de-en-small")]
        with pytest.raises(ServerError):
            [one async for one in client.stream("x", model="none")]
        await client.http.aclose()
        return every, steps

    every, steps = asyncio.run(ask())
    expected = {text: translator.predict([text])[0].output for text in TEXTS}
    assert [one["output"] for (one,) in every] == [expected[text] for text in TEXTS * 5]
    assert steps[-1]["prediction"]["output"] == expected[TEXTS[1]]


def test_an_upload_is_refused_by_a_model_of_texts_as_a_text(direct):
    """A file is a `data:` URL to it, a text as any other; nothing is opened."""
    url = "data:text/plain;base64," + base64.b64encode(b"Guten Morgen").decode()
    told = {"model": "movie-reviews-small"}
    answer = direct.post("/predict", data=told, files={"file": ("a.txt", b"Guten Morgen")})
    assert answer.status_code in (200, 422)
    assert direct.post("/predict", {**told, "inputs": url}).status_code == 200
