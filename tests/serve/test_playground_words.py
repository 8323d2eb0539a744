"""Attention that comes with the answer, examples that send, and two answers side by side."""

from tests.serve.playground import DONE, opened
from tests.serve.running import application, live
from tests.serve.test_playground import SENTENCE


def shades(play, name):
    """(a word, how much of its ground is colored in percent) of a line of words."""
    found = play.find(f".attends[aria-label='Words of the {name}'] button").evaluate_all(
        "all => all.map(one => [one.innerText, one.style.background])"
    )
    return [
        (word, int(style.split("var(--bar) ")[1].split("%")[0]) if style else 0)
        for word, style in found
    ]


def strongest(play, name):
    return max(shades(play, name), key=lambda one: one[1])


def test_a_word_that_is_pointed_at_lights_up_its_sources_both_ways(play):
    play.open("de-en-small")
    play.ask(SENTENCE)
    outputs = play.find(".attends[aria-label='Words of the output'] button")
    inputs = play.find(".attends[aria-label='Words of the input'] button")
    outputs.first.wait_for()
    assert [one for one, _ in shades(play, "input")][:2] == ["Das", "Fenster"]
    outputs.filter(has_text="window").hover()
    assert strongest(play, "input")[0] == "Fenster"
    assert "“window” attends to: Fenster" in play.text("#words")
    assert all(part == 0 for _, part in shades(play, "output"))
    inputs.filter(has_text="Fenster").hover()
    assert strongest(play, "output")[0] == "window"
    assert all(part == 0 for _, part in shades(play, "input"))
    play.find("#answer-title").hover()
    outputs.first.focus()  # by the keyboard
    play.page.keyboard.press("ArrowRight")
    assert "“window” attends to" in play.text("#words")
    assert play.find("label[for=input0]").inner_text() == "German text"
    assert play.fine()


def test_an_example_sends_and_labels_have_their_words(play):
    play.open("movie-reviews-small")
    play.find("#examples button").first.click()
    play.until("#status", DONE)
    assert play.text("#output") in ("pos", "neg")
    play.find(".attends button").first.wait_for()
    words = dict(shades(play, "input"))
    assert "wonderful" in words
    assert max(words.values()) == 100
    assert play.fine()


def test_two_settings_stand_side_by_side(play, translator):
    play.open("de-en-small")
    first = play.ask(SENTENCE)
    assert not play.find("#kept figure").count()
    play.page.click("#keep")
    play.page.click("#options summary")
    play.page.fill("#prefix", "A window")
    second = play.ask(SENTENCE)
    play.until("#kept .out >> nth=1", second)
    sides = play.find("#kept figure")
    assert sides.count() == 2
    assert [one.inner_text() for one in play.find("#kept .out").all()] == [first, second]
    titles = [one.inner_text() for one in play.find("#kept figcaption").all()]
    assert titles == ["de-en-small", "de-en-small · begins with A window"]
    marked = [one.inner_text() for one in play.find("#kept mark").all()]
    assert "The" in marked
    assert "A" in marked
    assert "window" not in marked
    other = "Guten Morgen."
    play.ask(other)  # what was kept is asked again
    (best,) = translator.predict([other])
    play.until("#kept .out >> nth=0", best.output)
    play.find("#kept button").click()
    assert play.find("#kept > *").count() == 0
    assert play.fine()


def test_a_model_without_attention_answers_without_words(chromium, models):
    own = application("de-en-small", models=models)
    with live(own) as address, opened(chromium, address) as play:
        refusal = {"status": 422, "json": {"error": "it has no attention"}}
        play.page.route("**/look", lambda route: route.fulfill(**refusal))
        play.open("de-en-small")
        assert play.ask(SENTENCE)
        assert play.find("#words > *").count() == 0
        assert play.text("#error") == ""
        assert play.fine()


def test_an_answer_that_is_looked_at_has_weights_where_a_picture_is_asked_for(direct):
    asked = {"model": "movie-reviews-small", "input": "A wonderful film."}
    assert "pictures" not in direct.post("/look", asked).json()["look"]
    found = direct.post("/look", {**asked, "show": "matrix"}).json()["look"]
    (picture,) = found["pictures"]
    assert found["columns"][:2] == ["a", "wonderful"]
    assert [len(row) for row in picture["weights"]] == [len(found["columns"])] * len(found["rows"])
    assert found["output"] == "pos"


NARROW = """() => document.documentElement.scrollWidth - innerWidth"""


def test_nothing_is_wider_than_a_phone(chromium, address):
    size = {"width": 390, "height": 780}
    with opened(chromium, address, viewport=size) as play:
        play.open("de-en-small")
        play.ask(SENTENCE)
        play.page.click("#keep")
        play.ask("Klicken Sie auf die Schaltfläche, um die Datei zu speichern.")
        play.find("#kept figure").first.wait_for()
        play.find(".attends button").first.wait_for()
        assert play.page.evaluate(NARROW) <= 0
        assert play.fine()
