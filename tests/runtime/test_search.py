"""The search in NumPy finds what `decode.Beam` and `Greedy` find."""

from dataclasses import asdict

import numpy as np
import pytest
import torch

from regard.decode import Beam, Greedy
from regard.errors import RegardError
from regard.protocols import BOS
from regard.runtime.search import SearchSettings, best_outputs
from tests.decode.program import zoo
from tests.pairwise import pairwise

VOCABULARY = zoo.WORDS


@pytest.fixture(scope="module")
def model():
    made = zoo.Case("rnnsearch").build()
    torch.manual_seed(2)
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(6)  # far from even
    return made


def numpy_search(model, source, settings):
    """The search over the model's own steps."""
    with torch.inference_mode():
        state = model.start(model.encode(source))
        first, state = model.step(torch.tensor([[BOS]]), state)

        def step(number, tokens, parents):
            nonlocal state
            with torch.inference_mode():
                state = state.select(torch.from_numpy(parents)[None])
                logits, state = model.step(torch.from_numpy(tokens)[None], state)
                return logits[0].numpy()

        limit = settings.limit(source.shape[1])
        return best_outputs(first[0].numpy(), step, limit, settings)


@pairwise(
    beam_size=(1, 3, 5),
    n_best=(1, 3),
    patience=(None, 1.0, 2.0),
    length_penalty=(0.0, 0.6, 1.5),
    penalty=("power", "gnmt"),
    max_ratio=(0.5, 2.0),
    max_extra=(1, 6),
    max_length=(None, 4),
    min_length=(0, 3),
)
def test_a_beam_finds_what_the_decoder_finds(
    model,
    beam_size,
    n_best,
    patience,
    length_penalty,
    penalty,
    max_ratio,
    max_extra,
    max_length,
    min_length,
):
    settings = SearchSettings(
        beam_size,
        min(n_best, beam_size),
        patience,
        length_penalty,
        penalty,
        max_ratio,
        max_extra,
        max_length,
        min_length,
    )
    decoder = Beam(**asdict(settings))
    for seed in range(3):
        source = zoo.Case("rnnsearch").source(1, 4 + seed, seed).values
        (expected,) = decoder(model, source)
        found = numpy_search(model, source, settings)
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
            assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-4)


@pytest.mark.parametrize("least", [0, 4])
def test_greedy_decoding(least, model):
    for seed in range(5):
        source = zoo.Case("rnnsearch").source(1, 5, seed).values
        ((expected,),) = Greedy(min_length=least, max_ratio=1)(model, source)
        settings = SearchSettings(beam_size=0, min_length=least, max_ratio=1)
        (found,) = numpy_search(model, source, settings)
        assert found.tokens == expected.tokens
        assert found.score == pytest.approx(expected.score, abs=1e-4)


def test_scores_that_are_no_numbers_are_told_of():
    nothing = np.full((1, VOCABULARY), np.nan, np.float32)
    with pytest.raises(RegardError, match="NaN within 1 decoding steps"):
        best_outputs(nothing, lambda *_: nothing, 1, SearchSettings(beam_size=1))


def test_scores_may_be_log_probabilities_already():
    shares = np.log(np.float32([[0.01, 0.01, 0.5, 0.08, 0.4]]))
    (found,) = best_outputs(shares, lambda *_: shares, 3, SearchSettings(1), normalized=True)
    assert found.tokens == [2]
    assert found.score == pytest.approx(np.log(0.5), abs=1e-6)
