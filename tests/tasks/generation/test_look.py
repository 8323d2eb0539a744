"""The weights of any hypothesis, by two ways that share nothing but the model's weights.

A hypothesis of the beam is followed through re-orderings by its trail; the same output, teacher
forced, goes through `forward` all at once. Both must have looked at the same.
"""

import pytest
import torch

from regard import catalog, loading, watch
from regard.errors import RequestError
from regard.protocols import BOS, EOS
from regard.tasks.generation.look import KINDS, look
from tests.folder import toy

TEXT = "ein Hund läuft über die Straße ."
ATTENTIVE = ["rnnsearch", "luong", "transformer"]


@pytest.fixture(scope="module", params=ATTENTIVE)
def loaded(request, tmp_path_factory):
    return loading.load(toy.make(tmp_path_factory.mktemp("m") / request.param, request.param))


def teacher_forced(loaded, tokens):
    source = torch.tensor([[*loaded.tokenizers["source"].encode(TEXT).ids, EOS]])
    with watch(loaded.model) as seen, torch.no_grad():
        logits = loaded.model(source, torch.tensor([[BOS, *tokens[:-1]]])).logits[0]
    picked = logits.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])
    return {name: record.of(0) for name, record in seen.items()}, float(picked.sum())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_hypothesis_of_the_beam_looks_where_it_does_when_forced(loaded, number):
    found = look(loaded, TEXT, hypothesis=number)
    source = torch.tensor([[*loaded.tokenizers["source"].encode(TEXT).ids, EOS]])
    best = loaded.with_decoder(3).decoder(loaded.model, source)[0][number - 1]
    assert found.output == loaded.tokenizers["target"].decode(best.tokens)
    assert found.score == pytest.approx(best.score)
    forced, total = teacher_forced(loaded, best.tokens)
    assert total == pytest.approx(best.log_prob, rel=1e-3)
    seen = {name: w for kind in found.weights.values() for name, w in kind.items()}
    assert seen.keys() == forced.keys()
    for name, weights in seen.items():
        assert torch.allclose(weights, forced[name], atol=1e-4), name


def test_the_hypotheses_followed_change_slots(loaded):
    """Else following them would be no test."""
    source = torch.tensor([[*loaded.tokenizers["source"].encode(TEXT).ids, EOS]])
    found = loaded.with_decoder(3).decoder(loaded.model, source)[0]
    assert len({tuple(h.tokens) for h in found}) == 3
    assert any(len(set(h.trail[1:, 1].tolist())) > 1 for h in found)


def test_every_kind_layer_and_head_is_there(loaded):
    seen = look(loaded, TEXT)
    name = loaded.config["model"]["name"]
    layers, heads = (2, 2) if name == "transformer" else (1, 1)
    assert len(seen.layers("cross")) == layers
    rows, columns = len(seen.target.pieces), len(seen.source.pieces)
    shapes = {"cross": (rows, columns), "decoder": (rows, rows), "encoder": (columns, columns)}
    for kind in KINDS if name == "transformer" else ["cross"]:
        for layer in range(1, layers + 1):
            assert seen.heads(layer, kind) == heads
            for head in (None, *range(1, heads + 1)):
                found = seen.picture(layer, head, kind=kind, words=False)
                assert tuple(found.weights.shape) == shapes[kind]
                sums = found.weights.sum(1)
                assert torch.allclose(sums, torch.ones_like(sums), atol=1e-4)


def test_the_mean_of_heads_is_their_mean(loaded):
    seen = look(loaded, TEXT)
    heads = [seen.picture(1, h).weights for h in range(1, seen.heads(1) + 1)]
    assert torch.allclose(seen.picture(1).weights, sum(heads) / len(heads))


def test_a_given_output_is_forced(loaded):
    seen = look(loaded, TEXT, target="a dog runs")
    assert seen.output == "a dog runs"
    assert seen.picture().rows == ["a", "dog", "runs", "</s>"]
    tokens = [*loaded.tokenizers["target"].encode("a dog runs").ids, EOS]
    weights, total = teacher_forced(loaded, tokens)
    assert seen.score == pytest.approx(total / len(tokens), rel=1e-4)
    for name, expected in weights.items():
        own = next(kind[name] for kind in seen.weights.values() if name in kind)
        assert torch.allclose(own, expected, atol=1e-6)


def test_looking_changes_nothing(loaded):
    before = loaded.predict([TEXT])[0]
    look(loaded, TEXT)
    after = loaded.predict([TEXT])[0]
    assert (before.tokens, before.score) == (after.tokens, after.score)
    assert look(loaded, TEXT).output == before.output


def test_the_title_says_what_is_seen(loaded):
    seen = look(loaded, TEXT, hypothesis=2)
    name = loaded.config["model"]["name"]
    expected = {
        "transformer": "transformer · layer 1 of 2 · head 2 of 2 · hypothesis 2 of 3 · score −",
    }.get(name, f"{name} · hypothesis 2 of 3 · score −")
    layer, head = (1, 2) if name == "transformer" else (1, 1)
    assert seen.title(layer, head).startswith(expected)
    assert f"{seen.score:.2f}".lstrip("-") in seen.title(layer, head)


def test_a_model_without_attention_says_so(tmp_path):
    plain = loading.load(toy.make(tmp_path / "seq2seq", "seq2seq"))
    with pytest.raises(RequestError, match="no attention to look at"):
        look(plain, TEXT)


def test_what_is_not_there_is_named(loaded):
    with pytest.raises(RequestError, match="input is empty"):
        look(loaded, " ")
    with pytest.raises(RequestError, match="counted from 1"):
        look(loaded, TEXT, hypothesis=0)
    with pytest.raises(RequestError, match="size, which is 3"):
        look(loaded, TEXT, hypothesis=4)
    seen = look(loaded, TEXT)
    with pytest.raises(RequestError, match="no layer 7"):
        seen.picture(7)
    with pytest.raises(RequestError, match="no head 9"):
        seen.picture(1, 9)
    with pytest.raises(RequestError, match="did you mean 'cross'"):
        seen.layers("crosss")
    if loaded.config["model"]["name"] != "transformer":
        with pytest.raises(RequestError, match="no encoder attention"):
            seen.layers("encoder")


# Marian is a Transformer whose two sides share one vocabulary, which the toy has not.
OTHERS = sorted(
    name for name in catalog.names("translation")
    if catalog.entry(name).axes["score"] != "none" and name not in (*ATTENTIVE, "marian")
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_every_attentive_paper_is_looked_into(name, tmp_path):
    """Whatever comes into the catalogue is followed through its beam as those above."""
    made = loading.load(toy.make(tmp_path / name, name))
    found = look(made, TEXT, hypothesis=2)
    source = torch.tensor([[*made.tokenizers["source"].encode(TEXT).ids, EOS]])
    best = made.with_decoder(3).decoder(made.model, source)[0][1]
    forced, _ = teacher_forced(made, best.tokens)
    seen = {name: w for kind in found.weights.values() for name, w in kind.items()}
    assert seen.keys() == forced.keys()
    for path, weights in seen.items():
        assert torch.allclose(weights, forced[path], atol=1e-4), path
