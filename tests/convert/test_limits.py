"""How long an exported model may write: what its page computes is what regard allows."""

import math

import pytest

from regard.convert._ctranslate2 import _limit
from regard.convert._readme import longest
from tests.convert.folders import make


@pytest.mark.parametrize("form", ["plain", "no end"])
def test_ctranslate2_is_told_the_limit_of_each_source(tmp_path, form):
    from tests.convert.folders import FORMS

    loaded = make(tmp_path / "own", form if form in FORMS else next(iter(FORMS)))
    said = _limit(loaded, longest(loaded))
    end = bool(getattr(loaded.model, "reads_end", True))
    for words in (1, 7, 300):
        pieces = ["x"] * (words + end)
        allowed = eval(said, {"math": math, "min": min, "len": len, "pieces": pieces})
        assert allowed + 1 == loaded.decoder.limit(words + 1)  # with the end, which is no piece
        assert 0 < allowed < longest(loaded)
