"""What every classifier keeps to."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import catalog, watch
from regard.protocols import PAD, Classifier, Inputs
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

CLASSES = 5
VARIANTS = {
    "self-attentive, pruned": ("self-attentive", {"pruned": [3, 2]}),
    "self-attentive, as released": (
        "self-attentive",
        {"reduction": "mean", "score_dropout": 0.2},
    ),
    "bilstm, mean": ("bilstm", {"pool": "mean"}),
    "han, mean": ("han", {"read": "mean"}),
    "han, max": ("han", {"read": "max"}),
    "dme, contextual": ("dme", {"mix": "contextual"}),
    "dme, sum": ("dme", {"mix": "sum"}),
}
SLOWLY = {*VARIANTS, "lstmn"}
"""Those that learn by heart in the slow suite alone."""
CASES = {name: (name, {}) for name in catalog.names(task="classification")} | VARIANTS


def cases(slowly=()):
    """Every case; those named are slow tests."""
    given = [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in slowly else ())
        for name, case in CASES.items()
    ]
    return pytest.mark.parametrize(("classifier", "settings"), given)


core, every, by_heart = cases(), cases(VARIANTS), cases(SLOWLY)
"""What a mask or a gradient could break is tested of every variant in the fast suite, too."""
DOCUMENTS = ("han",)
"""Those that read documents, where one sentence does not reach every parameter."""
SETS = ("bag-of-ngrams",)
"""Those that read a text as a set."""


class Labeled(NamedTuple):
    source: Tensor
    lengths: Tensor
    labels: Tensor


def build(classifier, settings, dtype=torch.float64, seed=1, **changes):
    torch.manual_seed(seed)
    tiny = {**catalog.entry(classifier).tiny, **settings, **changes}
    return catalog.load(classifier)(SIZE, CLASSES, **tiny).to(dtype).eval()


def labeled(lengths=(6, 1, 4, 9), seed=4):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, SIZE, (len(lengths), max(lengths)), generator=generator)
    sizes = torch.tensor(lengths)
    source = ids.masked_fill(torch.arange(ids.shape[1]) >= sizes[:, None], PAD)
    return Labeled(source, sizes, torch.randint(CLASSES, (len(lengths),), generator=generator))


def loss_of(model, batch):
    """The mean cross-entropy, and what the model adds to it."""
    output = model(batch.source, batch.lengths)
    loss = F.nll_loss if model.normalized else F.cross_entropy
    return loss(output.logits.float(), batch.labels) + output.extra.get("penalty", 0.0)


@every
def test_it_is_a_classifier_whose_constructor_is_its_configuration(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    check_constructor(classifier, ["vocab_size", "num_classes"])
    assert isinstance(model, Classifier)
    assert isinstance(model.normalized, bool)
    assert (model.vocab_size, model.num_classes) == (SIZE, CLASSES)
    check_output(model, lambda m: m(batch.source, batch.lengths), (4, CLASSES))


@every
def test_inputs_and_bare_tensors_give_the_same(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    expected = model(batch.source, batch.lengths).logits
    for given in (
        (batch.source,),
        (Inputs(batch.source),),
        (Inputs(batch.source, batch.lengths),),
        (Inputs(batch.source), batch.lengths),
    ):
        assert torch.equal(model(*given).logits, expected)
    shorter = model(batch.source[-1:, :5]).logits
    given = model(Inputs(batch.source[-1:]), torch.tensor([5])).logits
    assert torch.allclose(given, shorter, atol=1e-12, rtol=0)


@every
def test_normalized_is_true_to_its_word(classifier, settings):
    model = build(classifier, settings)
    total = model(*labeled()[:2]).logits.exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6) == model.normalized


@core
def test_gradients_reach_every_parameter(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    if classifier in DOCUMENTS:
        batch = batch._replace(source=batch.source.view(4, 3, 3), lengths=None)
    check_gradients(model, lambda m: loss_of(m, batch))


@core
def test_padding_and_neighbors_change_nothing(classifier, settings):
    model, batch = build(classifier, settings), labeled()
    logits = model(batch.source, batch.lengths).logits
    wide = F.pad(batch.source, (0, 3))
    for given in ((wide, batch.lengths), (wide,)):
        assert torch.allclose(model(*given).logits, logits, atol=1e-12, rtol=0)
    rubbish = wide.masked_fill(torch.arange(12) >= batch.lengths[:, None], 7)
    assert torch.allclose(model(rubbish, batch.lengths).logits, logits, atol=1e-12, rtol=0)
    for row, size in enumerate(batch.lengths.tolist()):
        alone = model(batch.source[row : row + 1, :size]).logits
        assert torch.allclose(alone[0], logits[row], atol=1e-12, rtol=0)


@every
def test_every_word_matters(classifier, settings):
    if classifier in SETS:
        pytest.skip("a word that is there again changes nothing")
    model, batch = build(classifier, settings), labeled()
    logits = model(batch.source, batch.lengths).logits
    for place in range(batch.source.shape[1]):
        there = place < batch.lengths
        other = batch.source.clone()
        other[there, place] = 4 + (other[there, place] - 3) % (SIZE - 4)
        changed = model(other, batch.lengths).logits != logits
        assert torch.equal(changed.any(1), there)


@every
@pytest.mark.parametrize("lengths", [(3, 0, 1), (0, 0), (0,)])
def test_a_row_without_words_is_finite(classifier, settings, lengths):
    model, sizes = build(classifier, settings), torch.tensor(lengths)
    labels = torch.zeros(len(lengths), dtype=torch.int64)
    for width in {max(lengths), 4}:  # a batch of no words at all may have no columns either
        source = labeled((4,) * len(lengths)).source[:, :width]
        source = source.masked_fill(torch.arange(width) >= sizes[:, None], PAD)
        loss_of(model.train(), Labeled(source, sizes, labels)).backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad.isfinite().all(), path
        empty = model.eval()(source, sizes).logits[sizes == 0]
        assert empty.isfinite().all()
        assert torch.allclose(empty, empty[:1], atol=1e-12, rtol=0)


@by_heart
def test_it_overfits_eight_examples(classifier, settings):
    model = build(classifier, {**settings, **without_dropout(classifier)}, torch.float32)
    batch = labeled((5, 6, 7, 5, 6, 7, 5, 6))

    def judged(model):
        return F.cross_entropy(model(batch.source, batch.lengths).logits, batch.labels)

    learn_by_heart(model, lambda m: loss_of(m, batch), judged)
    assert torch.equal(model.eval()(batch.source, batch.lengths).logits.argmax(-1), batch.labels)


@core
def test_every_attention_is_seen_and_adds_up(classifier, settings):
    model, batch = build(classifier, settings), labeled((6, 0, 1, 9))
    layers = attentions(model)
    for training in (False, True):
        with watch(model.train(training)) as seen:
            model(batch.source, batch.lengths)
        assert set(seen) == set(layers)
        for path, record in seen.items():
            for weights in by_key(record):
                check_sums(weights, select_of(layers[path]).sums)
                if len(record.steps) == 1 and weights.shape[-1] == batch.source.shape[1]:
                    every = torch.arange(len(weights))
                    owners = record.rows[-1].get("example", every).tolist()  # empty ones are out
                    for row, owner in enumerate(owners):
                        assert not weights[row, ..., batch.lengths[owner] :].any(), path


@every
def test_watching_changes_nothing(classifier, settings):
    model, batch = build(classifier, settings, torch.float32, dropout=0.3), labeled()
    check_watching(model, lambda m: loss_of(m, batch))


@every
def test_eval_mode_is_deterministic_and_forward_keeps_nothing(classifier, settings):
    model, batch = build(classifier, settings, dropout=0.3), labeled()
    check_eval(model, lambda m: m(batch.source, batch.lengths).logits)


@every
def test_copies_are_whole_and_their_own(classifier, settings, tmp_path):
    model, batch = build(classifier, settings), labeled()

    def other():
        return build(classifier, settings, seed=2)

    check_copies(model, other, lambda m: m(batch.source, batch.lengths).logits, tmp_path)


@every
def test_bf16(classifier, settings):
    model, batch = build(classifier, settings, torch.float32), labeled((6, 0, 4, 9))
    low = build(classifier, settings, torch.bfloat16)
    check_bf16(
        model, low, lambda m: m(batch.source, batch.lengths).logits, lambda m: loss_of(m, batch)
    )
