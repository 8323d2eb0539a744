"""The life of a module: declared in `__init__`, moved, emptied, recomputed, used in two modes."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard import watch
from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Causal,
    Cosine,
    Coverage,
    DistanceMask,
    General,
    MultiHead,
    Rotary,
    Sparsemax,
    attend,
    kernels,
)
from regard.errors import RequestError
from regard.layers.positional_encoding import Sinusoid

D = 8


def x(*shape, seed=0):
    return torch.randn(*shape, D, generator=torch.Generator().manual_seed(seed))


class Told(nn.Module):
    """A score that says all it is in `__init__`, and reads the features of a carry."""

    def __init__(self, **said):
        super().__init__()
        self.__dict__.update(said)

    def prepare(self, key):
        return key

    def forward(self, query, key, *, at=0, features=None):
        scores = query @ key.mT
        return scores if features is None else scores - 5 * features[..., 0]


class Declared(Told):
    feature_dim = 1


@pytest.mark.parametrize("score", [Told(feature_dim=1), Declared()], ids=["init", "class"])
def test_a_score_that_declares_features_gets_those_of_the_carry(score):
    layer, query, key = Attention(score, carry=Coverage()), x(2, 1), x(2, 5, seed=1)
    first = layer(query, key, need_weights=True)
    second = layer(query, key, state=first.state, need_weights=True)
    expected = (query @ key.mT - 5 * first.weights).softmax(-1)
    torch.testing.assert_close(second.weights, expected)
    with pytest.raises(RequestError, match="features of a carry but there is none"):
        Attention(score)


def test_what_a_part_declares_in_init_is_checked_as_well():
    with pytest.raises(RequestError, match="one number a feature"):
        Attention(Told(per_feature=True))
    with pytest.raises(RequestError, match="one number a feature"):
        attend(x(1, 5), x(1, 5), score=Told(per_feature=True))


def test_a_label_that_is_given_before_the_first_call():
    layer = MultiHead(D, 2)
    with watch(layer) as seen:
        seen.label(role="self").label("nothing*", role="decoder").label(role="cross")
        layer(x(1, 5), x(1, 5))
    assert seen[""].role == "cross"


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("make", [
    lambda: MultiHead(D, 2, Attention(mask=Causal())),
    lambda: Attention(Additive(D, D, 4)),
    lambda: Attention(select=Sparsemax()),
])  # fmt: skip
def test_a_checkpoint_is_seen_once(make, reentrant):
    layer, given = make(), x(2, 5).requires_grad_()
    with watch(layer) as seen:
        made = checkpoint(lambda y: layer(y, y).context, given, use_reentrant=reentrant)
        made.sum().backward()
    assert len(seen[""].kept) == 1
    torch.testing.assert_close(
        seen[""].weights, layer(given, given, need_weights=True).weights.detach()
    )


LAYERS = {
    "heads": lambda: MultiHead(D, 2),
    "additive": lambda: Attention(Additive(D, D, 4)),
    "rotary": lambda: MultiHead(D, 2, Attention(position=Rotary())),
    "cosine": lambda: Attention(Cosine()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_memory_goes_on_outside_of_inference_mode_and_in_it(name):
    layer, keys = LAYERS[name](), x(2, 9)
    memory = None
    for at in range(9):
        mode = torch.inference_mode() if at in (0, 1, 2, 5, 7) else torch.no_grad()
        with mode:
            new = keys[:, at : at + 1]
            memory = layer.remember(new) if memory is None else layer.extend(memory, new)
    with torch.no_grad():
        whole = layer(keys, keys).context
        torch.testing.assert_close(layer(keys, memory).context, whole)
        for twin in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
            torch.testing.assert_close(layer(keys, twin).context, whole)
            layer.extend(twin, keys)
            torch.testing.assert_close(layer(keys, twin).context, whole)


def test_gradients_through_a_memory_of_inference_mode_are_refused_with_a_sentence():
    layer, query = MultiHead(D, 2), x(2, 3).requires_grad_()
    with torch.inference_mode():
        memory = layer.remember(x(2, 5))
    with pytest.raises(RequestError, match=r"made in torch.inference_mode\(\); call it in"):
        layer(query, memory)


class Tables(nn.Module):
    """All that has a table outside of the `state_dict`."""

    def __init__(self):
        super().__init__()
        self.places = Sinusoid(D, length=6)
        self.heads = MultiHead(D, 2, Attention(position=ALiBi(2)))
        self.far = Attention(General(D, D), position=DistanceMask(0.25))

    def forward(self, given):
        placed = self.places(given)
        return self.far(self.heads(placed, placed).context, placed).context


def test_tables_of_no_state_dict_are_computed_anew():
    torch.manual_seed(0)
    model, given = Tables(), x(2, 5)
    expected, saved = model(given), model.state_dict()

    def on_meta():
        with torch.device("meta"):
            return Tables()

    empty = torch.empty_like
    try:
        # what `to_empty` allocates may be the old numbers by chance
        torch.empty_like = lambda *args, **more: empty(*args, **more).fill_(torch.nan)
        made = [
            on_meta().to_empty(device="cpu"),
            Tables().to("meta").to_empty(device="cpu"),
            Tables().to_empty(device="cpu"),
        ]
    finally:
        torch.empty_like = empty
    made += [on_meta(), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for other in made:
        other.load_state_dict(saved, strict=True, assign=other is made[3])
        assert torch.equal(other(given), expected)
    assert torch.equal(
        model.bfloat16().heads.attention.position.m.float(), torch.tensor([2**-4, 2**-8])
    )


def test_a_changed_constant_stays_as_it_is():
    position = DistanceMask(0.25)
    position.alpha.fill_(0.75)
    assert position.to(torch.float64).alpha == position.to_empty(device="cpu").alpha == 0.75
    assert "0.25" in repr(DistanceMask(0.25).to("meta"))


def test_a_table_that_grew_in_inference_mode_can_be_written_to():
    layer, given = Sinusoid(D, length=4), x(1, 9)
    with torch.inference_mode():
        made = layer(given)
    torch.testing.assert_close(layer(given.clone()), made)
    assert not layer.table.is_inference()
    layer.table.mul_(1)  # as DistributedDataParallel writes to buffers


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("score", [None, Cosine(), Additive(D, D, 4)], ids=str)
def test_two_dtypes_have_one_rule(score, need_weights):
    layer, query = Attention(score), x(1, 5)
    for kernel in (None, "reference"):
        with kernels(kernel) if kernel else torch.no_grad():
            with pytest.raises(RequestError, match="keys in one dtype, got float32 and bfloat16"):
                layer(query, query.bfloat16(), query, need_weights=need_weights)
            for dtype in (torch.bfloat16, torch.float64):
                found = layer(query, query, query.to(dtype), need_weights=need_weights).context
                assert found.dtype == dtype
                expected = layer(query, query).context
                bound = 2e-2 if dtype == torch.bfloat16 else 1e-5
                torch.testing.assert_close(found.float(), expected, atol=bound, rtol=bound)


@pytest.mark.nohook
def test_a_compiled_causal_layer_at_a_second_length():
    layer = Attention(mask=Causal())
    run = torch.compile(lambda y: layer(y, y).context, fullgraph=True, backend="eager")
    try:
        for length in (5, 7, 9):
            given = x(2, length)
            torch.testing.assert_close(run(given), layer(given, given).context)
    finally:
        torch._dynamo.reset()
