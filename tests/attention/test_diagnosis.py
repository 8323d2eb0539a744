"""What does not fit is said in one sentence, by every kernel, and not in PyTorch's words."""

from contextlib import nullcontext

import pytest
import torch

from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Biaffine,
    Causal,
    Cosine,
    Coverage,
    Dense,
    Documents,
    Dot,
    Edges,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    General,
    InverseEuclidean,
    Lengths,
    LocalMonotonic,
    LocalPredictive,
    MultiHead,
    NegativeSquaredEuclidean,
    Pointer,
    PreviousWeights,
    Ragged,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    Rotary,
    Softmax,
    SplitLinear,
    Trilinear,
    WeightedSum,
    Window,
    attend,
    attend_ragged,
    kernels,
)
from regard.attention._diagnosis import refuse
from regard.attention._kernels.dispatch import table
from regard.attention.call import Call
from regard.attention.carry import CarryState
from regard.errors import RequestError

D = 8
FEATURES = {"select": FeatureSoftmax(), "read": FeatureSum()}
LAYERS = {
    "dot": lambda: Attention(),
    "additive": lambda: Attention(Additive(D, D, 4)),
    "coverage": lambda: Attention(Additive(D, D, 4, features=1), carry=Coverage()),
    "features": lambda: Attention(FeatureAdditive(D, D, D), **FEATURES),
    "relative": lambda: Attention(RelativeKeys(D, 2)),
    "window": lambda: Attention(mask=Window(1, 1)),
    "local": lambda: Attention(select=LocalPredictive(D, 4, 2)),
    "split": lambda: Attention(SplitLinear(D, D)),
    "rotary": lambda: Attention(position=Rotary()),
}


def x(*shape, grad=True):
    return torch.randn(*shape, requires_grad=grad)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    ("key", "value", "mask", "said"),
    [
        ((3, 7, D), (3, 7, D), None, r"same batch axes .* query \(2, 5, 8\), key \(3, 7, 8\)"),
        ((2, 7, D), (3, 7, D), None, r"same batch axes .* value \(3, 7, 8\)"),
        ((2, 7, D), (2, 6, D), None, "a value for each key"),
        ((2, 7, D), (2, 7, D), torch.ones(2, 5, 6).bool(), r"\(2, 5, 7\).*got .*\(2, 5, 6\)"),
        ((2, 7, D), (2, 7, D), torch.ones(2, 7).bool(), r"\(2, 5, 7\).*got .*\(2, 7\)"),
        ((2, 7, D), (2, 7, D), Lengths(torch.tensor([7, 3, 2])), r"broadcasts .*\(3, 1, 7\)"),
        ((2, 7, D), (2, 7, D), Documents(torch.zeros(2, 4).long()), "of each of 7 keys, got 4"),
    ],
    ids=["batch", "value", "values", "width", "padding", "lengths", "documents"],
)
def test_shapes(name, key, value, mask, said, grad):
    layer = LAYERS[name]()
    given = x(2, 5, D, grad=grad), x(*key, grad=grad), x(*value, grad=grad)
    for kernel in (None, *(k.name for k in table())):
        with pytest.raises(RequestError) as error, kernels(kernel) if kernel else nullcontext():
            layer(*given, mask=mask)
        if kernel is None:
            error.match(said)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "ScaledDot expected queries and keys of one size, got queries of 6 and keys of 8"),
        ({"score": Additive(D, D, 4)}, r"Additive with .*query.weight \(4, 8\).* queries of 6"),
        ({"score": General(D, D)}, r"General with project.weight \(8, 8\).* queries of 6"),
        ({"score": Trilinear(D)}, r"Trilinear with w \(3, 8\).* queries of 6"),
        ({"score": RelativeKeys(D, 2)}, r"RelativeKeys with table \(5, 8\).* queries of 6"),
        ({"score": General(6, D), "select": LocalPredictive(D, 4, 2)}, "LocalPredictive with"),
        ({"score": General(6, D), "read": RelativeValues(6, 2)}, "does not take values of 8"),
    ],
)
@pytest.mark.parametrize("grad", [True, False])
def test_sizes(parts, said, grad):
    with pytest.raises(RequestError, match=said):
        attend(x(2, 5, 6, grad=grad), x(2, 7, D, grad=grad), **parts)


EDGES = Edges.of(torch.tensor([[0, 1], [1, 0]]), 5)


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "parts",
    [
        {"select": LocalMonotonic(1)},
        {"mask": Window(1, 1)},
        {"mask": EDGES},
        {"score": Cosine()},
        {"score": InverseEuclidean()},
        {"score": NegativeSquaredEuclidean()},
        {"position": RelativeBias(2)},
    ],
)
def test_queries_and_keys_of_two_sizes(parts, size, grad):
    for kernel in (None, *(k.name for k in table())):
        with (
            pytest.raises(RequestError) as error,
            kernels(kernel) if kernel else nullcontext(),
        ):
            attend(x(2, 5, D, grad=grad), x(2, 5, size, grad=grad), **parts)
        if kernel is None:
            error.match(f"of one size, got queries of 8 and keys of {size}")


def test_few_axes():
    with pytest.raises(RequestError, match=r"\(\*batch, n, size\), got query \(8,\)"):
        attend(x(D), x(7, D))
    with pytest.raises(RequestError, match=r"attend expected tensors .*key \(7,\)"):
        attend(x(5, D), x(7))


def test_dtypes():
    with pytest.raises(RequestError, match=r"one dtype, got float32 and float64"):
        Attention(Additive(D, D, 4))(x(2, 5, D), x(2, 7, D).double())


def test_positions_of_another_batch():
    with pytest.raises(RequestError, match=r"each row of the batch \(2,\), got \(3,\)"):
        attend(x(2, 5, D), x(2, 7, D), mask=Causal(), at=torch.tensor([1, 2, 0]))


@pytest.mark.parametrize("carry", [Coverage(), PreviousWeights()])
def test_states(carry):
    layer = Attention(Additive(D, D, 4, features=1), carry=carry)
    with pytest.raises(RequestError, match=r"state like the scores \(2, 1, 5\), got \(2, 1, 4\)"):
        layer(x(2, 1, D), x(2, 5, D), state=CarryState(torch.zeros(2, 1, 4)))
    with pytest.raises(RequestError, match="first to be one of 5 keys, got 9"):
        attend(x(2, 1, D), x(2, 5, D), carry=PreviousWeights(9))


PARTS = {
    "alibi": lambda h: {"position": ALiBi(h)},
    "bias": lambda h: {"position": RelativeBias(2, heads=h)},
    "relative keys": lambda h: {"score": RelativeKeys(4, 2, heads=h)},
    "relative values": lambda h: {"read": RelativeValues(4, 2, heads=h)},
    "additive": lambda h: {"score": Additive(4, 4, 4, heads=h)},
    "biaffine": lambda h: {"score": Biaffine(4, 4, heads=h)},
    "split": lambda h: {"score": SplitLinear(4, 4, heads=h)},
}


@pytest.mark.parametrize("part", PARTS)
def test_heads(part):
    with pytest.raises(RequestError, match=r"MultiHead of 2 heads .*heads=3; build it for 2"):
        MultiHead(8, 2, Attention(**PARTS[part](3)))
    layer = MultiHead(8, 2, Attention(**PARTS[part](2)))
    assert layer(x(2, 5, 8), x(2, 5, 8)).context.shape == (2, 5, 8)
    for kernel in ("reference", None):
        with (
            pytest.raises(RequestError, match=r"heads=3 expected .*\(2, 5, 4\)"),
            kernels(kernel) if kernel else nullcontext(),
        ):
            attend(x(2, 5, 4), x(2, 5, 4), **PARTS[part](3))


def test_layers_of_heads():
    layer = MultiHead(8, 2, key_dim=6)
    with pytest.raises(RequestError, match=r"a query of \(\*batch, n, 8\), got \(2, 5, 6\)"):
        layer(x(2, 5, 6), x(2, 5, 6))
    with pytest.raises(RequestError, match=r"a key of \(\*batch, n, 6\), got \(2, 5, 8\)"):
        layer(x(2, 5, 8), x(2, 5, 8), x(2, 5, 6))
    with pytest.raises(RequestError, match=r"a value of \(\*batch, n, 6\), got \(2, 5, 8\)"):
        layer(x(2, 5, 8), x(2, 5, 6), x(2, 5, 8))
    with pytest.raises(RequestError, match=r"scores \(2, 2, 5, 5\).* got Lengths of \(3, 1, 1, 5"):
        layer(x(2, 5, 8), x(2, 5, 6), mask=Lengths(torch.tensor([5, 4, 3])))


def test_memories():
    additive = Attention(Additive(D, D, 4))
    with pytest.raises(RequestError, match="does not take keys of 6; build it for these sizes"):
        additive.remember(x(2, 5, 6))


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("kernel", ["reference", None])
@pytest.mark.parametrize("hidden", [3, 6, 40])
@pytest.mark.parametrize("score", [Additive, FeatureAdditive])
def test_a_memory_of_another_layer(score, hidden, kernel, grad):
    """C must not read beyond the keys, or leave some out."""
    parts = FEATURES if score is FeatureAdditive else {}
    layer, other = Attention(score(D, D, D), **parts), Attention(score(D, D, hidden), **parts)
    memory = other.remember(x(2, 5, D))
    with (
        torch.set_grad_enabled(grad),
        pytest.raises(RequestError, match=r"prepared (itself|by another)|as many features"),
        kernels(kernel) if kernel else nullcontext(),
    ):
        layer(x(2, 5, D), memory)


@pytest.mark.nohook
def test_what_the_shape_checks_refuse_first():
    ragged = Ragged.of([torch.randn(3, D), torch.randn(2, D)])
    with pytest.raises(RequestError, match=r"got Ragged for the query; ragged .* attend_ragged"):
        Attention()(ragged, ragged)
    with pytest.raises(RequestError, match="got Ragged for the key"):
        Attention()(x(2, 5, D), ragged)
    with pytest.raises(RequestError, match="as ragged as the queries are, got Tensor, Ragged"):
        MultiHead(D, 2)(x(2, 5, D), ragged)
    with pytest.raises(RequestError, match=r"a query of \(\*batch, n, 8\), got \(8,\)"):
        MultiHead(D, 2)(x(D), x(2, 5, D))


@pytest.mark.parametrize("heads", [(), (2,)])
def test_ragged(heads):
    ragged = Ragged.of([torch.randn(3, *heads, 4), torch.randn(2, *heads, 4)])
    with pytest.raises(RequestError, match="Pointer gives one number per key"):
        attend_ragged(ragged, ragged, read=Pointer())
    for mask in (
        Lengths(torch.tensor([2, 2])),
        Documents(torch.zeros(2, 3).long()) & Causal(),
        ~Dense(torch.ones(2, *heads, 3, 3).bool()),
        torch.ones(2, *heads, 3, 3).bool(),
    ):
        with pytest.raises(RequestError, match="holds in every sequence"):
            attend_ragged(ragged, ragged, mask=mask)
    for part in PARTS.values():
        with pytest.raises(RequestError, match=r"heads=3 expected ragged queries \(N, 3, dim\)"):
            attend_ragged(ragged, ragged, **part(3))
    other = Ragged.of([torch.randn(3, *heads, 6), torch.randn(2, *heads, 6)])
    with pytest.raises(RequestError, match=r"General with .* does not take queries of 6"):
        attend_ragged(other, ragged, score=General(4, 4))


def test_other_errors_stay_as_they_are():
    class Broken(torch.nn.Module):
        def prepare(self, key):
            return key

        def forward(self, query, key, *, at=0, features=None):
            if query.shape[-2] > 2:
                raise RuntimeError("the disk is full")
            return query @ key.mT

    with pytest.raises(RuntimeError, match="the disk is full"):
        attend(x(2, 5, D), x(2, 7, D), score=Broken())


def test_no_memory_is_taken_to_say_what_is_wrong():
    """A call that found no memory is not told so of its mask, which would want more of it."""
    key = torch.randn(1, 1, D).expand(1, 1 << 19, D)
    mask = Causal() & Lengths(torch.tensor([5, 4]))
    call = Call(Dot(), Softmax(), WeightedSum(), mask=mask, query=key, key=key, value=key)
    with pytest.raises(RequestError, match=rf"scores \(1, {1 << 19}, {1 << 19}\).*got Lengths"):
        refuse(call)
