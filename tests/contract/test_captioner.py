"""Models that read pictures or clips and write: the battery, with each kind of attention."""

import pytest
import torch
from torch.nn import functional as F

from regard import catalog
from regard.models.temporal_captioner import TemporalCaptioner
from regard.protocols import PAD, Generator, Inputs
from tests.contract.battery import SIZE, attentions, check_constructor, pairs
from tests.contract.whole import (
    check_bf16,
    check_copies,
    check_eval,
    check_watching,
    in_eval,
    learn_by_heart,
)
from tests.contract.written import (
    check_beams,
    check_coverage,
    check_decoders,
    check_limits,
    check_steps,
    same,
)

PICTURES = [
    ("show-attend-tell", {}),
    ("show-attend-tell", {"gate": False, "doubly": 0.0}),
    ("show-attend-tell", {"attention": "hard"}),
    ("show-attend-tell", {"attention": "hard", "expected": 0.0}),
    ("show-attend-tell", {"attention": "none"}),
    ("show-attend-tell", {"encoder": "resnet"}),
]
CLIPS = [
    ("temporal", {}),
    ("temporal", {"motion": 0}),
    ("temporal", {"attention": "mean"}),
]
every = pytest.mark.parametrize(("kind", "settings"), PICTURES + CLIPS)
some = pytest.mark.parametrize(("kind", "settings"), [PICTURES[0], PICTURES[2], CLIPS[0]])
ALIKE = (PICTURES[1], PICTURES[3], PICTURES[5], CLIPS[1])
"""Those whose steps look and carry as another one's do: decoded in the slow suite."""
decoded = pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param(*one, marks=pytest.mark.slow if one in ALIKE else ())
        for one in PICTURES + CLIPS
    ],
)
of_pictures = pytest.mark.parametrize(("kind", "settings"), PICTURES)
of_clips = pytest.mark.parametrize(("kind", "settings"), CLIPS)
TARGETS = pairs([2, 2, 2, 2], [4, 1, 3, 5])


def build(kind, settings, dtype=torch.float64, seed=1, **changes):
    torch.manual_seed(seed)
    made = catalog.load(kind)
    return made(2, SIZE, **{**catalog.entry(kind).tiny, **settings, **changes}).to(dtype).eval()


def pictures(dtype=torch.float64):
    values = torch.randn(4, 2, 6, 8, generator=torch.Generator().manual_seed(3))
    return Inputs(values.to(dtype))


def clips(dtype=torch.float64):
    values = torch.randn(4, 5, 2, 8, 8, generator=torch.Generator().manual_seed(3))
    return Inputs(values.to(dtype), torch.tensor([5, 2, 4, 3]))


def inputs_of(model):
    dtype = next(model.parameters()).dtype
    return clips(dtype) if isinstance(model, TemporalCaptioner) else pictures(dtype)


def logits(model):
    return model(inputs_of(model), TARGETS.target_in).logits.detach()


def loss(model):
    output = model(inputs_of(model), TARGETS.target_in)
    gold = TARGETS.target_out.flatten()
    total = F.cross_entropy(output.logits.flatten(0, 1).float(), gold, ignore_index=PAD)
    return total + 0.01 * output.extra.get("penalty", 0.0)


@every
def test_its_constructor_is_its_configuration(kind, settings):
    model = build(kind, settings)
    check_constructor(kind, ["in_channels", "target_vocab_size"])
    assert isinstance(model, Generator)
    assert logits(model).shape == (4, 5, SIZE)


@every
def test_gradients_reach_every_parameter(kind, settings):
    model = build(kind, settings).train()
    torch.manual_seed(4)
    total = sum(loss(model) for _ in range(4))  # of both sides of the coin
    total.backward()
    for path, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, path
            assert parameter.grad.any(), path
            assert parameter.grad.isfinite().all(), path


@every
def test_order_and_neighbors_change_nothing(kind, settings):
    model = build(kind, settings)
    given = inputs_of(model)
    expected = model(given, TARGETS.target_in).logits
    order = torch.tensor([3, 1, 0, 2])
    same(model(given.rows(order), TARGETS.target_in[order]).logits, expected[order])
    one = model(given.rows(torch.tensor([2])), TARGETS.target_in[2:3]).logits
    same(one[0], expected[2])


@of_pictures
def test_regions_that_are_given_are_read_as_those_of_the_picture(kind, settings):
    model, given = build(kind, settings), pictures()
    regions = model.encode(given).states
    assert regions.shape == (4, 3 * 4, 6)
    expected = model(given, TARGETS.target_in).logits
    same(model(Inputs(regions), TARGETS.target_in).logits, expected)


@of_clips
def test_what_lies_behind_the_end_changes_nothing(kind, settings):
    model, given = build(kind, settings), clips()
    expected = model(given, TARGETS.target_in).logits
    values = given.values.clone()
    for row, length in enumerate(given.lengths.tolist()):
        values[row, length:] = 9.0
    same(model(Inputs(values, given.lengths), TARGETS.target_in).logits, expected)
    longer = torch.cat([values, values[:, :2] + 1], 1)
    same(model(Inputs(longer, given.lengths), TARGETS.target_in).logits, expected)


@of_clips
def test_vectors_that_are_given_are_read_as_those_of_the_clip(kind, settings):
    model, given = build(kind, settings), clips()
    encoded = model.encode(given)
    assert encoded.states.shape == (4, 5, model.size)
    expected = model(given, TARGETS.target_in).logits
    same(model(Inputs(encoded.states, encoded.lengths), TARGETS.target_in).logits, expected)


@every
def test_step_by_step_is_teacher_forcing(kind, settings):
    model = build(kind, settings)
    check_steps(model, inputs_of(model), TARGETS.target_in)


@every
def test_beams_are_rearranged_with_all_they_carry(kind, settings):
    model = build(kind, settings)
    check_beams(model, inputs_of(model))


@decoded
def test_decoders_score_as_teacher_forcing_does(kind, settings):
    model = build(kind, settings)
    given = inputs_of(model)
    check_decoders(model, given)
    check_coverage(model, given)
    states = given.lengths.tolist() if kind == "temporal" else model.encode(given).lengths.tolist()
    check_limits(model, given, states)
    if kind != "temporal":
        assert states == [model.encode(given).states.shape[1]] * 4


@some
def test_it_learns_examples_by_heart(kind, settings):
    learn_by_heart(build(kind, settings, torch.float32), loss, in_eval(loss), lr=0.04)


@some
def test_eval_mode_is_deterministic_and_keeps_nothing(kind, settings):
    check_eval(build(kind, settings, dropout=0.5), logits)


@every
def test_watching_changes_nothing(kind, settings):
    model = build(kind, settings)
    assert len(attentions(model)) == 1
    check_watching(model, loss, frozen=True)


@some
def test_copies_are_whole_and_their_own(kind, settings, tmp_path):
    check_copies(build(kind, settings), lambda: build(kind, settings, seed=2), logits, tmp_path)


@every
def test_bf16(kind, settings):
    check_bf16(
        build(kind, settings, torch.float32), build(kind, settings, torch.bfloat16), logits, loss
    )
