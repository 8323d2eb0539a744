"""Settings under the names of earlier versions: taken, and answered with the name of today."""

import pytest

from regard import decode
from regard.data.text.tokenizer import Tokenizer
from regard.decode import Beam, Greedy, Sample
from regard.errors import RequestError
from tests.decode.test_decoder import SOURCES
from tests.decode.toy import Markov

OLD = {"size": 3, "length": 0.5, "no_repeat": 2, "repetition": 1.5, "coverage": 0.2}
TODAY = Beam(
    beam_size=3, length_penalty=0.5, no_repeat_ngram=2, repetition_penalty=1.5,
    coverage_penalty=0.2, diversity_rate=0.1,
)  # fmt: skip


@pytest.mark.nohook  # the hook looks at the keywords first
def test_a_decoder_takes_keywords_under_their_old_names():
    with pytest.warns(DeprecationWarning, match="is now called") as said:
        assert Beam(**OLD, diversity=0.1) == TODAY
    assert [str(one.message) for one in said] == [
        "size is now called beam_size",
        "length is now called length_penalty",
        "no_repeat is now called no_repeat_ngram",
        "repetition is now called repetition_penalty",
        "coverage is now called coverage_penalty",
        "diversity is now called diversity_rate",
    ]
    with pytest.warns(DeprecationWarning, match="length is now called length_penalty"):
        assert Greedy(length=0.3) == Greedy(length_penalty=0.3)
    with pytest.warns(DeprecationWarning, match="no_repeat is now called no_repeat_ngram"):
        assert Sample(no_repeat=3) == Sample(no_repeat_ngram=3)


def test_a_section_of_a_recipe_does_too():
    with pytest.warns(DeprecationWarning, match=r"decode\.\w+ is now called \w+") as said:
        assert decode.build({"name": "beam", **OLD}, diversity=0.1) == TODAY
    assert str(said[0].message) == "decode.size is now called beam_size"
    assert len(said) == 6
    with (
        pytest.warns(DeprecationWarning, match="beam_size"),
        pytest.raises(RequestError, match=r"decode\.beam_size: expected a number from 1"),
    ):
        decode.build({"size": 0})


def test_a_call_does_too():
    wanted = [[[5]], [], [], [[6]]]
    with pytest.warns(DeprecationWarning, match="must is now called force_words"):
        found = Beam(4)(Markov(7), SOURCES, must=wanted)
    assert [h.tokens for h, *_ in found] == [
        h.tokens for h, *_ in Beam(4)(Markov(7), SOURCES, force_words=wanted)
    ]


def test_tokenizers_do_too():
    with pytest.warns(DeprecationWarning, match="size is now called vocab_size"):
        old = Tokenizer.train(["a b c"], kind="words", size=6)
    assert len(old) == 6
    assert old.to_json() == Tokenizer.train(["a b c"], kind="words", vocab_size=6).to_json()
