"""What a page opens with, said in Python and drawn in a browser."""

import pytest

from regard.errors import RequestError
from regard.viewer.page.opening import opening
from tests.viewer import views
from tests.viewer.browser import page

__all__ = ["page"]


@pytest.mark.timeout(120)
def test_a_page_opens_with_what_was_chosen(tmp_path, page):
    """Each choice alone and all at once, as the script reads it; addresses go before it."""
    view = views.translation()
    run = view.runs[1]
    kinds = [view.maps[m].kind for m in run.maps]
    asked = {
        "hypothesis": 2, "show": "lines", "kind": kinds[-1], "layer": "1", "head": "2,3", "row": 2,
        "words": False, "values": True,
    }  # fmt: skip
    state = opening(view, **asked)
    whole = {"run": 1, "at": kinds.index(kinds[-1]), "view": "lines", "on": "1.2", "head": 1,
             "row": 1, "words": 0, "values": 1}  # fmt: skip
    assert state == whole
    path = view.page(tmp_path / "chosen.html", state=state)
    opened = page.open(path)
    assert {name: opened.state(name) for name in whole} == whole
    assert opened.ask("() => viewNow().id") == "lines"
    assert opened.ask("() => headsOn()") == [1, 2]
    assert opened.ask("() => document.querySelector('#map').selectedIndex") == whole["at"]
    again = page.open(path, "run=0&head=mean&on=&view=matrix&row=-1")
    assert [again.state(n) for n in ("run", "head", "view", "row")] == [0, "mean", "matrix", -1]
    assert page.fine()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"head": "99"}, "no head 99"), ({"head": "0"}, "no head 0"), ({"head": "1,x"}, "--head"),
        ({"layer": "77"}, "no layer 77"), ({"layer": "²"}, "expected a number from 1 up"),
        ({"kind": "nonsense"}, "no nonsense attention"), ({"row": 50}, "no step 50"),
        ({"row": 0}, "no step 0"), ({"show": "nonsense"}, "no view is called"),
        ({"show": "image"}, "no picture 'image'"), ({"hypothesis": 9}, "no hypothesis 9"),
        ({"hypothesis": 0}, "no hypothesis 0"),
    ],
)  # fmt: skip
def test_what_a_page_cannot_open_is_refused(asked, said):
    with pytest.raises(RequestError, match=said):
        opening(views.translation(), **asked)


def test_two_heads_are_compared_on_a_page():
    state = opening(views.translation(), show="compare", head="2,4")
    assert (state["view"], state["a"][-1], state["b"][-1]) == ("compare", "1", "3")
    assert opening(views.translation(), head="all")["view"] == "heads"
    assert opening(views.translation()) == {}


@pytest.mark.parametrize(
    ("method", "name", "other"),
    [("save", "x.html", ".page"), ("save", "x.png", ".figure"), ("page", "x.seen", ".save")],
)
def test_a_file_of_another_kind_is_refused(method, name, other, tmp_path):
    with pytest.raises(RequestError, match=rf"expected \{other}"):
        getattr(views.translation(), method)(tmp_path / name)
    assert not list(tmp_path.iterdir())
