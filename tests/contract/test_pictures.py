"""What every classifier of pictures keeps to."""

import pytest
import torch
from torch.nn import functional as F

from regard import catalog, watch
from regard.data.dataset import Batch
from regard.protocols import Classifier, Inputs
from regard.tasks.labels.images import Images
from tests.contract.battery import check_constructor
from tests.contract.whole import (
    check_bf16,
    check_copies,
    check_output,
    learn_by_heart,
)

CHANNELS, CLASSES = 2, 5
VARIANTS = {
    "ram, first looks chosen": ("ram", {"first": "policy", "gradient": "policy"}),
    "ma-cnn, one part": ("ma-cnn", {"parts": 1, "gradient": "joint"}),
    "resnet, bottlenecks": ("resnet", {"block": "bottleneck"}),
    "ram, several paths": ("ram", {"paths": 3, "squash": "tanh"}),
}
CASES = {name: (name, {}) for name in catalog.names(task="images")} | VARIANTS
SLOWLY = {"ram", *VARIANTS} - {"ram, first looks chosen"}
"""Those that learn by heart in the slow suite alone; a policy learns in a third of the time."""


def cases(slowly=()):
    """Every case; those named are slow tests."""
    given = [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in slowly else ())
        for name, case in CASES.items()
    ]
    return pytest.mark.parametrize(("kind", "settings"), given)


every, by_heart = cases(), cases(SLOWLY)


def build(kind, settings, dtype=torch.float64, seed=1):
    torch.manual_seed(seed)
    made = catalog.load(kind)(CHANNELS, CLASSES, **{**catalog.entry(kind).tiny, **settings})
    return made.to(dtype).eval()


def labeled(count=4, dtype=torch.float64, seed=4):
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.randn(count, CHANNELS, 10, 8, generator=generator, dtype=dtype)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    return Batch({"image": Inputs(pictures), "label": labels}, list(range(count)), count)


def loss_of(model, batch):
    """What a training minimizes, for each example."""
    return Images().loss(model, batch, 0)[0] / batch.count


@every
def test_it_is_a_classifier_whose_constructor_is_its_configuration(kind, settings):
    model, batch = build(kind, settings), labeled()
    check_constructor(kind, ["in_channels", "num_classes"])
    assert isinstance(model, Classifier)
    assert (model.in_channels, model.num_classes) == (CHANNELS, CLASSES)
    assert model.normalized is False
    check_output(model, lambda m: m(batch["image"]), (4, CLASSES))


@every
def test_inputs_and_bare_tensors_give_the_same(kind, settings):
    model, batch = build(kind, settings), labeled()
    assert torch.equal(model(batch["image"].values).logits, model(batch["image"]).logits)


@every
def test_gradients_reach_every_parameter(kind, settings):
    model, batch = build(kind, settings).train(), labeled(8)
    torch.manual_seed(1)
    loss_of(model, batch).backward()
    for path, parameter in model.named_parameters():
        if not parameter.requires_grad:  # a moving average
            continue
        assert parameter.grad is not None, path
        assert parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path


@every
def test_neighbors_change_nothing(kind, settings):
    model, pictures = build(kind, settings), labeled()["image"].values
    logits = model(pictures).logits
    for row in range(4):
        alone = model(pictures[row : row + 1]).logits[0]
        assert torch.allclose(alone, logits[row], atol=1e-12, rtol=0)


@by_heart
def test_it_overfits_eight_examples(kind, settings):
    own = {"glimpses": 2, "first": "center", "sigma": 0.01} if kind == "ram" else {}
    model, batch = build(kind, {**settings, **own}, torch.float32), labeled(8, torch.float32)

    def judged(model):
        return F.cross_entropy(model(batch["image"]).logits, batch["label"])

    torch.manual_seed(1)
    learn_by_heart(model, lambda m: loss_of(m, batch), judged, lr=0.01, every=1)


@every
def test_watching_changes_nothing(kind, settings):
    model, batch = build(kind, settings), labeled()
    results = []
    for watched in (False, True):
        model.train().zero_grad()
        torch.manual_seed(7)
        if watched:
            with watch(model) as seen:
                found = loss_of(model, batch)
        else:
            found = loss_of(model, batch)
        found.backward()
        results.append(
            [found.detach(), *(p.grad.clone() for p in model.parameters() if p.requires_grad)]
        )
    for without, within in zip(*results, strict=True):
        assert torch.equal(without, within)
    for record in seen.values():
        assert (record.role, record.axes) == ("region", ("example", "query", "key"))
        for weights in record.steps:
            assert weights.shape == (4, 1, 80)
            assert torch.allclose(weights.sum(-1), torch.ones(4, 1), atol=1e-6)
    assert len(seen) == (kind in {"ram", "ma-cnn"})


@every
def test_eval_mode_is_deterministic_and_keeps_nothing(kind, settings):
    model, batch = build(kind, settings), labeled()
    before = {path: set(vars(m)) for path, m in model.named_modules()}
    state = torch.get_rng_state()
    first = model(batch["image"]).logits
    assert torch.equal(model(batch["image"]).logits, first)
    assert torch.equal(torch.get_rng_state(), state)
    assert {path: set(vars(m)) for path, m in model.named_modules()} == before


@every
def test_copies_are_whole_and_their_own(kind, settings, tmp_path):
    model, batch = build(kind, settings), labeled()
    check_copies(
        model, lambda: build(kind, settings, seed=2), lambda m: m(batch["image"]).logits, tmp_path
    )


@every
def test_bf16(kind, settings):
    own = {"first": "center", "glimpses": 1} if kind == "ram" else {}  # looks move by rounding
    model, batch = build(kind, {**settings, **own}, torch.float32), labeled(dtype=torch.float32)
    low = build(kind, {**settings, **own}, torch.bfloat16)
    check_bf16(
        model, low, lambda m: m(batch["image"]).logits,
        lambda m: m(batch["image"]).logits.float().logsumexp(-1).sum(),
    )  # fmt: skip


@every
def test_bf16_trains(kind, settings):
    model, batch = build(kind, settings, torch.float32).train(), labeled(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss_of(model, batch).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
