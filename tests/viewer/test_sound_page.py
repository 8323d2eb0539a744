"""A page with a sound: the player in it, and the line that follows."""

import io
import wave

import numpy as np
import pytest

import regard
from regard.viewer.page.html import page as whole
from regard.viewer.page.scripts import script
from regard.viewer.seen_file.file import dump, parse
from regard.views import Axis
from tests.viewer import views


def heard(seconds=0.8, rate=8000):
    """A view of a sound that can be heard: a WAV file of a tone."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        tone = np.sin(np.arange(round(seconds * rate)) * 0.3) * 9000
        file.writeframes(tone.astype("<i2").tobytes())
    weights = np.eye(4, 80, dtype=np.float32)[:, ::-1].copy()
    frames = Axis([str(i) for i in range(80)], "audio", seconds=0.01, audio=buffer.getvalue())
    return regard.view(weights, rows=list("zero"), columns=frames)


def test_only_pages_with_a_sound_carry_the_player():
    text, other = whole(heard()).decode(), whole(views.translation()).decode()
    assert "media-src blob:" in text
    assert "currentTime" in text
    assert "media-src" not in other
    assert "currentTime" not in other
    assert "currentTime" not in script()


def test_the_sound_is_kept_as_it_is():
    made = heard()
    again = parse(dump(made))
    (found,) = [axis.audio for axis in again.axes if axis.kind == "audio"]
    assert found == next(axis.audio for axis in made.axes if axis.kind == "audio")
    assert found[:4] == b"RIFF"


@pytest.mark.slow
def test_the_line_follows_the_sound_and_a_click_plays_from_there(tmp_path, page):
    page.open(heard().page(tmp_path / "a.html"), "view=sound")
    loaded = """async () => { const a = document.querySelector('audio');
        for (let i = 0; i < 50 && a.readyState < 2; i++) await new Promise(r => setTimeout(r, 100));
        return a.duration; }"""
    assert page.ask(loaded) == pytest.approx(0.8, abs=0.01)
    where = (
        "() => new DOMMatrix(document.querySelector('#stage > div[aria-hidden]').style.transform).e"
    )
    first = page.ask(where)
    stage = page.ask("() => { const s = document.querySelector('#stage').getBoundingClientRect(); "
                     "return [s.left, s.top, s.width]; }")  # fmt: skip
    middle = first + (stage[2] - first - 24) / 2
    page.page.mouse.click(stage[0] + middle, stage[1] + 60)
    page.page.wait_for_timeout(400)
    assert page.ask("() => document.querySelector('audio').currentTime") == pytest.approx(
        0.4, abs=0.02
    )
    assert page.ask(where) == pytest.approx(middle, abs=20)
    assert page.fine()
