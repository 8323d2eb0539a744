"""Norms, gradients and rollouts, each against what it means: other values, moved weights, paths."""

import json

import pytest
import torch

from regard import loading, watch
from regard.attention import MultiHead, kernels
from regard.errors import RequestError
from regard.protocols import BOS, EOS
from regard.tasks.generation.look import look, look_all, looks_view
from regard.viewer import drawable, read
from tests.cli.run import run
from tests.folder import toy

TEXT = "ein Hund läuft über die Straße ."


@pytest.fixture(scope="module", params=["rnnsearch", "luong", "transformer"])
def loaded(request, tmp_path_factory):
    return loading.load(toy.make(tmp_path_factory.mktemp("m") / request.param, request.param))


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    return loading.load(toy.make(tmp_path_factory.mktemp("m") / "transformer", "transformer"))


def pieces(loaded):
    """The source's ids and those of an output."""
    source = torch.tensor([[*loaded.tokenizers["source"].encode(TEXT).ids, EOS]])
    target = [*loaded.tokenizers["target"].encode("a dog runs .").ids, EOS]
    return source, target


def flat(found):
    return {name: w for kind in found.weights.values() for name, w in kind.items()}


def log_prob(loaded, source, target):
    logits = loaded.model(source, torch.tensor([[BOS, *target[:-1]]])).logits[0].double()
    return float(logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None]).sum())


def test_the_gradient_is_how_the_score_moves_with_a_weight(loaded):
    source, target = pieces(loaded)
    plain = flat(look(loaded, TEXT, target="a dog runs ."))
    found = flat(look(loaded, TEXT, target="a dog runs .", measure="gradient"))
    assert found.keys() == plain.keys()
    modules = dict(loaded.model.double().named_modules())
    try:
        for name, products in found.items():
            layer = modules[name]
            layer = layer.attention if isinstance(layer, MultiHead) else layer
            select, turns, axes = layer.select, products.shape[1], products.shape[2]
            # the largest product, and a small one, of the whole map
            order = products.abs().flatten().argsort()
            for place in (int(order[-1]), int(order[len(order) // 2])):
                head, row, column = (
                    place // (turns * axes), place // axes % turns, place % axes,
                )  # fmt: skip
                scores = []
                for step in (1e-4, -1e-4):
                    layer.select = Moved(select, head, row, column, step)
                    with torch.no_grad(), kernels("reference"):
                        scores.append(log_prob(loaded, source, target))
                layer.select = select
                slope = (scores[0] - scores[1]) / 2e-4
                true = slope * float(plain[name][head, row, column])
                assert float(products[head, row, column]) == pytest.approx(true, abs=2e-5, rel=2e-3)
    finally:
        loaded.model.float()


class Moved:
    """A select whose weight at one place of one row is a little larger."""

    def __init__(self, select, head, row, column, step):
        self.select, self.place, self.step, self.seen = select, (head, row, column), step, 0
        self.sums = select.sums

    @property
    def window(self):
        return None

    def __call__(self, scores, **more):
        weights, log_prob = self.select(scores, **more)
        head, row, column = self.place
        heads = weights.dim() - 2 > 1
        first = self.seen
        self.seen += weights.shape[-2]  # a decoder's calls have one row each
        if first <= row < self.seen:
            weights = weights.clone()
            at = (0, head, row - first, column) if heads else (0, row - first, column)
            weights[at] += self.step
        return weights, log_prob


def test_norms_are_weights_times_what_the_head_hands_over(transformer):
    source, target = pieces(transformer)
    plain = flat(look(transformer, TEXT, target="a dog runs ."))
    found = flat(look(transformer, TEXT, target="a dog runs .", measure="norms"))
    inputs = {}
    modules = dict(transformer.model.named_modules())
    hooks = [
        modules[name].value.register_forward_hook(
            lambda layer, given, made, name=name: inputs.__setitem__(name, made[0])
        )
        for name in found
    ]
    with torch.no_grad():
        transformer.model(source, torch.tensor([[BOS, *target[:-1]]]))
    for hook in hooks:
        hook.remove()
    for name, products in found.items():
        layer = modules[name]
        size = inputs[name].shape[-1] // layer.heads
        for h in range(layer.heads):
            own = slice(h * size, (h + 1) * size)
            for k in range(products.shape[2]):
                handed = layer.out.weight[:, own] @ inputs[name][k, own]
                true = plain[name][h, :, k] * float(handed.detach().norm())
                assert torch.allclose(products[h, :, k], true, atol=1e-5)


def test_without_a_projection_norms_are_of_the_values(tmp_path):
    loaded = loading.load(toy.make(tmp_path / "m", "rnnsearch"))
    source, _ = pieces(loaded)
    plain = look(loaded, TEXT, target="a dog runs .").weights["cross"]
    found = look(loaded, TEXT, target="a dog runs .", measure="norms").weights["cross"]
    with torch.no_grad():
        states = loaded.model.encode(source).states[0]
    for name, products in found.items():
        assert torch.allclose(products, plain[name] * states.norm(dim=-1), atol=1e-5)


def test_rollout_adds_up_all_paths(transformer):
    plain = look(transformer, TEXT).weights["encoder"]
    found = look(transformer, TEXT, measure="rollout")
    assert not found.weights["cross"]
    first, second = (w.mean(0) for w in plain.values())
    one, two = found.weights["encoder"].values()
    assert one.shape[0] == two.shape[0] == 1
    size = len(first)
    for i in range(size):
        for j in range(size):
            paths = sum(
                0.25 * (float(second[i, k]) + (i == k)) * (float(first[k, j]) + (k == j))
                for k in range(size)
            )
            assert float(two[0, i, j]) == pytest.approx(paths, abs=1e-5)
    assert torch.allclose(two.sum(-1), torch.ones(size))


def test_a_measure_changes_nothing_in_the_model(loaded):
    before = look(loaded, TEXT)
    with watch(loaded.model) as seen:
        looks = look_all(loaded, TEXT, measure="gradient")
    assert seen
    after = look(loaded, TEXT)
    assert all(torch.equal(a, b) for a, b in
               zip(flat(before).values(), flat(after).values(), strict=True))  # fmt: skip
    assert all(p.grad is None for p in loaded.model.parameters())
    assert [one.what for one in looks] == ["gradient"] * len(looks)


def test_a_page_says_what_it_shows(transformer, tmp_path):
    for what in ("norms", "gradient", "rollout"):
        looks = look_all(transformer, TEXT, measure=what)
        kept = read(drawable(looks_view(looks)).save(tmp_path / f"{what}.seen"))
        assert {one.what for one in kept.maps} == {what}
        largest = max(float(abs(one.weights).max()) for one in kept.maps)
        if what == "gradient":
            assert min(float(one.weights.min()) for one in kept.maps) < 0
        assert largest > 0
        title = looks[0].title(kind="encoder")
        assert what in title or "norm" in title


def test_on_the_command_line(capsys, tmp_path):
    folder = str(toy.make(tmp_path / "m", "transformer"))
    ran = run(capsys, "look", folder, TEXT, "--measure", "norms", "--json")
    weights = json.loads(ran.out.splitlines()[-1])["pictures"][0]["weights"]
    assert max(max(row) for row in weights) == 1.0
    ran = run(capsys, "look", folder, TEXT, "--measure", "gradient", "-o", str(tmp_path / "p.html"))
    assert ran.code == 0
    assert "gradient" in (tmp_path / "p.html").read_text(encoding="utf-8")
    ran = run(capsys, "look", folder, TEXT, "--measure", "grad")
    assert ran.code == 2
    assert "did you mean 'gradient'" in ran.err


def test_no_stack_no_rollout(tmp_path):
    loaded = loading.load(toy.make(tmp_path / "m", "rnnsearch"))
    with pytest.raises(RequestError, match="no stack of self-attention"):
        look(loaded, TEXT, measure="rollout")
