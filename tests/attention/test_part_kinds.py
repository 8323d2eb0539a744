"""A text, a class or a part of another kind, in the place of a part."""

import pytest
import torch

from regard.attention import (
    Additive,
    Attention,
    Causal,
    MultiHead,
    Rotary,
    Softmax,
    attend,
)
from regard.errors import RequestError

pytestmark = pytest.mark.nohook  # the hook refuses types in its own words

WRONG = [
    ({"score": "additive"}, r"a score .* the text .additive.; .*attention.Additive\("),
    ({"score": "scaled_dot"}, r"regard.attention.ScaledDot\("),
    ({"score": Additive}, r"the class Additive; make one of it: Additive\(...\)"),
    ({"score": Rotary()}, r"got Rotary, which is a position; give position=Rotary\("),
    ({"score": lambda query, key: query @ key.mT}, "a function, which has no prepare"),
    ({"select": "entmax"}, "did you mean 'Entmax15'"),
    ({"read": Softmax()}, "which is a select"),
    ({"position": "rotary"}, r"attention.Rotary\("),
    ({"carry": "coverage"}, r"attention.Coverage\("),
]


@pytest.mark.parametrize(("parts", "said"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_no_such_part(parts, said):
    x = torch.randn(1, 5, 8)
    with pytest.raises(RequestError, match=f"Attention expected .*{said}"):
        Attention(**parts)
    with pytest.raises(RequestError, match=f"attend expected .*{said}"):
        attend(x, x, **parts)


def test_masks_and_attentions():
    with pytest.raises(RequestError, match=r"expected a mask .*attention.Causal\("):
        Attention(mask="causal")
    with pytest.raises(RequestError, match="an Attention for its heads, got Additive; put"):
        MultiHead(8, 2, Additive(4, 4, 4))
    x, allowed = torch.randn(2, 5, 8), torch.ones(5, 5).tril().bool()
    found = Attention(mask=allowed)(x, x).context
    torch.testing.assert_close(found, attend(x, x, mask=Causal()).context)
