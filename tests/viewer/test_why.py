"""What an attention did for an output: changes are made, felt, and undone."""

import pytest
import torch

from regard import store
from regard.viewer.looking import look
from regard.viewer.why import uniform, why, without_head
from tests.store import toy

TEXT = "ein Hund läuft ."


@pytest.fixture(scope="module", params=["transformer", "rnnsearch"])
def loaded(request, tmp_path_factory):
    return store.load(toy.make(tmp_path_factory.mktemp("why") / request.param, request.param))


def test_every_head_is_asked_and_the_model_is_as_before(loaded):
    before = {n: p.clone() for n, p in loaded.model.state_dict().items()}
    output, score, effects = why(loaded, TEXT)
    best = look(loaded, TEXT)
    assert output == best.output
    length = len(loaded.predict([TEXT])[0].tokens)
    assert score / loaded.decoder.normalizer(length) == pytest.approx(best.score, rel=1e-4)
    expected = sum(
        len(w) * (len(w) > 1) + 1 for kind in best.weights.values() for w in kind.values()
    )
    assert len(effects) == expected
    assert effects == sorted(effects, key=lambda e: e.change)
    assert any(abs(e.change) > 1e-4 for e in effects)
    assert all(torch.equal(before[n], p) for n, p in loaded.model.state_dict().items())
    assert why(loaded, TEXT, "a dog")[0] == "a dog"


def test_uniform_weights_are_uniform_and_a_head_is_gone(tmp_path):
    from regard.attention import Causal, MultiHead, watch

    torch.manual_seed(0)
    layer, x = MultiHead(8, 2).eval(), torch.randn(1, 4, 8)
    with torch.no_grad(), uniform(layer), watch(layer) as seen:
        layer(x, x, mask=Causal())
    even = torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None]
    torch.testing.assert_close(seen[""].of(0)[1], even)
    with torch.no_grad():
        whole = layer(x, x).context
        with without_head(layer, 0):
            one = layer(x, x).context
        with without_head(layer, 1):
            other = layer(x, x).context
        assert torch.equal(layer(x, x).context, whole)
    bias = layer.out.bias if layer.out.bias is not None else 0
    torch.testing.assert_close(one + other - bias, whole)
