"""Models that read the states of an encoder beside words; those that cannot say so."""

from types import SimpleNamespace

import pytest
import torch

from regard import catalog, watch
from regard.errors import RequestError
from regard.protocols import Inputs
from regard.tasks.starting_vectors import read_states
from tests.contract.battery import SIZE

LAYERS, STATE, CLASSES = 2, 6, 5
ENCODER = SimpleNamespace(layers=(-1, 1), known={"size": STATE}, words=True)
TASKS = ("classification", "entailment", "tagging", "relation-classification")
NAMES = sorted({name for task in TASKS for name in catalog.names(task=task)})
PAIRS = set(catalog.names(task="entailment")) - set(catalog.names(task="classification"))
WITHOUT = {"bag-of-ngrams", "bag-of-ngrams-pair", "cmla", "han"}
"""Those that read n-grams, documents, or words around words."""


def build(kind):
    torch.manual_seed(1)
    entry = catalog.entry(kind)
    return catalog.load(kind)(SIZE, CLASSES, **entry.tiny).double().eval()


def inputs(seed=1, lengths=(5, 3), width=5):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, SIZE, (2, width), generator=g)
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    states = torch.randn(2, width, LAYERS, STATE, generator=g, dtype=torch.float64)
    extras = {"states": states * real[..., None, None], "marks": (ids == ids[:, :1]).long() * real}
    extras["features"] = torch.zeros(2, width, 0, dtype=torch.long)
    extras["characters"] = torch.ones(2, width, 3, dtype=torch.long)
    return Inputs(ids * real, torch.tensor(lengths), extras)


def read(model, kind, source):
    """Logits of one text, or of the text and another one."""
    extras = {k: own for k, own in source.extras.items() if k in ("states", "marks", "characters")}
    source = Inputs(source.values, source.lengths, extras)
    if kind in PAIRS:
        return model(source, inputs(seed=2)).logits
    return model(source).logits


@pytest.mark.parametrize("kind", [one for one in NAMES if one not in WITHOUT])
def test_states_reach_the_output_and_padding_does_not(kind):
    model = read_states(build(kind), ENCODER)
    own = inputs()
    first = read(model, kind, own)
    first.sum().backward()
    mix = model.embed.states
    assert mix.mix.grad.any()
    assert mix.scale.grad.any()
    assert mix.project.weight.grad.any(0).all()
    changed = Inputs(own.values, own.lengths, {**own.extras, "states": own.extras["states"] * 2})
    assert not torch.allclose(read(model, kind, changed), first)
    wide = {k: torch.cat([x, torch.zeros_like(x[:, :2])], 1) for k, x in own.extras.items()}
    ids = torch.cat([own.values, torch.zeros_like(own.values[:, :2])], 1)
    again = read(model, kind, Inputs(ids, own.lengths, wide))
    torch.testing.assert_close(again[:, : first.shape[1]], first)
    lacking = {k: x for k, x in own.extras.items() if k != "states"}
    with pytest.raises(RequestError, match="reads the states of an encoder, 2 layers of 6 numb"):
        read(model, kind, Inputs(own.values, own.lengths, lacking))


def test_in_dme_states_are_a_representation_that_attention_mixes():
    counts = []
    for model in (build("dme"), read_states(build("dme"), ENCODER)):
        with watch(model) as seen:
            read(model, "dme", inputs())
        counts.append(seen["encoder.mix.sets"].weights.shape[-1])
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize("kind", sorted(WITHOUT))
def test_models_that_read_none_say_so(kind):
    with pytest.raises(RequestError, match="does not read the states of an encoder"):
        read_states(build(kind), ENCODER)


def test_words_without_vectors_of_their_own_keep_none():
    model = read_states(build("bilstm"), SimpleNamespace(**{**vars(ENCODER), "words": False}))
    assert not model.embed.weight.any()
    assert not model.embed.weight.requires_grad
    own = inputs()
    other = Inputs(own.values.clamp(max=4), own.lengths, own.extras)
    torch.testing.assert_close(read(model, "bilstm", own), read(model, "bilstm", other))
