"""What every model that reads the characters of words keeps to, beside what the others do."""

import copy
import inspect

import pytest
import torch
from torch.nn import functional as F

from regard import catalog
from regard.errors import RequestError
from regard.protocols import PAD, Inputs

WORDS, LETTERS, CLASSES = 13, 11, 3


def spells(name):
    return "num_characters" in inspect.signature(catalog.load(name)).parameters


NAMES = [n for t in ("classification", "entailment") for n in catalog.names(t) if spells(n)]
every = pytest.mark.parametrize("classifier", NAMES)
SPELLED = {"attention-via-attention": {"levels": "both"}}


def build(name, dtype=torch.float64, **changes):
    torch.manual_seed(1)
    tiny = {**catalog.entry(name).tiny, **SPELLED.get(name, {}), **changes}
    data = {"vocab_size": WORDS, "num_classes": CLASSES, "num_characters": LETTERS}
    return catalog.load(name)(**data, **tiny).to(dtype).eval()


def texts(lengths=(4, 1, 3), seed=2, width=0, wide=5):
    """Sentences with words of 1 to 5 characters."""
    g = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(*lengths, width)
    real = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    ids = torch.randint(4, WORDS, shape, generator=g).masked_fill(~real, PAD)
    letters = torch.randint(4, LETTERS, (*shape, wide), generator=g)
    sizes = torch.randint(1, wide + 1, shape, generator=g) * real
    letters = letters.masked_fill(torch.arange(wide) >= sizes[..., None], PAD)
    return Inputs(ids, torch.tensor(lengths), {"characters": letters})


def logits(model, source, other=None):
    """Of a model of pairs, with a second sentence that is always the same."""
    if "second" not in inspect.signature(model.forward).parameters:
        return model(source).logits
    return model(source, texts((2,) * len(source), seed=3) if other is None else other).logits


def changed(source, letters):
    return Inputs(source.values, source.lengths, {"characters": letters})


@every
def test_gradients_reach_every_parameter(classifier):
    model = build(classifier).train()
    assert model.num_characters == LETTERS  # noted in its folder
    F.cross_entropy(logits(model, texts()), torch.tensor([0, 1, 2])).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        unseen = path.endswith("mix.sets.score.out.bias")  # a softmax takes it off again
        assert unseen or parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path


@every
def test_padding_changes_nothing(classifier):
    model, source = build(classifier), texts()
    expected = logits(model, source)
    letters = source.extras["characters"]
    wide = Inputs(
        F.pad(source.values, (0, 2)), source.lengths,
        {"characters": F.pad(letters, (0, 3, 0, 2))},
    )  # fmt: skip
    rubbish = wide.extras["characters"].clone()
    rubbish[torch.arange(6) >= source.lengths[:, None]] = 7  # behind the sentence, never read
    for given in (wide, changed(wide, rubbish)):
        assert torch.allclose(logits(model, given), expected, atol=1e-12, rtol=0)


@every
def test_every_character_matters(classifier):
    model, source = build(classifier), texts()
    letters, expected = source.extras["characters"], logits(model, source)
    for word in range(letters.shape[1]):
        for place in range(letters.shape[2]):
            there = letters[:, word, place] != PAD
            other = letters.clone()
            other[there, word, place] = 4 + (other[there, word, place] - 3) % (LETTERS - 4)
            got = (logits(model, changed(source, other)) != expected).any(1)
            # the largest of a feature may be another character's, so some may go unseen
            assert not got[~there].any()
    other = letters.where(letters == PAD, 4 + (letters - 3) % (LETTERS - 4))
    assert (logits(model, changed(source, other)) != expected).any(1).all()


@every
def test_words_without_characters_and_rows_without_words_are_finite(classifier):
    model, source = build(classifier), texts((3, 0, 4))
    letters = source.extras["characters"].clone()
    letters[:, 1] = PAD
    nothing = texts((0, 0, 0))
    none = Inputs(nothing.values, nothing.lengths, {"characters": torch.zeros(3, 0, 0).long()})
    for given in (changed(source, letters), changed(source, letters[..., :0]), none):
        model.train()
        logits(model, given).square().sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        assert logits(model.eval(), given).isfinite().all()


@every
def test_copies_and_bf16(classifier):
    model, source = build(classifier, torch.float32), texts((4, 0, 3))
    exact = logits(model, source)
    assert torch.equal(logits(copy.deepcopy(model), source), exact)
    with torch.autocast("cpu", torch.bfloat16):
        assert (logits(model, source).float() - exact).abs().max() < 0.1
    low = logits(build(classifier, torch.bfloat16), source)
    assert (low.float() - exact).abs().max() < 0.1


@every
def test_what_is_missing_is_said(classifier):
    with pytest.raises(RequestError, match=r"reads the characters of words.*got none"):
        logits(build(classifier), texts().values)
