"""Placeholders and tags that go through a translation untouched."""

import gzip
import re
from collections import Counter

import pytest

from regard import loading
from regard.data.sources import find
from regard.data.text.markup import Stand, cut_out, finder, put_in, rendered
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.inference.placeholders import keeping, signs
from regard.tasks.prediction import Prediction

ALL = finder(["all"])
HELD = ["{name}", "%s", "https://example.org/a?b=c&d=1", "${HOME}", "{0}", "%1$d", "me@x.org",
        "{{ user }}"]  # fmt: skip


@pytest.fixture(scope="module")
def translator():
    return loading.load("de-en-small")


def sentences(count):
    """Real ones that come with the package, of six words or more, and that hold nothing kept."""
    rows: list[str] = []
    for file in sorted(find("mt-gnome-de").glob("*.tsv.gz")):
        heading, *lines = gzip.decompress(file.read_bytes()).decode().splitlines()
        at = heading.split("\t").index("de")
        rows += [line.split("\t")[at] for line in lines]
    plain = [s for s in rows if not re.search(r"[<>{}%$@_]|http", s)]
    good = [s for s in plain if 6 <= len(s.split()) <= 16]
    assert len(good) >= count
    return good[:count]


def with_kept(sentence, n):
    """A sentence with two placeholders and nested tags, at places that differ from one to next."""
    words = sentence.split()
    own = [HELD[n % len(HELD)], HELD[(n + 3) % len(HELD)]]
    for held in own:
        words.insert(1 + n % (len(words) - 1), held)
    a = n % (len(words) - 3)
    words[a], words[a + 3] = f"<b>{words[a]}", f"{words[a + 3]}</b>"
    words[a + 1] = f'<a href="x{n}">{words[a + 1]}</a>'
    return " ".join(words), [*own, "<b>", "</b>", f'<a href="x{n}">', "</a>"]


def well_formed(text):
    open_ = []
    for closing, name in re.findall(r"<(/?)(\w+)[^<>]*>", text):
        if not closing:
            open_.append(name)
        elif not open_ or open_.pop() != name:
            return False
    return not open_


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_each_occurs_once_and_tags_nest_in_real_sentences(translator, count):
    given = [with_kept(s, n) for n, s in enumerate(sentences(count))]
    found = translator.predict([t for t, _ in given], keep=["all"], beam_size=2)
    for (source, held), one in zip(given, found, strict=True):
        assert one.input == source
        for own, times in Counter(held).items():
            assert one.output.count(own) == times, (source, one.output)
        assert well_formed(one.output), one.output
        assert not re.search(r"%\d(?!\$)", one.output), one.output  # no stand-in is left
        inner, outer = one.output.index("<a "), one.output.index("<b>")
        assert outer < inner < one.output.index("</a>") < one.output.index("</b>")


def test_without_it_they_are_lost(translator):
    given = [with_kept(s, n) for n, s in enumerate(sentences(8))]
    found = translator.predict([t for t, _ in given], beam_size=2)
    lost = sum(own not in one.output for (_, held), one in zip(given, found, strict=True)
               for own in held)  # fmt: skip
    assert lost > 8


def test_what_a_model_drops_or_doubles_is_put_right(translator):
    """A model that never copies: what is missing is put where attention says; once each."""
    asked = []

    def predict(texts, **more):
        asked.append(more)
        made = translator.predict([re.sub(r" ?%\d", "", one) for one in texts], beam_size=2)
        if "force_words" in more:
            return [Prediction(t, "", refused="nothing fits") for t in texts]
        return [Prediction(t, one.output, ids=one.ids) for t, one in zip(texts, made, strict=True)]

    text = "Klicken Sie auf die Schaltfläche {a}, um die Datei {b} zu speichern."
    output = keeping(translator, [text], ["all"], predict)[0].output
    assert asked[1]["force_words"] == [["%1", "%2"]]
    assert (output.count("{a}"), output.count("{b}")) == (1, 1)
    assert output.index("{a}") < output.index("{b}")
    stands = [Stand("%1", "{%2}"), Stand("%2", "{b}")]
    assert put_in("a %1, b %2 %1.", stands) == "a {%2}, b {b}."


@pytest.mark.parametrize(
    ("source", "output", "links", "expected"),
    [
        ("Das <b>rote</b> Haus.", "La maison rouge.", [0, 2, 1], "La maison <b>rouge</b>."),
        ("x (<i>y</i> <b>z</b>) w.", "A (b c) d.", [0, 1, 2, 3], "A (<i>b</i> <b>c</b>) d."),
        ("x (<i>y</i> <b>z</b>) w.", "A c (b) d.", [0, 2, 1, 3], "A <b>c</b> (<i>b</i>) d."),
        ("<p>x <b>y</b> z.</p>", "a b c.", [0, 1, 2], "<p>a <b>b</b> c.</p>"),
        ("x<br/>y z.<br>", "a b c.", [0, 1, 2], "a<br/>b c.<br>"),
        ("x <br/> y z", "a b c", [0, 1, 2], "a <br/> b c"),
        ("<i>x <b>y</b></i> z", "b z a", [1, 2, 0], "<i><b>b</b></i> z a"),
        ("<b>x</b> y", "", [], "<b></b>"),
        ("<b>x</b> <i>y</i>", "a", [0], "<b>a</b><i></i>"),
        ("a <b>x y", "u v w", [0, 1, 2], "u <b>v w"),  # it has no end: a single tag
    ],
)
def test_tags_go_around_what_comes_from_theirs(source, output, links, expected):
    found = rendered(output, cut_out(source, ALL, str), links)
    assert found.replace(" <i></i>", "<i></i>") == expected


def test_what_is_found():
    text = "{n} 50 % der 5% du %d %-5.2f %(x)s http://a.de/b. (http://c.de) {{ a b }} {a b} $HOME"
    assert [m[0] for m in finder(["placeholders", "urls"])(text)] == [
        "{n}", "%d", "%-5.2f", "%(x)s", "http://a.de/b", "http://c.de", "{{ a b }}", "$HOME",
    ]  # fmt: skip
    kept = cut_out("Datei{n}s 1 < 2 > 0", ALL, lambda n: f"%{n}")
    assert kept.text == "Datei %1 s 1 < 2 > 0"
    assert put_in("file %1 s", kept.stands) == "file{n}s"
    assert [m[0] for m in finder([r"X\d+"])("X12 y X3")] == ["X12", "X3"]
    for wrong in (["adresses"], ["(["]):
        with pytest.raises(RequestError, match="keep: "):
            finder(wrong)


def test_stand_ins_are_what_both_vocabularies_write(translator):
    assert signs(translator.tokenizers)(3) == "%3"
    plain = Tokenizer.train(["97 98 99 100 a"], "words")
    assert signs({"source": plain, "target": plain})(2) == "98"
    letters = Tokenizer.train(["abc"], "characters")
    with pytest.raises(RequestError, match="texts in words"):
        signs({"source": letters, "target": letters})
    few = Tokenizer.train(["a b"], "words")
    with pytest.raises(RequestError, match="none of the stand-ins"):
        signs({"source": few, "target": few})
    critic = loading.load("movie-reviews-small")
    with pytest.raises(RequestError, match="it writes no text"):
        critic.predict(["A {film}."], keep=["all"])
