"""YAML by the rules of version 1.2, the line of every key, and what is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RequestError
from regard.settings import yaml_reader
from regard.settings.yaml_reader import dump, parse, scalar
from tests.repo.tree import TOP


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 0.0003),
        ("1E5", 1e5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1_000.5", -1000.5),
        ("20_000", 20000),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),
        ("2026-11-21", "2026-11-21"),
        ("1__0", "1__0"),
        ("_1", "_1"),
        ("1.2.3", "1.2.3"),
        ("e5", "e5"),
        ("=", "="),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        (".inf", math.inf),
        ("-.inf", -math.inf),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    found = scalar(text)
    assert (found, type(found)) == (value, type(value))
    assert parse(f"key: {text}", "x.yaml")[0] == {"key": value}
    assert parse(f"[{text or '~'}]", "x.yaml")[0] == [value]


def test_nan_and_what_stands_in_quotes():
    assert math.isnan(scalar(".nan"))
    values, _ = parse("a: '3e-4'\nb: \"no\"\nc: 'null'\nd: |\n  5\n", "x.yaml")
    assert values == {"a": "3e-4", "b": "no", "c": "null", "d": "5\n"}


def test_the_line_of_every_key():
    text = "# head\nmodel:\n  name: a\n  inner: {x: 1,\n    y: 2}\n\ntrain: {steps: 3}\n"
    _, lines = parse(text, "x.yaml")
    assert lines == {
        "model": 2, "model.name": 3, "model.inner": 4, "model.inner.x": 4, "model.inner.y": 5,
        "train": 7, "train.steps": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: 'a' is here twice (first on line 1)"),
        ("a: {b: 1,\n  b: 2}\n", "x.yaml:2: 'b' is here twice (first on line 1)"),
        ("a: 1\nb: [1, 2\n", "x.yaml:3: not YAML"),
        ("a: 1\n  b: 2\n", "x.yaml:2: not YAML"),
        ("a: 1\n\tb: 2\n", "x.yaml:2: not YAML"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: not YAML"),
        ("a: 1\n[x, y]: 2\n", "x.yaml:2: expected a plain word as key"),
        ("a: 1\nb: &here 2\n", "x.yaml:2: expected plain values, got an anchor or a tag"),
        ("a: 1\nb: !!str 5\n", "x.yaml:2: expected plain values, got an anchor or a tag"),
        ("a: !!python/name:os.system x\n", "x.yaml:1: expected plain values"),
    ],
)
def test_what_is_refused_and_where(text, said):
    with pytest.raises(RequestError) as caught:
        parse(text, "x.yaml")
    assert str(caught.value).startswith(said)


WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def _same(one, two):
    """Equal in value and in type all the way down: 1 is neither 1.0 nor True."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return list(one) == list(two) and all(_same(one[k], two[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(_same, one, two))
    return one == two


@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_what_is_dumped_is_read_back(values):
    assert _same(parse(dump(values), "x.yaml")[0], values)


@given(WORDS | st.sampled_from(["no", "3e-4", "1:30", "~", "null", "0x1F", "1_0", ".5", "- a"]))
def test_words_stay_words(word):
    assert _same(parse(dump({"key": word}), "x.yaml")[0], {"key": word})


def test_tuples_are_written_as_lists():
    assert parse(dump({"betas": (0.9, 0.98)}), "x.yaml")[0] == {"betas": [0.9, 0.98]}


ODD = [
    "{a: x?y}",
    "a\tb: 1",
    "a: 1\n\ufeff b: 2",
    "{a: 1, b}",
    "a: [1\nb: 2",
    "a: '\ud800'",
    "- \x00",
]
"""What libyaml reads otherwise than PyYAML does, or refuses in other words."""


def test_the_fast_reader_reads_what_the_one_in_python_reads(monkeypatch):
    """Values, lines and sentences are the same with libyaml and without it."""
    paths = sorted((TOP / "recipes").rglob("*.yaml"))
    texts = [*(path.read_text("utf-8") for path in paths), *ODD]
    assert len(texts) > 100
    fast = [outcome(text) for text in texts]
    monkeypatch.setattr(yaml_reader, "_FastLoader", yaml_reader._Loader)
    assert fast == [outcome(text) for text in texts]
    assert any(isinstance(one, str) for one in fast)


def outcome(text):
    try:
        return parse(text, "text")
    except RequestError as error:
        return str(error)
