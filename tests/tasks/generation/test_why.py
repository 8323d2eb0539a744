"""What an attention did for an output: changes are made, felt, and undone."""

import pytest
import torch

from regard import loading
from regard.errors import RequestError
from regard.tasks.generation.look import look
from regard.tasks.generation.why import moved, why
from regard.watching.interventions import edited, permuted, uniform, without_head
from tests.folder import toy

TEXT = "ein Hund läuft ."


@pytest.fixture(scope="module", params=["transformer", "rnnsearch"])
def loaded(request, tmp_path_factory):
    return loading.load(toy.make(tmp_path_factory.mktemp("why") / request.param, request.param))


def test_every_head_is_asked_and_the_model_is_as_before(loaded):
    before = {n: p.clone() for n, p in loaded.model.state_dict().items()}
    versions = [p._version for p in loaded.model.parameters()]
    output, score, effects = why(loaded, TEXT)
    # not written even for a moment: other threads may be using the model
    assert [p._version for p in loaded.model.parameters()] == versions
    best = look(loaded, TEXT)
    assert output == best.output
    length = len(loaded.predict([TEXT])[0].tokens)
    assert score / loaded.decoder.normalizer(length) == pytest.approx(best.score, rel=1e-4)
    expected = sum(
        len(w) * (len(w) > 1) + 2 for kind in best.weights.values() for w in kind.values()
    )
    assert len(effects) == expected
    assert effects == sorted(effects, key=lambda e: e.change)
    assert any(abs(e.change) > 1e-4 for e in effects)
    assert all(torch.equal(before[n], p) for n, p in loaded.model.state_dict().items())
    assert why(loaded, TEXT, "a dog")[0] == "a dog"


def test_uniform_weights_are_uniform_and_a_head_is_gone(tmp_path):
    from regard import watch
    from regard.attention import Causal, MultiHead

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


def test_permuted_weights_are_the_same_elsewhere():
    from regard import watch
    from regard.attention import Causal, MultiHead

    torch.manual_seed(0)
    layer, x = MultiHead(8, 2).eval(), torch.randn(1, 12, 8)
    with torch.no_grad(), watch(layer) as seen:
        layer(x, x, mask=Causal())
        layer(x, x)
        with permuted(layer):
            layer(x, x, mask=Causal())
            layer(x, x)
    plain, plain_all, moved, moved_all = seen[""].steps
    for before, after in ((plain, moved), (plain_all, moved_all)):
        torch.testing.assert_close(before.sort(-1).values, after.sort(-1).values)
        assert not torch.allclose(before, after)
    assert float(moved.triu(1).abs().max()) == 0


def test_a_row_is_edited_in_one_call_and_in_many(tmp_path):
    from regard import watch

    text, target = "ein Hund läuft .", "a dog"
    for name in ("transformer", "luong"):
        loaded = loading.load(toy.make(tmp_path / name, name))
        path, weights = list(look(loaded, text, target=target).weights["cross"].items())[-1]
        keys = weights.shape[-1]
        wanted = [0.0] * (keys - 1) + [1.0]
        layer = loaded.model.get_submodule(path)
        with watch(loaded.model) as seen:
            scores = moved(loaded, text, target, edited(layer, 1, wanted))
        steps = seen[path].of(0)[:, -2 * weights.shape[1] :]  # before, then under the change
        before, after = steps.split(weights.shape[1], 1)
        torch.testing.assert_close(before, weights)
        assert after[:, 1].tolist() == [wanted] * len(weights)
        torch.testing.assert_close(after[:, 0], weights[:, 0])
        assert scores[0][1] == pytest.approx(scores[0][2])  # nothing behind it was changed
        assert any(abs(a - b) > 1e-3 for _, a, b in scores[1:])
        total = look(loaded, text, target=target).score * loaded.decoder.normalizer(len(scores))
        assert sum(a for _, a, _ in scores) == pytest.approx(total, abs=1e-4)
        if len(weights) > 1:
            with watch(loaded.model) as seen:
                moved(loaded, text, target, edited(layer, 1, wanted, head=1))
            after = seen[path].of(0)[:, -weights.shape[1] :]
            torch.testing.assert_close(after[0], weights[0])
            assert after[1, 1].tolist() == wanted
        with pytest.raises(RequestError, match=f"each of {keys} keys"):
            moved(loaded, text, target, edited(layer, 0, [1.0]))
