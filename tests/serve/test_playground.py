"""The page at `/`: what it is made of, and how it answers."""

import base64
import hashlib
import re

import pytest

from tests.serve.playground import DONE, opened
from tests.serve.running import Direct, application, live

SENTENCE = "Das Fenster wird geschlossen."
KEY = "a-key-for-tests"


def test_the_page_is_one_file_that_asks_only_its_server(direct, models):
    answer = direct.get("/")
    page, policy = answer.text, answer.headers["content-security-policy"]
    assert len(page.encode()) <= 60 * 1024
    assert not re.search(r"https?:|//[a-z]+\.|\son[a-z]+=|innerHTML|insertAdjacent|eval\(", page)
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        found = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind} 'sha256-{found}';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    frame = direct.get("/?frame").headers["content-security-policy"]
    assert frame.startswith("sandbox allow-scripts; default-src 'none'")
    assert "same-origin" not in frame
    closed = Direct(application("de-en-small", models=models, keys=(KEY,)))
    assert "5861376" not in closed.get("/").text
    assert "5861376" in page


def test_the_keyboard_alone_and_an_answer_that_grows(play, translator):
    play.open()
    assert play.find("#look").is_hidden()
    for _ in range(4):  # the model, routes, dark, then the text
        play.page.keyboard.press("Tab")
    play.page.keyboard.type(SENTENCE)
    assert play.find("#input0").input_value() == SENTENCE
    play.page.keyboard.press("Control+Enter")
    play.until("#status", DONE)
    (best,) = translator.with_decoder(3).predict([SENTENCE])
    assert play.text("#output") == best.output
    assert int(re.search(r"(\d+) steps", play.text("#status"))[1]) > 3
    shown = [one.inner_text() for one in play.find("ol.others li > span:first-child").all()]
    assert shown == [one.output for one in best.alternatives]
    assert play.sent.count(f"{play.address}/stream") == 1
    assert play.fine()


@pytest.mark.slow
def test_classes_are_bars(play, critic):
    play.open("movie-reviews-small")
    assert play.ask("A wonderful film.") == "pos"
    rows = [one.inner_text().split() for one in play.find("table.bars tr").all()]
    (found,) = critic.predict(["A wonderful film."])
    assert rows == [[label, f"{found.probability_of(label):.0%}"[:-1], "%"]
                    for label in ("pos", "neg")]  # fmt: skip
    widths = [one.evaluate("e => e.getBoundingClientRect().width / e.parentNode.clientWidth")
              for one in play.find(".bar").all()]  # fmt: skip
    assert widths[0] > widths[1] > 0
    assert sum(widths) == pytest.approx(1, abs=0.1)  # cells have a border
    assert play.fine()


def spans_of(play):
    """The spans on the page, each a tag and its words."""
    texts = [one.inner_text().split("\n") for one in play.find("#output .span").all()]
    return [(tag.split()[0], words) for tag, words in texts]


@pytest.mark.slow
def test_tags_stand_on_words(chromium):
    own = application("roles-small", "aspects-small")
    with live(own) as address, opened(chromium, address) as play:
        play.open("roles-small")
        play.ask("She gave him a book because he asked .")
        heads = [one.inner_text() for one in play.find("#output h3").all()]
        assert heads == ["Predicate “gave”", "Predicate “asked”"]
        assert ("ARG1", "a book") in spans_of(play)
        assert spans_of(play).count(("V", "asked")) == 1
        play.ask("She gave him a book because he asked .", "7")  # a predicate that is given
        assert play.find("#output h3").count() == 0
        assert ("V", "asked") in spans_of(play)
        assert ("V", "gave") not in spans_of(play)
        play.open("aspects-small")
        play.ask("The screen is bright but the battery life is short .")
        assert ("span", "battery life") in spans_of(play)
        assert play.fine()


MODELS = {
    "nli": ("entailment", ["premise", "hypothesis"]),
    "babi": ("memory", ["story", "question"]),
    "cloze": ("reading", ["document", "query"]),
    "roles": ("tagging", ["text", "predicate"]),
}


@pytest.mark.slow
def test_each_input_of_an_example_has_a_box(chromium, models):
    """As the server joins them; what it would be asked is looked at, not answered."""
    given = {"writes": False, "reads_files": False, "parameters": 1, "architecture": "han"}
    told = [{"name": n, "task": t, "inputs": i, **given} for n, (t, i) in MODELS.items()]
    told[0]["examples"] = [["A dog runs.", "An animal moves."]]
    asked = []

    def answer(route):
        asked.append(route.request.post_data_json)
        one = {"output": "yes", "score": 2.5, "log_prob": None, "tokens": [], "alternatives": []}
        route.fulfill(json={"predictions": [one]})

    own = application("de-en-small", models=models, keys=(KEY,))
    with live(own) as address, opened(chromium, address) as play:
        play.page.route("**/models", lambda route: route.fulfill(json={"models": told}))
        play.page.route("**/predict", answer)
        play.open("nli")
        assert play.find("#inputs label").all_inner_texts() == ["premise", "hypothesis"]
        play.page.click("#examples button")  # sends at once
        play.until("#status", DONE)
        assert play.find("table.bars").count() == 0  # 2.5 is no logarithm of a probability
        play.open("babi")
        play.ask("Mary went home.", "Where is Mary?")
        play.open("cloze")
        play.ask("Ann gave Bob\ta book .", "Bob thanked XXXXX .", "Ann|Bob")
        play.ask("Ann gave Bob a book .", "Bob thanked XXXXX .", "")
        play.open("roles")
        play.ask("Ann reads .", "")
        assert asked == [
            {"model": "nli", "inputs": "A dog runs. ||| An animal moves."},
            {"model": "babi", "inputs": "Mary went home. Where is Mary?"},
            {
                "model": "cloze",
                "inputs": "Ann gave Bob a book . ||| Bob thanked XXXXX . ||| Ann|Bob",
            },
            {"model": "cloze", "inputs": "Ann gave Bob a book . ||| Bob thanked XXXXX ."},
            {"model": "roles", "inputs": "Ann reads ."},
        ]
        assert play.fine()


@pytest.mark.slow
def test_the_look_is_asked_for_when_wanted(play):
    play.open("de-en-small")
    play.ask(SENTENCE)
    assert play.find("iframe").count() == 0
    play.page.click("#look-page")
    inside = play.page.frame_locator("iframe")
    inside.locator("html[data-drawn]").wait_for()
    frame = next(one for one in play.page.frames if "frame" in one.url)
    assert frame.evaluate("() => origin") == "null"
    assert frame.evaluate("() => fetch('/models').then(() => 'came', () => 'kept')") == "kept"
    play.wrong.clear()  # the policy's own words about that
    assert "closed" in inside.locator("#title").inner_text() + inside.locator("#run").inner_text()
    assert play.find("#look-save").get_attribute("download") == "look-de-en-small.html"
    play.ask("Guten Morgen.")  # it stays open, of the next answer
    inside.locator("#title", has_text="Guten Morgen.").wait_for()
    play.page.click("#look-svg")
    play.find("#look-place img").wait_for()
    assert play.find("#look-place img").evaluate("e => e.decode().then(() => e.naturalWidth)") > 100
    play.page.click("#look-svg")
    assert play.find("#look-place > *").count() == 0
    assert play.fine()


@pytest.mark.slow
def test_settings_of_the_decoder(play, translator):
    play.open("de-en-small")
    play.page.click("#options summary")
    assert play.find("#temperature").is_hidden()
    play.page.fill("#prefix", "A window")
    play.page.fill("#n_best", "2")
    assert play.ask(SENTENCE).startswith("A window")
    assert play.find("ol.others li").count() == 1
    play.page.click("#look-page")  # of this answer, not of the one without a wish
    play.page.frame_locator("iframe").locator("html[data-drawn]").wait_for()
    frame = next(one for one in play.page.frames if "frame" in one.url)
    rows = frame.evaluate("async () => (await picture(0, 0)).rows.labels")
    assert rows[:2] == ["A", "window"]
    play.page.click("#look-page")
    play.page.fill("#prefix", "")
    play.page.select_option("#search", "greedy")
    assert play.find("#beam_size").is_hidden()
    own = translator.with_decoder(name="greedy").predict([SENTENCE])[0]
    assert play.ask(SENTENCE) == own.output
    play.page.select_option("#search", "sample")
    play.page.fill("#temperature", "1.5")
    play.page.fill("#seed", "4")
    own = translator.with_decoder(3, name="sample", temperature=1.5, seed=4).predict([SENTENCE])[0]
    play.page.fill("#n_best", "3")
    assert play.ask(SENTENCE) == own.output
    play.page.select_option("#search", "beam")
    play.page.fill("#beam_size", "99")
    play.page.click("#send")
    play.until("#error", "at most 32 here, got 99")
    assert play.fine()


@pytest.mark.slow
def test_a_link_has_everything_and_sends_nothing(play):
    play.open("de-en-small")
    text = "Zeile eins & <b>zwei</b> #3 =%\nשלום"
    play.write(text)
    play.page.click("#options summary")
    play.page.fill("#prefix", "The")
    play.page.select_option("#search", "sample")
    play.page.fill("#seed", "7")
    before = len(play.sent)
    play.page.click("#share")
    link = play.find("#link").input_value()
    assert len(play.sent) == before
    assert link == play.page.url
    assert "ink" in play.text("#share-status")
    play.write(text + "?")
    assert play.find("#shared").is_hidden()
    play.page.goto("about:blank")
    play.page.goto(link)
    play.find("html[data-ready]").wait_for()
    assert play.find("#model").input_value() == "de-en-small"
    assert play.find("#input0").input_value() == text
    assert [play.find(f"#{one}").input_value() for one in ("prefix", "search", "seed")] == [
        "The", "sample", "7",
    ]  # fmt: skip
    assert not any("Zeile" in one.split("#")[0] for one in play.sent)
    assert not any(one.endswith(("/stream", "/predict")) for one in play.sent)
    play.open(fragment="model=none&input=x")
    play.until("#error", "“none”, which is not served here")
    play.open(fragment="model=de-en-small&constructor=1&ask=2&input=x&search=nothing")
    assert play.find("#search").input_value() == "beam"
    assert play.fine()


@pytest.mark.slow
def test_markup_stays_text_and_any_script_is_shown(play):
    play.open("de-en-small")
    bad = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    play.ask(bad)
    play.page.click("#look-page")
    play.page.frame_locator("iframe").locator("html[data-drawn]").wait_for()
    assert play.find("#output img, #output script, #more img").count() == 0
    assert play.page.title() == "regard"
    play.open(fragment="model=" + bad)
    play.until("#error", "<img src=x")
    assert play.find("#error img").count() == 0
    play.write("שלום עולם")
    assert play.find("#input0").evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert play.fine()
