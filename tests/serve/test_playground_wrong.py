"""The page where something is slow, busy, closed, broken or cancelled, and for everybody's eyes."""

import io
import json
import time
from itertools import pairwise

import numpy as np
import pytest

from regard.data.images.images import png
from tests.serve.playground import DONE, opened
from tests.serve.running import application, live
from tests.serve.test_files import CTC, untrained
from tests.tasks.pictured import VGG, arrays, drawn
from tests.tasks.sounding import RATE, spoken, write

pytestmark = pytest.mark.slow

SENTENCE = "Das Fenster wird geschlossen."
KEY = "a-key-for-tests"


def longer(route):
    """The same request, of an output of 900 tokens."""
    asked = route.request.post_data_json
    route.continue_(post_data=json.dumps({**asked, "decode": {"min_length": 900}}))


def test_cancelling_stops_the_decoder(play, app):
    play.open("de-en-small")
    streams = app.state.service.streams
    for way in ("Escape", "click"):
        play.page.route("**/stream", longer)
        play.write(SENTENCE)
        play.page.click("#send")
        play.find("#output .out").wait_for()
        assert streams.count == 1
        assert play.find("#output").get_attribute("aria-busy") == "true"
        if way == "Escape":
            play.page.keyboard.press("Escape")
        else:
            play.page.click("#cancel")
        play.until("#status", "Cancelled.")
        kept, end = play.text("#output"), time.monotonic() + 2
        while streams.count and time.monotonic() < end:
            time.sleep(0.02)
        assert streams.count == 0
        assert kept
        assert play.text("#output") == kept
        assert play.find("#output").get_attribute("aria-busy") == "false"
        play.page.unroute("**/stream")
        assert "closed" in play.ask(SENTENCE)
    assert play.fine()


def test_busy_servers_are_asked_again_after_what_they_say(play):
    play.open("de-en-small")
    times = []

    def busy(route):
        times.append(time.monotonic())
        if len(times) > 2:
            route.continue_()
            return
        status, said = ((429, "9 are waiting"), (503, "the server is stopping"))[len(times) - 1]
        route.fulfill(
            status=status, headers={"Retry-After": "1"}, json={"error": said},
        )  # fmt: skip

    play.page.route("**/stream", busy)
    play.write(SENTENCE)
    play.page.click("#send")
    play.until("#status", "9 are waiting. Asking again in 1 s (Retry-After)")
    play.until("#status", "The server is stopping. Asking again in 1 s")
    play.until("#status", DONE)
    assert all(later - sooner > 0.9 for sooner, later in pairwise(times))
    assert len(times) == 3
    times.clear()
    play.page.click("#send")
    play.until("#status", "9 are waiting")
    play.page.keyboard.press("Escape")
    play.until("#status", "Cancelled.")
    play.page.wait_for_timeout(1300)
    assert len(times) == 1
    assert play.fine()


def test_slow_networks_and_broken_ones(play):
    play.open("de-en-small")

    def slow(route):
        play.page.wait_for_timeout(5000)
        route.continue_()

    play.page.route("**/stream", slow)
    play.write(SENTENCE)
    play.page.click("#send")
    play.until("#status", "No answer for 4 s")
    play.until("#status", DONE)
    play.page.unroute("**/stream")
    play.page.route("**/stream", lambda route: route.abort("connectionrefused"))
    play.page.click("#send")
    play.until("#error", "cannot be reached")
    play.page.unroute("**/stream")
    play.page.click("#retry")
    play.until("#status", DONE)
    assert play.text("#error") == ""
    play.context.set_offline(True)
    play.until("#status", "This computer is offline")
    play.page.click("#send")
    play.until("#error", "This computer is offline.")
    play.context.set_offline(False)
    play.page.route("**/stream", lambda route: route.fulfill(
        content_type="text/event-stream",
        body='event: step\ndata: {"step": 1, "output": "The"}\n\nevent: ste',
    ))  # fmt: skip
    play.page.click("#retry")
    play.until("#error", "The connection broke; the answer is not whole.")
    assert play.text("#output") == "The"
    play.page.unroute("**/stream")
    play.page.route("**/stream", lambda route: route.fulfill(
        content_type="text/event-stream", body='event: error\ndata: {"error": "out of time"}\n\n',
    ))  # fmt: skip
    play.page.click("#send")
    play.until("#error", "out of time")
    assert play.fine()


def test_errors_are_the_servers_sentence(play):
    play.open("de-en-small")
    play.page.keyboard.press("Control+Enter")
    play.until("#error", "Write something first.")
    assert play.find("#input0").evaluate("e => document.activeElement === e")
    play.write("viel " * 40_000)
    play.page.click("#send")
    play.until("#error", "tokens at once, at most 32,768; send fewer")
    assert play.find("#retry").is_hidden()
    play.write("viel " * 2_000)  # too long for the model alone
    play.page.click("#send")
    play.until("#error", "No answer: ")
    assert play.find("#look").is_hidden()
    assert play.fine()


def test_a_key_stays_in_memory(chromium, models):
    own = application("de-en-small", "movie-reviews-small", models=models, keys=(KEY,))
    with live(own) as address, opened(chromium, address) as play:
        play.open()
        play.find("#key-form").wait_for()
        assert play.find("#key").evaluate("e => document.activeElement === e")
        play.page.keyboard.type("another-key")
        play.page.keyboard.press("Enter")
        play.until("#error", "does not know this key")
        play.page.keyboard.type(KEY)
        play.page.keyboard.press("Enter")
        play.find("#input0").wait_for()
        assert "closed" in play.ask(SENTENCE)
        play.page.click("#look-page")
        play.page.frame_locator("iframe").locator("html[data-drawn]").wait_for()
        play.page.click("#share")
        assert KEY not in play.find("#link").input_value()
        kept = "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        assert play.page.evaluate(kept) == '[{},{},""]'
        assert play.fine()


def test_pictures_and_sounds(chromium, tmp_path):
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed")
    task = {"name": "images", "size": 8, "channels": 1}
    pictures = untrained(tmp_path / "pictures", arrays(tmp_path / "drawn"), VGG, task)
    task = {"name": "speech-ctc", "beam": 2, "rate": RATE, "filters": 16}
    sounds = untrained(tmp_path / "sounds", write(tmp_path / "spoken", (12, 4, 4)), CTC, task)
    made, _ = drawn(1, 9)
    own = application(f"halves={pictures}", f"spoken={sounds}")
    with live(own) as address, opened(chromium, address) as play:
        play.open("halves")
        play.page.click("#send")
        play.until("#error", "Choose a file first.")
        file = {"name": "<b>.png", "mimeType": "image/png", "buffer": png(made[0])}
        play.page.set_input_files("#file", files=[file])
        assert play.find("#drop img").evaluate("e => e.decode().then(() => e.naturalWidth)") > 0
        play.page.click("#send")
        play.until("#status", DONE)
        assert play.text("#output") in ("up", "down")
        assert play.find("table.bars tr").count() == 2
        play.page.click("#look-page")
        inside = play.page.frame_locator("iframe").locator("body.plain")  # a VGG has no attention
        inside.filter(has_text="up").wait_for()
        drop = """([name, bytes]) => { const all = new DataTransfer();
            all.items.add(new File([new Uint8Array(bytes)], name));
            document.querySelector('#drop').dispatchEvent(
              new DragEvent('drop', { dataTransfer: all, bubbles: true, cancelable: true })); }"""
        play.page.evaluate(drop, ["none.png", list(b"no picture at all")])
        play.page.click("#send")
        play.find("#error:not(:empty)").wait_for()
        assert "Traceback" not in play.text("#error")
        play.wrong.clear()
        play.open("spoken")
        held = io.BytesIO()
        soundfile.write(held, spoken("ab ca", np.random.default_rng(9)), RATE, format="WAV")
        file = {"name": "a.wav", "mimeType": "audio/wav", "buffer": held.getvalue()}
        play.page.set_input_files("#file", files=[file])
        play.page.click("#send")
        play.until("#status", DONE)
        assert play.find("#drop audio").count() == 1
        assert play.fine()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_accessible_and_narrow(chromium, address, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    size = {"width": width, "height": 740}
    with opened(chromium, address, color_scheme=scheme, viewport=size, bypass_csp=True) as play:

        def clean():  # every rule of axe-core, best practices too
            found = axe.Axe().run(play.page, options={"iframes": False})
            assert found.violations_count == 0, found.generate_report()
            wide = play.page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width

        play.open("de-en-small")
        assert play.page.evaluate("() => document.documentElement.dataset.theme") == scheme
        clean()
        play.page.click("#options summary")
        play.ask("Klicken Sie auf die Schaltfläche, um die Datei zu speichern.")
        play.page.click("#more summary")
        play.page.click("#look-svg")
        play.find("#look-place img").wait_for()
        play.page.click("#share")
        clean()
        play.page.select_option("#model", "movie-reviews-small")
        play.ask("A wonderful film.")
        clean()
        play.page.route("**/predict", lambda route: route.fulfill(
            status=504, json={"error": "out of time"},
        ))  # fmt: skip
        play.page.click("#send")
        play.until("#error", "Out of time.")
        clean()
        before = play.page.evaluate("() => document.documentElement.dataset.theme")
        play.page.click("#theme")
        after = play.page.evaluate("() => document.documentElement.dataset.theme")
        assert {before, after} == {"light", "dark"}
        clean()


def test_motion_only_where_it_is_wanted(chromium, address):
    for wish, name in (("reduce", "none"), ("no-preference", "blink")):
        with opened(chromium, address, reduced_motion=wish) as play:
            play.open("de-en-small")
            play.page.route("**/stream", longer)
            play.write(SENTENCE)
            play.page.click("#send")
            play.find("#output .busy").wait_for()
            asked = "e => getComputedStyle(e, '::after').animationName"
            assert play.find("#output .busy").evaluate(asked) == name
            play.page.keyboard.press("Escape")
