"""Claims, kept results, quoted numbers and the page agree; the cheapest are measured again."""

import re
import shlex

import pytest

from regard.claims.results import decided, folder, kept, measure, remark, values_of
from regard.claims.rules import CONFIRMED, OPEN
from regard.claims.table import CLAIMS, claim
from regard.errors import RequestError
from tests.docs import claims as page
from tests.docs.test_pages import check_recipe, check_regard
from tests.repo.tree import TOP

NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")
CHEAP = {"C10", "C16", "C25", "C27", "C28", "C29", "C30", "C35", "C42", "C05", "C70"}
"""Claims that `make slow` measures again, with one seed."""


def test_there_are_seventy_with_a_sentence_and_a_source():
    assert list(CLAIMS) == [f"C{n:02d}" for n in range(1, 71)]
    assert all(one.sentence.endswith(".") and one.source for one in CLAIMS.values())
    assert len({one.sentence for one in CLAIMS.values()}) == 70


def test_an_open_claim_says_what_it_would_take_and_others_are_decided():
    for one in CLAIMS.values():
        verdict = decided(one, values_of(one)).verdict
        if verdict == OPEN:
            assert "Open: " in remark(one, values_of(one)) or "Open on text: " in remark(
                one, values_of(one)
            ), one.id
        elif verdict != CONFIRMED:
            assert one.note, f"{one.id}: say why it failed"


def test_every_result_is_of_an_experiment():
    files = {file.stem for file in folder().glob("*.json")}
    assert len(files) > 15
    assert files <= {one.id for one in CLAIMS.values() if one.experiment}
    for name in files:
        about = kept(CLAIMS[name])
        assert about["id"] == name
        assert about["command"] == f"regard claims {name}"
        assert {"date", "seconds", "seeds", "machine", "values"} <= set(about)


def quotes():
    return [(one, quote) for one in CLAIMS.values() for quote in one.quotes]


def test_quoted_numbers_stand_in_the_page_that_they_are_from():
    assert len(quotes()) > 30
    for one, quote in quotes():
        text = (TOP / quote.file).read_text(encoding="utf-8")
        assert quote.text in text, f"{one.id}: {quote.file} has no {quote.text!r}"
        said = {number(match) for match in NUMBER.findall(quote.text)}
        for name, each in quote.values.items():
            for value in each:
                assert {value, -value} & said, f"{one.id}: {name} {value} is not in {quote.text!r}"


def number(text):
    return float(text.replace("−", "-").replace(",", "").rstrip("."))


@pytest.mark.slow
def test_quoted_commands_are_there():
    """Programs, options, and every value of `--vary`; the test of pages reads their recipes."""
    for command in {quote.command for _, quote in quotes()}:
        words = shlex.split(command)
        if words[0] in ("python", "pytest"):
            assert (TOP / words[1]).is_file(), command
            continue
        check_regard(words[1:])
        if words[1] != "compare" or "--vary=" not in command:
            continue
        varied = next(w for w in words if w.startswith("--vary=")).removeprefix("--vary=")
        key, _, values = varied.partition("=")
        changes = [word for word in words if re.match(r"[a-z]+\.[\w.]+=", word)]
        for value in values.split(","):
            check_recipe(words[2], [*changes, f"{key}={value}"])


def test_the_page_is_what_the_claims_and_results_give():
    told = "python -m tests.docs.claims"
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), f"write it again: {told}"


@pytest.mark.parametrize(("name", "near"), [("C99", "'C70'"), ("c0", "'C01'"), ("heads", "valid")])
def test_an_unknown_id_gets_the_nearest(name, near):
    with pytest.raises(RequestError, match=near):
        claim(name)
    assert claim("c7") is claim("7") is claim("C07")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CHEAP))
def test_a_cheap_claim_has_its_verdict_again(name, monkeypatch):
    """With one seed of three."""
    one = CLAIMS[name]
    run = type(one).run
    monkeypatch.setattr(type(one), "run", lambda self: run(self, seeds=(1,)))
    _, about = measure(one)
    again, before = decided(one, values_of(one, about)), decided(one, values_of(one))
    assert again.verdict == before.verdict, (again, before)
