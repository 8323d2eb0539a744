"""FlexAttention's functions of a pair, run uncompiled on the CPU (forward only) against reference.

Where there is a GPU, `test_cuda` runs the compiled kernel, with gradients.
"""

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from regard.attention import (
    ALiBi,
    Attention,
    Causal,
    Cosine,
    Dense,
    Directional,
    DistanceMask,
    Documents,
    General,
    Lengths,
    MultiHead,
    RelativeBias,
    RelativeKeys,
    Softmax,
    WeightedSum,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels import flex
from regard.errors import RequestError

pytestmark = [
    pytest.mark.nohook,  # FlexAttention traces the functions of a pair even uncompiled
    pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile.*"),
]


@pytest.fixture
def on_cpu(monkeypatch):
    """Let it take calls on the CPU, and small ones."""
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))
    monkeypatch.setattr(flex, "SHORT", 1)
    monkeypatch.setattr(flex, "NARROW", 1)


def documents(*shape):
    return torch.randint(-1, 3, shape)


CALLS = {
    "window": (lambda: {}, lambda: Window(2, 1)),
    "directional": (lambda: {}, lambda: Directional("forward") & Window(3, 3)),
    "lengths": (lambda: {}, lambda: Causal() & Window(4, None) & Lengths(torch.tensor([9, 0]))),
    "documents": (lambda: {}, lambda: Documents(documents(2, 9))),
    "documents of one row": (lambda: {}, lambda: Documents(documents(9)) & Causal()),
    "cosine": (lambda: {"score": Cosine(3.0)}, lambda: Window(1, 1)),
    "general": (lambda: {"score": General(8, 8)}, lambda: Window(1, 1)),
    "bias": (lambda: {"position": RelativeBias(2)}, lambda: None),
    "distance": (lambda: {"position": DistanceMask(0.4)}, lambda: Causal()),
    "relative": (lambda: {"score": RelativeKeys(8, 3)}, lambda: None),
    "both": (
        lambda: {"score": RelativeKeys(8, 2), "position": DistanceMask(0.2)},
        lambda: Lengths(torch.tensor([9, 4])),
    ),
}


def randomized(layer):
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_()
    return layer


@pytest.mark.parametrize(
    ("name", "queries"),
    [
        pytest.param(name, queries, marks=() if n % 2 == few else pytest.mark.slow)
        for n, name in enumerate(sorted(CALLS))
        for few, queries in enumerate((9, 4))
    ],
)
@torch.no_grad()
def test_it_is_reference(on_cpu, name, queries):
    parts, mask = (make() for make in CALLS[name])
    layer = randomized(Attention(**parts, select=Softmax(0.7)))
    query, key, value = torch.randn(2, queries, 8), torch.randn(2, 9, 8), torch.randn(2, 9, 5)
    with kernels("reference"):
        expected = layer(query, key, value, mask=mask).context
    with kernels("flex"):
        got = layer(query, key, value, mask=mask).context
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "position", [lambda: ALiBi(2), lambda: RelativeBias(3, heads=2), lambda: RelativeBias(3)]
)
@torch.no_grad()
def test_heads_have_their_own(on_cpu, position):
    layer = randomized(MultiHead(8, 2, Attention(position=position(), mask=Causal())))
    x = torch.randn(3, 7, 8)
    lengths = Lengths(torch.tensor([7, 2, 5]))
    with kernels("reference"):
        expected = layer(x, x, mask=lengths).context
    with kernels("flex"):
        got = layer(x, x, mask=lengths).context
    torch.testing.assert_close(got, expected)


@torch.no_grad()
def test_where_it_does_not_compile_the_next_kernel_is_taken(on_cpu, monkeypatch):
    """It says so once, and in `explain`; where it was asked for, the error is the compiler's."""

    def fails(*_args, **_options):
        raise BackendCompilerFailed(fails, RuntimeError("out of resource: shared memory"), None)

    monkeypatch.setattr(flex, "_broken", [])
    monkeypatch.setattr(flex, "_function", lambda _: fails)
    layer, x = randomized(Attention(RelativeKeys(8, 2))), torch.randn(2, 9, 8)
    with kernels("reference"):
        expected = layer(x, x).context
    with kernels("flex"), pytest.raises(BackendCompilerFailed):
        layer(x, x)
    with pytest.warns(RuntimeWarning, match="out of resource: shared memory.*slower kernel"):
        torch.testing.assert_close(layer(x, x).context, expected)
    torch.testing.assert_close(layer(x, x).context, expected)  # no second warning: -W error
    assert "could not compile FlexAttention" in dict(explain(layer)[""].passed_over)["flex"]


@torch.no_grad()
def test_other_errors_are_not_taken_for_the_compilers(on_cpu, monkeypatch):
    def fails(*_args, **_options):
        raise RuntimeError("another")

    monkeypatch.setattr(flex, "_function", lambda _: fails)
    with pytest.raises(RuntimeError, match="another"):
        Attention(RelativeKeys(8, 2))(torch.randn(2, 9, 8), torch.randn(2, 9, 8))
    assert flex._broken == []


@torch.no_grad()
def test_blocks_are_kept(on_cpu, monkeypatch):
    made = []
    real = flex._make
    monkeypatch.setattr(flex, "_make", lambda *a: made.append(a) or real(*a))
    flex._window_blocks.cache_clear()
    x = torch.randn(2, 6, 8)
    mask = Documents(documents(2, 6))
    with kernels("flex"):
        for _ in range(3):
            attend(x, x, mask=Window(1, 1))
            attend(x, x, mask=mask)
    assert len(made) == 2


def test_what_it_leaves_to_others(on_cpu):
    x = torch.randn(2, 6, 8)

    def why(x=x, mask=None, **parts):
        with kernels("flex"), pytest.raises(RequestError) as error:
            attend(x, x, mask=mask, **parts)
        return str(error.value)

    assert "plain attention is faster" in why()
    assert "plain attention is faster" in why(mask=Causal())
    assert "Dense is not a mask" in why(mask=Dense(torch.ones(6, 6, dtype=torch.bool)))
    assert "float32 or less" in why(x.double(), mask=Window(1, 1))
    assert "dropout" in why(mask=Window(1, 1), read=WeightedSum(dropout=0.5).train())
    assert "need_weights" in why(mask=Window(1, 1), need_weights=True)


def test_a_cpu_is_refused_with_a_sentence():
    x = torch.randn(2, 6, 8)
    with kernels("flex"), pytest.raises(RequestError, match="on a GPU only, and these tensors"):
        attend(x, x, mask=Window(1, 1))
    if not torch.cuda.is_available():
        over = dict(explain(Attention(mask=Window(1, 1)))[""].passed_over)
        assert "on a GPU only, and there is none" in over["flex"]
