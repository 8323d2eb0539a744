"""What every tagger keeps to."""

import inspect
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import catalog, watch
from regard.errors import RequestError
from regard.layers.crf import Chain, log_partition, path_score, viterbi
from regard.protocols import PAD, Inputs, Output, Tagger
from tests.contract.battery import SIZE, attentions, check_constructor
from tests.contract.test_watch import by_key, check_sums, select_of
from tests.contract.whole import check_bf16, check_copies, check_eval, check_watching

TAGS, AUXILIARY, LETTERS, FEATURES = 5, 4, 11, 9
COLUMNS = {"num_characters": LETTERS, "num_features": FEATURES, "feature_columns": 2}
VARIANTS = {
    "bilstm-crf, every column": ("bilstm-crf", {**COLUMNS, "marks": True}),
    "bilstm-crf, no tanh layer": ("bilstm-crf", {"ffn_dim": None}),
    "cmla, as released": (
        "cmla",
        {"activation": "identity", "num_auxiliary": AUXILIARY, "hidden": 12},
    ),
    "deepatt, rnn": ("deepatt", {"sublayer": "rnn"}),
    "deepatt, cnn": ("deepatt", {"sublayer": "cnn", "positions": "learned"}),
    "deepatt, no marks": ("deepatt", {"marks": False}),
    "deep-bilstm-crf, no marks": ("deep-bilstm-crf", {"marks": False}),
    "highway-bilstm, no marks": ("highway-bilstm", {"marks": False, "layers": 2}),
}
CASES = {name: (name, {}) for name in catalog.names(task="tagging")} | VARIANTS


def cases(slowly=()):
    """Every case; those named are slow tests."""
    given = [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in slowly else ())
        for name, case in CASES.items()
    ]
    return pytest.mark.parametrize(("tagger", "settings"), given)


SLOWLY = {*VARIANTS, "cmla", "bilstm-crf"}
"""Those that learn by heart in the slow suite alone."""
core, every, by_heart = cases(), cases(VARIANTS), cases(SLOWLY)
long = cases({*CASES} - {"deepatt"})
"""What a mask or a gradient could break is tested of every variant in the fast suite, too."""


class Tagged(NamedTuple):
    source: Inputs
    tags: Tensor
    real: Tensor


def build(tagger, settings, dtype=torch.float64, seed=1, **changes):
    torch.manual_seed(seed)
    tiny = {**catalog.entry(tagger).tiny, **settings, **changes}
    return catalog.load(tagger)(SIZE, TAGS, **tiny).to(dtype).eval()


def tagged(lengths=(6, 1, 4, 9), seed=4, width=0):
    """Sentences with every column that a tagger may read, and a predicate in each."""
    g = torch.Generator().manual_seed(seed)
    sizes, shape = torch.tensor(lengths), (len(lengths), max(*lengths, width))
    real = torch.arange(shape[1]) < sizes[:, None]
    ids = torch.randint(4, SIZE, shape, generator=g).masked_fill(~real, PAD)
    tags = torch.randint(TAGS, shape, generator=g)
    marks = (torch.arange(shape[1]) == (sizes // 2)[:, None]).long()
    letters = torch.randint(4, LETTERS, (*shape, 4), generator=g)
    spelled = torch.randint(1, 5, shape, generator=g) * real
    letters = letters.masked_fill(torch.arange(4) >= spelled[..., None], PAD)
    features = torch.randint(4, FEATURES, (*shape, 2), generator=g) * real[..., None]
    extras = {"marks": marks, "characters": letters, "features": features}
    return Tagged(Inputs(ids, sizes, extras), tags, real)


def loss_of(model, batch):
    """The mean over sentences for a chain, else over words, and that of the second tags."""
    output = model(batch.source)
    logits = output.logits.float()
    if "transitions" in output.extra:
        chain = Chain(*(output.extra[n].float() for n in ("transitions", "start", "end")))
        lengths = batch.source.lengths
        gold = path_score(logits, chain, batch.tags, lengths)
        return (log_partition(logits, chain, lengths) - gold).mean()
    loss = cross_entropy(logits, batch)
    if "auxiliary" in output.extra:
        loss = loss + cross_entropy(output.extra["auxiliary"].float(), batch)
    return loss


def cross_entropy(logits, batch):
    gold = batch.tags.clamp(max=logits.shape[-1] - 1)
    return (F.cross_entropy(logits.mT, gold, reduction="none") * batch.real).sum() / 20


def best(model, batch):
    output = model(batch.source)
    if "transitions" not in output.extra:
        return output.logits.argmax(-1)
    chain = Chain(*(output.extra[name] for name in ("transitions", "start", "end")))
    found = viterbi(output.logits, chain, batch.source.lengths)
    return found[0] if isinstance(found, tuple) else found


def moved(source, **changes):
    """The same inputs with other values or extras."""
    values = changes.pop("values", source.values)
    return Inputs(values, source.lengths, {**source.extras, **changes})


def wider(source, more, fill=0):
    """More columns on the right, of padding or of rubbish."""
    real = torch.arange(source.values.shape[1] + more) < source.lengths[:, None]

    def pad(x):
        axes = x.dim() - 2
        x = F.pad(x, (0, 0) * axes + (0, more))
        return x.where(real.view(*real.shape, *[1] * axes), fill) if fill else x

    return Inputs(pad(source.values), source.lengths, {n: pad(x) for n, x in source.extras.items()})


@every
def test_it_is_a_tagger_whose_constructor_is_its_configuration(tagger, settings):
    model, batch = build(tagger, settings), tagged()
    check_constructor(tagger, ["vocab_size", "num_tags"])
    assert isinstance(model, Tagger)
    assert model.normalized is False
    assert (model.vocab_size, model.num_tags) == (SIZE, TAGS)
    for name, value in settings.items():
        if name.startswith("num_") or name == "feature_columns":
            assert getattr(model, name) == value  # noted in its folder
    output = model(batch.source)
    assert isinstance(output, Output)
    assert output.logits.shape == (4, 9, TAGS)
    assert output.logits.dtype == torch.float64
    chain = {"transitions": (TAGS, TAGS), "start": (TAGS,), "end": (TAGS,)}
    second = {"auxiliary": (4, 9, settings.get("num_auxiliary", 3))}
    shapes = {name: tuple(value.shape) for name, value in output.extra.items()}
    assert shapes in ({}, chain, second)
    assert set(model.state_dict()) <= {k for k, _ in model.named_parameters(remove_duplicate=False)}
    assert len(str(model).splitlines()) <= 100


@core
def test_gradients_reach_every_parameter(tagger, settings):
    model, batch = build(tagger, settings).train(), tagged()
    loss_of(model, batch).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path
    assert not model.embed.weight.grad[PAD].any()


@core
def test_padding_and_neighbors_change_nothing(tagger, settings):
    model, batch = build(tagger, settings), tagged()
    output = model(batch.source)
    names = [None, *(["auxiliary"] if "auxiliary" in output.extra else [])]
    for name in names:

        def read(source, name=name):
            got = model(source)
            return got.logits if name is None else got.extra[name]

        logits = read(batch.source)
        for given in (wider(batch.source, 3), wider(batch.source, 3, fill=7)):
            got = read(given)
            assert got.shape[1] == 12
            assert torch.allclose(got[:, :9][batch.real], logits[batch.real], atol=1e-12, rtol=0)
        for row, size in enumerate(batch.source.lengths.tolist()):
            own = batch.source.rows(torch.tensor([row]))
            extras = {n: x[:, :size] for n, x in own.extras.items()}
            alone = read(Inputs(own.values[:, :size], own.lengths, extras))
            assert torch.allclose(alone[0], logits[row, :size], atol=1e-12, rtol=0)
        without = read(Inputs(batch.source.values, extras=batch.source.extras))
        assert torch.equal(without[batch.real], logits[batch.real])


@every
def test_every_word_and_column_matters_and_no_other_sentence(tagger, settings):
    model, batch = build(tagger, settings), tagged()
    logits, source = model(batch.source).logits, batch.source
    for place in range(9):
        there = place < source.lengths
        other = source.values.clone()
        other[there, place] = 4 + (other[there, place] - 3) % (SIZE - 4)
        changed = model(moved(source, values=other)).logits != logits
        assert torch.equal(changed[:, place].any(-1), there)
        assert not changed[~there].any()
    reads = {"characters": "num_characters", "features": "num_features"}
    names = [name for name, given in reads.items() if given in settings]
    names += ["marks"] * (getattr(model, "mark", None) is not None)
    for name in names:
        column = source.extras[name]
        limit = {"characters": LETTERS, "features": FEATURES, "marks": 0}[name]
        new = 1 - column
        if limit:
            new = column.where(column == PAD, 4 + (column - 3) % (limit - 4))
        changed = (model(moved(source, **{name: new})).logits != logits).any(-1)
        assert changed.any(1).all(), name


@every
@pytest.mark.parametrize("lengths", [(3, 0, 1), (0, 0), (0,), (1,)])
def test_sentences_without_words_and_of_one_word(tagger, settings, lengths):
    model = build(tagger, settings)
    for width in {max(lengths), 4}:  # a batch of no words at all may have no columns either
        batch = tagged(lengths, width=width)
        output = model.train()(batch.source)
        assert output.logits.shape == (len(lengths), width, TAGS)
        (output.logits.square().sum() + sum(x.sum() for x in output.extra.values())).backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), path
        assert output.logits.isfinite().all()


@long
def test_a_sentence_of_two_thousand_words(tagger, settings):
    if settings.get("positions") == "learned":
        pytest.skip("its table of positions ends at 1000")
    model = build(tagger, settings, torch.float32)
    batch = tagged((2000, 3))
    with torch.no_grad():
        logits = model(batch.source).logits
        short = model(tagged((2000, 3)).source.rows(torch.tensor([1]))).logits
    assert logits.isfinite().all()
    assert torch.allclose(logits[1, :3], short[0, :3], atol=1e-5)


@by_heart
def test_it_overfits_eight_examples(tagger, settings):
    model = build(tagger, settings, torch.float32).train()
    batch = tagged((5, 6, 7, 5, 6, 7, 5, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, fused=True)
    for _ in range(800):
        loss = loss_of(model, batch)
        if loss.item() < 0.05:
            break
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert loss.item() < 0.05
    assert torch.equal(best(model.eval(), batch)[batch.real], batch.tags[batch.real])


@core
def test_every_attention_is_seen_and_adds_up(tagger, settings):
    model, batch = build(tagger, settings), tagged((6, 0, 1, 9))
    layers = attentions(model)
    for training in (False, True):
        with watch(model.train(training)) as seen:
            model(batch.source)
        assert set(seen) == set(layers)
        for path, record in seen.items():
            for weights in by_key(record):
                check_sums(weights, select_of(layers[path]).sums)
                for row, length in enumerate(batch.source.lengths.tolist()):
                    assert not weights[row, ..., length:].any(), path


@every
def test_watching_changes_nothing(tagger, settings):
    batch = tagged()
    model = build(tagger, settings, torch.float32, dropout=0.3)
    check_watching(model, lambda m: loss_of(m, batch))


@every
def test_eval_mode_is_deterministic_and_forward_keeps_nothing(tagger, settings):
    batch = tagged()
    check_eval(build(tagger, settings, dropout=0.3), lambda m: m(batch.source).logits)


@every
def test_copies_are_whole_and_their_own(tagger, settings, tmp_path):
    batch = tagged()

    def other():
        return build(tagger, settings, seed=2)

    check_copies(build(tagger, settings), other, lambda m: m(batch.source).logits, tmp_path)


@every
def test_bf16(tagger, settings):
    batch = tagged((6, 0, 4, 9))
    model, low = (build(tagger, settings, dtype) for dtype in (torch.float32, torch.bfloat16))

    def logits(model):
        return model(batch.source).logits[batch.real]

    check_bf16(model, low, logits, lambda m: loss_of(m, batch))


@core
def test_what_is_missing_is_said(tagger, settings):
    model, ids = build(tagger, settings), tagged().source.values
    if getattr(model, "mark", None) is not None and "num_features" not in settings:
        with pytest.raises(RequestError, match=r"reads the mark of a predicate.*got none"):
            model(ids)
        wrong = Inputs(ids, extras={"marks": torch.zeros(4, 8)})
        with pytest.raises(RequestError, match=r"got shape \(4, 8\)"):
            model(wrong)
    elif "num_features" in settings:
        with pytest.raises(RequestError, match=r"reads the characters of words.*got none"):
            model(ids)
        three = moved(tagged().source, features=torch.zeros(4, 9, 3).long())
        with pytest.raises(RequestError, match="2 further columns of each word, and got 3"):
            model(three)
    else:
        assert "marks" not in inspect.signature(type(model)).parameters or not model.mark
        assert torch.equal(model(ids).logits, model(Inputs(ids)).logits)
