"""On a GPU all models of the catalogue give the outputs and gradients of the CPU in float64."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from regard import catalog, decode
from regard.layers.lstm import LSTM
from regard.protocols import Inputs
from tests.contract import (
    battery,
    test_captioner,
    test_classifier,
    test_documents,
    test_frames,
    test_nodes,
    test_pairs,
    test_pictures,
    test_reader,
    test_relations,
    test_taggers,
)

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
CHOOSES = ("RAM", "MoE")
"""Classes that draw, or pick the best of several: rounding may choose another."""


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    """Without the 10-bit products that cuDNN takes for float32 by itself."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


class Case(NamedTuple):
    """A model of a type, in eval mode, and what it is called with."""

    build: Callable[[torch.dtype], nn.Module]
    given: Callable[[], tuple[Any, ...]]
    real: Callable[[], Tensor] | None = None
    """Which positions are no padding, of models that say something of every word."""


def sequence(name: str) -> Case:
    def given() -> tuple[Any, ...]:
        batch = battery.mixed()
        source = battery.source_of(battery.build(name), batch)
        return source, batch.target_in, batch.lengths

    return Case(lambda dtype: battery.build(name, dtype=dtype), given)


def of(
    module: Any,
    cases: dict[str, tuple[Any, ...]] | Iterable[tuple[Any, ...]],
    given: Callable[[], tuple[Any, ...]],
    real: Callable[[], Tensor] | None = None,
) -> dict[str, Case]:
    """A case for each pair of a kind of model and its settings."""
    if not isinstance(cases, dict):
        cases = {f"{kind}, {settings}": (kind, settings) for kind, settings in cases}
    return {
        name: Case(lambda dtype, case=case: module.build(*case, dtype), given, real)
        for name, case in cases.items()
    }


def labeled() -> tuple[Tensor, Tensor]:
    return test_classifier.labeled()[:2]


def targets() -> Tensor:
    return test_frames.TARGETS.target_in


WRITES = {
    **{name: sequence(name) for name in catalog.names(task="translation")},
    **of(test_captioner, test_captioner.PICTURES, lambda: (test_captioner.pictures(), targets())),
    **of(test_captioner, test_captioner.CLIPS, lambda: (test_captioner.clips(), targets())),
    **of(test_frames, test_frames.GENERATORS, lambda: (test_frames.sounds(), targets())),
}  # fmt: skip


def remembers(name: str) -> Case:
    """A memory network, whose answers and words are of one vocabulary."""

    def build(dtype: torch.dtype) -> nn.Module:
        torch.manual_seed(1)
        sizes = (17,) if name.endswith("-lm") else (17, 17)
        model: nn.Module = catalog.load(name)(*sizes, **catalog.entry(name).tiny)
        return model.to(dtype).eval()

    def given() -> tuple[Any, ...]:
        document, query, *_ = test_reader.asked()
        if name.endswith("-lm"):
            return (document,)
        story = torch.stack([document, document.flip(1)], 2)  # sentences of two words
        return story, query, torch.tensor([9, 1, 4, 6])

    return Case(build, given)


DOCUMENTS = {f"{name}, documents": case for name, case in test_documents.CASES.items()}
NODES = {name: (name,) for name in catalog.names(task="graphs")}
CASES = {
    **WRITES,
    **of(test_classifier, test_classifier.CASES, labeled),
    **of(test_classifier, DOCUMENTS, lambda: (test_documents.documents(),)),
    **of(test_pairs, test_pairs.CASES, lambda: test_pairs.labeled().pair),
    **of(test_taggers, test_taggers.CASES, lambda: (test_taggers.tagged().source,),
         real=lambda: test_taggers.tagged().real),
    **of(test_pictures, test_pictures.CASES, lambda: (test_pictures.labeled()["image"],)),
    **of(test_reader, test_reader.CASES, lambda: tuple(test_reader.asked())),
    **of(test_relations, test_relations.CASES, lambda: (test_relations.documents(),)),
    **of(test_frames, test_frames.LABELERS, lambda: (test_frames.sounds(),)),
    **of(test_nodes, NODES, test_nodes.graph),
    **{name: remembers(name) for name in ("memn2n", "memn2n-lm", "lstmn-lm")},
}  # fmt: skip
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def moved(x: Any, device: str, dtype: torch.dtype) -> Any:
    """On a device; numbers with a fraction in `dtype`."""
    if isinstance(x, Tensor):
        return x.to(device, dtype if x.is_floating_point() else None)
    if isinstance(x, dict):
        return {key: moved(value, device, dtype) for key, value in x.items()}
    if isinstance(x, tuple):
        return tuple(moved(value, device, dtype) for value in x)
    if isinstance(x, Inputs):
        return Inputs(*(moved(getattr(x, f.name), device, dtype) for f in fields(x)))
    return x.to(device) if hasattr(x, "to") else x


@torch.no_grad()
def different(model: nn.Module) -> nn.Module:
    """No matrix of zeros, as gates of experts begin with: the best of equals would be any."""
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            parameter.normal_()
    return model


def run(model: nn.Module, case: Case, device: str, dtype: torch.dtype) -> list[Tensor]:
    """Logits, and every parameter's gradient of a fixed direction; in float64 on the CPU."""
    torch.manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.LSTM):  # cuDNN's, which have gradients in train mode alone
            module.train().dropout = 0.0
    logits = model(*moved(case.given(), device, dtype)).logits
    inside = logits.detach().isfinite()  # log-probabilities of what cannot be are -inf
    if case.real is not None:
        inside = inside & case.real().to(device)[..., None]
    direction = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).view(logits.shape)
    kept = torch.where(inside, logits, 0.0)
    (kept * direction.to(logits)).sum().backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return [x.detach().cpu().double() for x in (kept, inside, *grads)]


@every
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float64, 1e-7), (torch.float32, 1e-3)], ids=["double", "single"]
)
def test_it_is_the_same_on_a_gpu(case, dtype, bound):
    exact = different(case.build(torch.float64))
    if type(exact).__name__ in CHOOSES and dtype != torch.float64:
        pytest.skip("rounding may choose another place or expert")
    model = case.build(dtype)
    model.load_state_dict({k: v.to(dtype) for k, v in exact.state_dict().items()})
    expected = run(exact, case, "cpu", torch.float64)
    found = run(model.to(DEVICE), case, DEVICE, dtype)
    assert len(found) == len(expected)
    largest = max(float(x.abs().max()) for x in expected[2:])
    for n, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.isfinite().all()
        size = float(b.abs().max()) if n < 2 else largest
        assert float((a - b).abs().max()) <= bound * size + 1e-12


@every
def test_it_trains_in_bf16(case):
    """Under autocast, with dropout: every gradient is a number, over several updates."""
    model = case.build(torch.float32).to(DEVICE).train()
    given = moved(case.given(), DEVICE, torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(2):
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = model(*given).logits
        logits.float()[logits.detach().isfinite()].square().sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        optimizer.step()
        optimizer.zero_grad()


def test_an_lstm_has_gradients_in_eval_mode_and_no_float16():
    """cuDNN has no such gradients, and PyTorch's autocast gives it float16 in place of bfloat16."""
    layer, x = LSTM(4, 5, 2).to(DEVICE).eval(), torch.randn(3, 6, 4, device=DEVICE)
    lengths = torch.tensor([6, 2, 4], device=DEVICE)
    out, _ = layer(x.requires_grad_(), lengths)
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    assert (grad.abs().sum(-1) > 0).sum(1).tolist() == [6, 2, 4]
    with torch.autocast(DEVICE, torch.bfloat16):
        out, (h, c) = layer.train()(x, lengths)
    assert {t.dtype for t in (out, h, c)} == {torch.float32}


@pytest.mark.parametrize("case", WRITES.values(), ids=WRITES.keys())
def test_beam_search_is_that_of_the_cpu(case):
    model = different(case.build(torch.float64))
    decoder = decode.build({"beam_size": 3, "n_best": 2, "max_extra": 1, "max_length": 6})
    source, _, *lengths = case.given()
    expected = decoder(model, source, *lengths)
    there = moved((source, *lengths), DEVICE, torch.float64)
    found = decoder(copy.deepcopy(model).to(DEVICE), *there)
    for one, other in zip(expected, found, strict=True):
        assert [h.tokens for h in other] == [h.tokens for h in one]
        assert [h.score for h in other] == pytest.approx([h.score for h in one], abs=1e-7)
