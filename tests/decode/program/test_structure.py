"""A program gives what the model gives, or is not taken, whatever was changed."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from regard import catalog, native, watch
from regard.decode import build
from regard.decode.program import recordings
from regard.decode.program.recordings import unrecorded_reason
from regard.decode.program.structure import altered, structure
from tests.decode.program.zoo import OwnSteps

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no C")

BIG = {
    "transformer": {"dim": 32, "ffn_dim": 32, "heads": 2, "layers": 2, "dropout": 0.0},
    "rnnsearch": {"embed": 16, "hidden": 16, "align": 16, "maxout": 16},
}


def made(name: str) -> nn.Module:
    torch.manual_seed(3)
    return catalog.load(name)(30, 30, **BIG[name]).eval()


class LoRA(nn.Linear):
    """A product with something added, as adapters have it; its weights are the plain one's."""

    def forward(self, x):
        return super().forward(x) + 3 * torch.sin(x.sum(-1, keepdim=True))


class Scaled(nn.LayerNorm):
    def forward(self, x):
        return 3 * super().forward(x)


def product(model):
    """The first plain product of the decoder, with its owner."""
    for name, module in reversed(list(model.named_modules())):
        if type(module) is nn.Linear:
            owner, _, last = name.rpartition(".")
            return model.get_submodule(owner), last
    raise AssertionError("no product")


def subclassed(model):
    owner, name = product(model)
    old = getattr(owner, name)
    new = LoRA(old.in_features, old.out_features, bias=old.bias is not None)
    new.load_state_dict(old.state_dict())
    setattr(owner, name, new)


def hooked(model):
    owner, name = product(model)
    getattr(owner, name).register_forward_hook(lambda module, given, out: out + 1)


def hooked_before(model):
    owner, name = product(model)
    getattr(owner, name).register_forward_pre_hook(lambda module, given: (given[0] * 2,))


def patched(model):
    owner, name = product(model)
    one = getattr(owner, name)
    one.forward = lambda x: 2 * nn.functional.linear(x, one.weight, one.bias)


def parametrized(model):
    owner, name = product(model)
    parametrizations.weight_norm(getattr(owner, name))


CHANGES = [subclassed, hooked, hooked_before, patched, parametrized]


def norms(model):
    return [one for one in model.modules() if type(one) is nn.LayerNorm]


def another_eps(model):
    for one in norms(model)[1:]:
        one.eps = 0.5


def last_eps(model):
    model.decoder_norm = nn.LayerNorm(32, eps=0.5)


def other_heads(model):
    model.decoder[1].cross_attention.heads = 4


def norm_class(model):
    old = model.decoder[1].self_residual.norm
    model.decoder[1].self_residual.norm = Scaled(old.normalized_shape)


TRANSFORMERS = [another_eps, last_eps, other_heads, norm_class]
EVERY = [(name, change) for name in BIG for change in CHANGES]
EVERY += [("transformer", change) for change in TRANSFORMERS]


def quick(name, change, before):
    """Each change comes before a first packing of one model, and after one of the other."""
    if change in TRANSFORMERS:
        return True
    return (CHANGES.index(change) + list(BIG).index(name)) % 2 == before


def written(model, **settings):
    source = torch.tensor([[5, 9, 7, 11], [8, 6, 0, 0]])
    decoder = build({"name": "beam", "beam_size": 3, "max_length": 6, **settings})
    return [[(h.tokens, h.score) for h in own] for own in decoder(model, source)]


def program_of(model):
    entry = recordings._ENTRIES.get(model)
    return None if entry is None else entry.decoder


@pytest.mark.parametrize("name", BIG)
def test_a_plain_model_is_recorded_once(name):
    model = made(name)
    assert unrecorded_reason(model) is None
    written(model)
    first = program_of(model)
    written(model)
    assert first is program_of(model) is not None


@pytest.mark.parametrize(
    ("name", "change", "before"),
    [
        pytest.param(
            name, change, before, marks=() if quick(name, change, before) else pytest.mark.slow
        )
        for name, change in EVERY
        for before in (True, False)
    ],
)
def test_a_changed_model_writes_what_its_own_steps_do(name, change, before):
    model = made(name)
    if not before:
        written(model)
        assert program_of(model) is not None
    change(model)
    expected = written(OwnSteps(model))
    for ours, theirs in zip(written(model), expected, strict=True):
        assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([s for _, s in theirs], abs=1e-4)
    if change in (hooked, hooked_before):
        assert unrecorded_reason(model) == altered(model)


@pytest.mark.parametrize("name", BIG)
def test_a_hook_on_all_modules(name):
    model = made(name)
    handle = nn.modules.module.register_module_forward_hook(lambda *given: None)
    try:
        written(model)
        assert unrecorded_reason(model) == "there is a forward hook on all modules"
    finally:
        handle.remove()
    written(model)
    assert program_of(model) is not None


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_has_another_structure(change):
    plain = made("transformer")
    model = copy.deepcopy(plain)
    change(model)
    assert structure(model) != structure(plain)


def test_a_hook_that_fails_is_the_models_own_error():
    model = made("transformer")
    owner, name = product(model)
    getattr(owner, name).register_forward_hook(None)  # nothing that can be called
    with pytest.raises(TypeError):
        written(model)


def test_a_watcher_sees_no_probe():
    model = made("transformer")
    seen = []
    for _ in range(2):  # while it is recorded, and later
        with watch(model) as one:
            written(model)
        seen.append({name: len(record.steps) for name, record in one.items()})
    assert seen[0] == seen[1]
