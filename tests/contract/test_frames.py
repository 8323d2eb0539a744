"""Models that read frames: every one of the catalogue, in each form, meets the battery."""

import pytest
import torch
from torch.nn import functional as F

from regard import catalog
from regard.protocols import EOS, PAD, FrameClassifier, Generator, Inputs
from tests.contract.battery import SIZE, check_constructor, pairs
from tests.contract.whole import (
    check_bf16,
    check_copies,
    check_eval,
    check_watching,
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

DIM = 5
GENERATORS = [
    ("arsg", {}),
    ("arsg", {"attention": "content", "reach": 2}),
    ("arsg", {"attention": "location", "join": 2}),
    ("arsg", {"select": "smooth", "ctc": 0.3}),
    ("arsg", {"sharpen": 2.0}),
    ("arsg", {"keep": 3}),
]
LABELERS = [("ctc", {}), ("ctc", {"join": 2})]
generators = pytest.mark.parametrize(("kind", "settings"), GENERATORS)
ALIKE = (GENERATORS[3], GENERATORS[4])
"""Those whose steps carry what another one's do: decoded in the slow suite."""
decoded = pytest.mark.parametrize(
    ("kind", "settings"),
    [pytest.param(*one, marks=pytest.mark.slow if one in ALIKE else ()) for one in GENERATORS],
)
every = pytest.mark.parametrize(("kind", "settings"), GENERATORS + LABELERS)
some = pytest.mark.parametrize(("kind", "settings"), [*GENERATORS[:1], *LABELERS[:1]])
TARGETS = pairs([2, 2, 2, 2], [4, 1, 3, 5])
REAL = TARGETS.target_out != PAD


def build(kind, settings, dtype=torch.float64, seed=1, **changes):
    torch.manual_seed(seed)
    made = catalog.load(kind)
    return made(DIM, SIZE, **{**catalog.entry(kind).tiny, **settings, **changes}).to(dtype).eval()


def sounds(lengths=(9, 4, 6, 12), dtype=torch.float64, seed=3):
    values = torch.randn(
        len(lengths), max(lengths), DIM, generator=torch.Generator().manual_seed(seed)
    )
    lengths = torch.tensor(lengths)
    inside = torch.arange(values.shape[1]) < lengths[:, None]
    return Inputs((values * inside[..., None]).to(dtype), lengths)


def read(model, source, target_in=TARGETS.target_in):
    if isinstance(model, FrameClassifier) and not isinstance(model, Generator):
        return model(source)
    return model(source, target_in)


def logits(model):
    dtype = next(model.parameters()).dtype
    return read(model, sounds(dtype=dtype)).logits.detach()


def loss(model):
    output = read(model, sounds(dtype=next(model.parameters()).dtype))
    if isinstance(model, Generator):
        gold = TARGETS.target_out.flatten()
        total = F.cross_entropy(output.logits.flatten(0, 1).float(), gold, ignore_index=PAD)
        return total + output.extra.get("penalty", 0.0)
    logs = output.logits.float().log_softmax(-1).transpose(0, 1)
    gold = TARGETS.target_out.masked_fill(TARGETS.target_out == EOS, PAD)
    return F.ctc_loss(logs, gold, output.extra["lengths"], (gold != PAD).sum(1), zero_infinity=True)


@every
def test_its_constructor_is_its_configuration(kind, settings):
    model = build(kind, settings)
    check_constructor(kind, ["source_dim", "target_vocab_size"])
    assert isinstance(model, Generator if kind == "arsg" else FrameClassifier)
    assert read(model, sounds()).logits.shape[-1] == SIZE


@every
def test_gradients_reach_every_parameter(kind, settings):
    model = build(kind, settings).train()
    loss(model).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path


@every
def test_padding_neighbors_and_order_change_nothing(kind, settings):
    model, given = build(kind, settings), sounds()
    found = read(model, given)
    counts = found.extra.get("lengths", REAL.sum(1)).tolist()
    wide = F.pad(given.values, (0, 0, 0, 3))
    rubbish = wide.clone()
    for row, size in enumerate(given.lengths.tolist()):
        rubbish[row, size:] = 7.0
    order = torch.tensor([3, 1, 0, 2])
    for values in (wide, rubbish):
        other = read(model, Inputs(values, given.lengths)).logits
        for row, count in enumerate(counts):
            same(other[row, :count], found.logits[row, :count])
    other = read(model, given.rows(order), TARGETS.target_in[order]).logits
    for row, count in enumerate(counts):
        same(other[order.tolist().index(row), :count], found.logits[row, :count])
        size = int(given.lengths[row])
        alone = Inputs(given.values[row : row + 1, :size])
        same(
            read(model, alone, TARGETS.target_in[row : row + 1]).logits[0, :count],
            found.logits[row, :count],
        )


@pytest.mark.parametrize(("kind", "settings"), [GENERATORS[0], GENERATORS[3], LABELERS[1]])
def test_every_frame_matters(kind, settings):
    model, given = build(kind, settings), sounds((7, 7, 7, 7))
    expected = read(model, given).logits
    for place in range(7):
        values = given.values.clone()
        values[:, place] += 1.0
        moved = read(model, Inputs(values, given.lengths)).logits
        assert ((moved - expected).abs().amax((1, 2)) > 1e-9).all(), f"frame {place}"


@generators
def test_step_by_step_is_teacher_forcing(kind, settings):
    check_steps(build(kind, settings), sounds(), TARGETS.target_in)


@generators
def test_beams_are_rearranged_with_all_they_carry(kind, settings):
    check_beams(build(kind, settings), sounds())


@decoded
def test_decoders_score_as_teacher_forcing_does(kind, settings):
    model, given = build(kind, settings), sounds()
    check_decoders(model, given)
    check_coverage(model, given)
    check_limits(model, given, given.lengths.tolist())


@some
def test_it_learns_sounds_by_heart(kind, settings):
    model = build(kind, settings, torch.float32)

    learn_by_heart(model, loss, lambda model: loss(model).detach(), lr=0.02)


@some
def test_eval_mode_is_deterministic_and_keeps_nothing(kind, settings):
    check_eval(build(kind, settings, dropout=0.5), logits)


@some
def test_watching_changes_nothing(kind, settings):
    check_watching(build(kind, settings), loss)


@some
def test_copies_are_whole_and_their_own(kind, settings, tmp_path):
    check_copies(build(kind, settings), lambda: build(kind, settings, seed=2), logits, tmp_path)


@every
def test_bf16(kind, settings):
    check_bf16(
        build(kind, settings, torch.float32), build(kind, settings, torch.bfloat16), logits, loss
    )
