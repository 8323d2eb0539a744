"""What goes together, what does not, and what is said of it."""

import itertools
import random

import pytest
import torch

from regard.attention import (
    Attention,
    Coverage,
    Dot,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    Gather,
    Hard,
    MultiHead,
    Pointer,
    RelativeBias,
    Rotary,
    Softmax,
    Sparsemax,
    attend,
    kernels,
)
from regard.attention._combinations import check
from regard.errors import RequestError
from tests.attention.combine import CARRIES, POSITIONS, READS, SCORES, SELECTS

FEATURE_SCORES = {"feature additive", "feature perceptron", "source to token"}
LOGARITHMS = {"softmax", "sharpen", "smooth", "top 2"}
TURNING = {"dot", "scaled dot", "cosine", "inverse distance", "squared distance"}
FEATURED = {"additive with features", "location-aware"}


def sensible(score, position, select, read, carry):
    """The rules once more, by name."""
    wide = score in FEATURE_SCORES
    showing = carry.startswith(("coverage", "previous"))
    return (
        len({wide, select == "feature softmax", read == "feature sum"}) == 1
        and (read != "gather" or select == "hard")
        and (read != "pointer" or select in LOGARITHMS)
        and (position != "rotary" or score in TURNING)
        and not (wide and position in ("bias", "distance", "alibi"))
        and not (wide and carry != "none")
        and not ("queries" in select and carry != "none")
        and (score not in FEATURED or showing)
        and (carry == "none" or select.startswith("monotonic") == (carry == "alignment"))
    )


def test_every_combination_is_either_sensible_or_refused_with_the_names_of_two_parts():
    parts = [
        {name: make() for name, make in kind.items()}
        for kind in (SCORES, POSITIONS, SELECTS, READS, CARRIES)
    ]
    accepted = 0
    grid = list(itertools.product(*parts))
    for names in random.Random(1).sample(grid, 4000):
        score, position, select, read, carry = (
            p[name] for p, name in zip(parts, names, strict=True)
        )
        expected = sensible(*names)
        try:
            check(score, select, read, position, carry)
            assert expected, names
            accepted += 1
        except RequestError as error:
            assert not expected, names
            said = str(error)
            named = {
                type(part).__name__
                for part in (score, position, select, read, carry)
                if part is not None and type(part).__name__ in said.split(";")[0]
            }
            # of a carry that is missing there is no name
            assert len(named) >= 2 or (names[4] == "none" and "there is none" in said), said
            assert "\n" not in said
    assert accepted > 80


CASES = [
    ({"score": FeatureAdditive(4, 4, 4)}, "FeatureAdditive works with one number a feature but"),
    ({"read": Gather()}, "Gather takes the value of one chosen key but Softmax"),
    (
        {"read": Pointer(), "select": Sparsemax()},
        "Pointer gives log-weights but those of Sparsemax",
    ),
    ({"read": Pointer(), "select": Hard()}, "Pointer gives log-weights but those of Hard"),
    ({"read": FeatureSum()}, "FeatureSum works with one number a feature but ScaledDot"),
    ({"select": FeatureSoftmax(), "read": FeatureSum()}, "with one a pair"),
]


@pytest.mark.parametrize(("parts", "said"), CASES, ids=[said for _, said in CASES])
def test_refused_when_built_and_when_called(parts, said):
    x = torch.randn(2, 3, 4)
    for _ in range(2):  # what is known of classes is kept, the unsupported_tiles_reason is not
        with pytest.raises(RequestError, match=said):
            Attention(**parts)
        with pytest.raises(RequestError, match=said):
            attend(x, x, x, **parts)
        with kernels("reference"), pytest.raises(RequestError, match=said):
            attend(x, x, x, **parts)


def test_heads_cannot_join_what_reads_no_values():
    with pytest.raises(RequestError, match="Pointer reads no values"):
        MultiHead(8, 2, Attention(read=Pointer()))


def test_parts_of_ones_own_need_to_say_nothing():
    class Double:
        sums = "free"
        window = None

        def __call__(self, scores, *, query=None, mask=None, at=0):
            return 2 * scores, None

    class First:
        def __call__(self, weights, value, *, at=0):
            return value[..., :1, :].expand(*weights.shape[:-1], -1)

    class Shy:
        def prepare(self, key):
            return key

        def __call__(self, query, key, *, at=0, features=None):
            return -(query @ key.mT).abs()

    x = torch.randn(2, 3, 4)
    got = attend(x, x, score=Shy(), select=Double(), read=First(), need_weights=True)
    torch.testing.assert_close(got.weights, -2 * (x @ x.mT).abs())
    assert attend(x, x, score=Shy(), position=RelativeBias(1), carry=Coverage()).state is not None
    with pytest.raises(RequestError, match="Rotary turns queries and keys but Shy"):
        attend(x, x, score=Shy(), position=Rotary())


def test_a_part_of_ones_own_that_says_more_is_held_to_it():
    class Wide(Dot):
        per_feature = True

    class OneHot(Softmax):
        one_hot = True

    x = torch.randn(2, 3, 4)
    with pytest.raises(RequestError, match="Wide works with one number a feature but Softmax"):
        attend(x, x, score=Wide())
    attend(x, x, select=OneHot(), read=Gather())
