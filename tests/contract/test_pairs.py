"""What every classifier of pairs keeps to."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import catalog, watch
from regard.errors import RequestError
from regard.protocols import PAD, Inputs, PairClassifier
from tests.contract.battery import SIZE, attentions, check_constructor, without_dropout
from tests.contract.test_watch import by_key, check_sums, select_of
from tests.contract.whole import (
    check_bf16,
    check_copies,
    check_eval,
    check_gradients,
    check_output,
    check_watching,
    learn_by_heart,
)

CLASSES, FEATURES = 3, 2
VARIANTS = {
    "decomposable, intra": ("decomposable", {"distances": 4, "null": False}),
    "BCNN, vectors": ("abcnn", {"attention": "none", "similarity": "vectors"}),
    "ABCNN-1": ("abcnn", {"attention": "input", "similarity": "distance", "length": 4}),
    "ABCNN-2": ("abcnn", {"attention": "pooling", "weights": "shares", "blocks": 1}),
    "MPCNN, few filters": ("mpcnn", {"interaction": "none", "filters": 5, "width": 3}),
    "co-attention, alternating": ("co-attention", {"attention": "alternating"}),
    "conditional, shared": ("word-by-word", {"attention": "none", "shared": True}),
    "final attention, two-way": ("word-by-word", {"attention": "final", "two_way": True}),
    "lstmn, shallow": ("lstmn-pair", {"fusion": "shallow"}),
}
RATES = {"mpcnn": 0.01}
"""Of the optimizer that learns by heart, where it is not 0.03."""
TWINS = {"dme-pair", "self-attentive-pair", "bilstm-pair", "disan-pair"}
"""Models whose encoder learns by heart in test_classifier.py."""
SLOWLY = {*VARIANTS, *TWINS, "lstmn-pair", "abcnn"}
"""Those that learn by heart in the slow suite alone."""
CASES = {name: (name, {}) for name in catalog.names(task="entailment")} | VARIANTS


def cases(slowly=()):
    """Every case; those named are slow tests."""
    given = [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in slowly else ())
        for name, case in CASES.items()
    ]
    return pytest.mark.parametrize(("classifier", "settings"), given)


core, every, by_heart = cases(), cases(VARIANTS), cases(SLOWLY)
"""What a mask or a gradient could break is tested of every variant in the fast suite, too."""
SETS = ("bag-of-ngrams-pair",)
"""Those that read a text as a set."""


class Labeled(NamedTuple):
    """Pairs; no first sentence is as wide as a second one, so that weights say whose they are."""

    first: Tensor
    second: Tensor
    lengths: Tensor
    second_lengths: Tensor
    labels: Tensor

    @property
    def pair(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self[:4]


def build(classifier, settings, dtype=torch.float64, seed=1, features=0, **changes):
    torch.manual_seed(seed)
    tiny = {**catalog.entry(classifier).tiny, **settings, **changes}
    return catalog.load(classifier)(SIZE, CLASSES, features, **tiny).to(dtype).eval()


def rows(lengths, width, generator):
    ids = torch.randint(4, SIZE, (len(lengths), width), generator=generator)
    return ids.masked_fill(torch.arange(width) >= torch.tensor(lengths)[:, None], PAD)


def labeled(lengths=(6, 1, 4, 9), second=(3, 4, 1, 5), seed=4, widths=None):
    generator = torch.Generator().manual_seed(seed)
    wide, narrow = widths or (max(lengths), max(second))
    first, other = rows(lengths, wide, generator), rows(second, narrow, generator)
    labels = torch.randint(CLASSES, (len(lengths),), generator=generator)
    return Labeled(first, other, torch.tensor(lengths), torch.tensor(second), labels)


def loss_of(model, batch):
    """The mean cross-entropy, and what the model adds to it."""
    output = model(*batch.pair)
    loss = F.nll_loss if model.normalized else F.cross_entropy
    return loss(output.logits.float(), batch.labels) + output.extra.get("penalty", 0.0)


def same(one, other):
    return torch.allclose(one, other, atol=1e-12, rtol=0)


@every
def test_it_is_a_classifier_of_pairs_whose_constructor_is_its_configuration(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    check_constructor(classifier, ["vocab_size", "num_classes", "num_features"])
    assert isinstance(model, PairClassifier)
    assert isinstance(model.normalized, bool)
    assert (model.vocab_size, model.num_classes, model.num_features) == (SIZE, CLASSES, 0)
    check_output(model, lambda m: m(*batch.pair), (4, CLASSES))
    assert not hasattr(model, "embed") or model.embed.weight.shape[0] == SIZE


@every
def test_inputs_and_bare_tensors_give_the_same(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    first, second, lengths, others = batch.pair
    expected = model(*batch.pair).logits
    for given in (
        (first, second),
        (Inputs(first), Inputs(second)),
        (Inputs(first, lengths), second),
        (first, Inputs(second, others), lengths),
        (Inputs(first), Inputs(second), lengths, others),
    ):
        assert torch.equal(model(*given).logits, expected)
    shorter = model(first[-1:, :5], second[-1:, :3]).logits
    given = model(Inputs(first[-1:]), second[-1:], torch.tensor([5]), torch.tensor([3])).logits
    assert same(given, shorter)


@every
def test_normalized_is_true_to_its_word(classifier, settings):
    model = build(classifier, settings)
    total = model(*labeled().pair).logits.exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6) == model.normalized


@every
def test_features_of_the_pair_are_used_and_zeros_where_not_given(classifier, settings):
    model, batch = build(classifier, settings, features=FEATURES).train(), labeled()
    first, second, lengths, others = batch.pair
    assert model.num_features == FEATURES

    def logits(features):
        return model(Inputs(first, lengths, {"features": features}), second, None, others).logits

    model.eval()
    nothing, given = torch.zeros(4, FEATURES), torch.tensor([[0.0, 0], [1, 0], [0, 1], [2, 1]])
    without = model(*batch.pair).logits
    assert torch.equal(logits(nothing), without)
    assert torch.equal((logits(given) != without).any(1), given.any(1))
    with pytest.raises(RequestError, match="reads 2 features of a pair, and was given 3"):
        logits(torch.zeros(4, 3))


@core
def test_gradients_reach_every_parameter(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    check_gradients(model, lambda m: loss_of(m, batch))


@core
def test_padding_and_neighbors_change_nothing(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    logits = model(*batch.pair).logits
    wide, narrow = F.pad(batch.first, (0, 3)), F.pad(batch.second, (0, 2))
    lengths, others = batch.lengths, batch.second_lengths
    rubbish = wide.masked_fill(torch.arange(12) >= lengths[:, None], 7)
    other_rubbish = narrow.masked_fill(torch.arange(7) >= others[:, None], 9)
    for given in (
        (wide, batch.second),
        (batch.first, narrow),
        (wide, narrow, lengths, others),
        (rubbish, batch.second, lengths),
        (batch.first, other_rubbish, None, others),
    ):
        assert same(model(*given).logits, logits)
    for row, (size, other) in enumerate(zip(lengths.tolist(), others.tolist(), strict=True)):
        alone = model(batch.first[row : row + 1, :size], batch.second[row : row + 1, :other])
        assert same(alone.logits[0], logits[row])


@every
@pytest.mark.parametrize("side", [0, 1])
def test_every_word_matters(classifier, settings, side):
    if classifier in SETS:
        pytest.skip("a word that is there again changes nothing")
    model, batch = build(classifier, settings), labeled()
    logits = model(*batch.pair).logits
    for place in range(batch[side].shape[1]):
        there = place < batch[2 + side]
        other = batch[side].clone()
        other[there, place] = 4 + (other[there, place] - 3) % (SIZE - 4)
        pair = [other if side == 0 else batch.first, other if side else batch.second]
        changed = model(*pair, batch.lengths, batch.second_lengths).logits != logits
        assert torch.equal(changed.any(1), there)


@every
@pytest.mark.parametrize(
    ("lengths", "second"), [((3, 0, 4, 0, 0), (0, 2, 5, 0, 0)), ((0, 0), (2, 2)), ((0, 0), (0, 0))]
)
def test_a_row_without_words_is_finite(classifier, settings, lengths, second):
    model = build(classifier, settings)
    widths = {(max(lengths), max(second)), (4, 5)}  # of no words at all there may be no columns
    for width in widths:
        batch = labeled(lengths, second, widths=width)
        batch = batch._replace(second=batch.second.where(batch.second == PAD, 5))
        loss_of(model.train(), batch).backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad.isfinite().all(), path
        logits = model.eval()(*batch.pair).logits
        assert logits.isfinite().all()
        assert same(logits[-1], logits[-2])  # both have the same words, or none


@by_heart
def test_it_overfits_eight_examples(classifier, settings):
    model = build(classifier, {**settings, **without_dropout(classifier)}, torch.float32)
    batch = labeled((5, 6, 7, 5, 6, 7, 5, 6), (3, 4, 5, 4, 3, 5, 5, 4))

    def judged(model):
        return F.cross_entropy(model(*batch.pair).logits, batch.labels)

    learn_by_heart(model, lambda m: loss_of(m, batch), judged, RATES.get(classifier, 0.03))
    assert torch.equal(model.eval()(*batch.pair).logits.argmax(-1), batch.labels)


@core
def test_every_attention_is_seen_and_adds_up(classifier, settings):
    model, batch = build(classifier, settings), labeled((6, 0, 1, 9), (0, 2, 4, 5))
    layers, sizes = attentions(model), {9: batch.lengths, 5: batch.second_lengths}
    for training in (False, True):
        with watch(model.train(training)) as seen:
            model(*batch.pair)
        assert set(seen) == set(layers)
        for path, record in seen.items():
            steps = by_key(record)
            whole = {step.shape[-1] for step in steps} <= {*sizes}  # not a past that grows
            for weights in steps:
                check_sums(weights, select_of(layers[path]).sums)
                if not whole:
                    continue
                for row, size in enumerate(sizes.get(weights.shape[-1], ())):
                    assert not weights[row, ..., size:].any(), path


@every
def test_watching_changes_nothing(classifier, settings):
    model, batch = build(classifier, settings, torch.float32, dropout=0.3), labeled()
    check_watching(model, lambda m: loss_of(m, batch))


@every
def test_eval_mode_is_deterministic_and_forward_keeps_nothing(classifier, settings):
    model, batch = build(classifier, settings, dropout=0.3), labeled()
    check_eval(model, lambda m: m(*batch.pair).logits)


@every
def test_copies_are_whole_and_their_own(classifier, settings, tmp_path):
    model, batch = build(classifier, settings), labeled()

    def other():
        return build(classifier, settings, seed=2)

    check_copies(model, other, lambda m: m(*batch.pair).logits, tmp_path)


@every
def test_bf16(classifier, settings):
    model, batch = build(classifier, settings, torch.float32), labeled((6, 0, 4, 9), (3, 2, 0, 5))
    low = build(classifier, settings, torch.bfloat16)
    check_bf16(model, low, lambda m: m(*batch.pair).logits, lambda m: loss_of(m, batch))
