"""The inspector of a training: plain loops, Lightning, transformers; the page's slider."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard import viewer
from regard.errors import RequestError
from regard.viewer.head_measures import measures
from regard.viewer.page.html import page as whole
from regard.viewer.page.scripts import minifier, script


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.place = nn.Embedding(9, 8), nn.Embedding(5, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(8, 9)

    def forward(self, ids):
        return self.out(self.encoder(self.embed(ids) + self.place.weight[: ids.shape[1]]))


EXAMPLES = [torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[5, 4, 3, 2]])]
WORDS = [["a", "b", "c", "d", "e"], ["e", "d", "c", "b"]]


def inspected(**options):
    return regard.Inspector(EXAMPLES, labels=WORDS, names=["up", "down"], **options)


def trained(steps, show=lambda model, step: None):
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    show(model, 0)
    for step in range(1, steps + 1):
        ids = torch.randint(0, 9, (8, 5))
        loss = F.cross_entropy(model(ids).transpose(1, 2), ids.roll(1, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show(model, step)
    return model


def test_a_loop_goes_on_as_if_nobody_had_looked(tmp_path):
    inspector = inspected(every=2, at=[3], to=tmp_path / "kept.seen")
    model, without = trained(5, inspector.step), trained(5)
    for a, b in zip(model.parameters(), without.parameters(), strict=True):
        assert torch.equal(a, b)
    assert model.training
    assert all(m.training for m in model.modules())
    assert inspector.steps == [0, 2, 3, 4]
    view = viewer.read(tmp_path / "kept.seen")
    assert [run.step for run in view.runs] == [0, 2, 3, 4] * 2
    assert [run.input for run in view.runs] == ["up"] * 4 + ["down"] * 4
    assert len(view.axes) == 2  # each example's words once, not once a step
    assert view.axes[view.maps[0].rows].pieces == WORDS[0]
    with torch.no_grad(), regard.watch(model.eval()) as seen:
        model(EXAMPLES[1])
    before = model.train()
    inspector.keep(before, 5)
    one = inspector.view().runs[-1]
    kept = inspector.view().maps[one.maps[1]]
    own = seen["encoder.layers.1.self_attn"].weights[0]
    np.testing.assert_allclose(kept.weights, own, atol=1e-3)


def test_wrapped_models_and_kinds_of_examples():
    model = Model()
    inspector = regard.Inspector([{"ids": EXAMPLES[0]}, (EXAMPLES[1],)], every=1)
    assert inspector.step(nn.DataParallel(model), 0)
    assert inspector.step(torch.compile(model), 1)
    assert not inspector.step(model, 1)
    own = regard.Inspector([EXAMPLES[0]], every=1, run=lambda m, ids: m(ids.flip(1)))
    own.keep(model, 0)
    assert len(own.view().runs) == 1


def test_sparsity_is_hoyers():
    weights = np.array([[[1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]]], np.float32)
    found = measures([(0, weights)], (2, 4), [], [], False)
    assert found["sparsity"] == [0.5]
    draw = np.random.default_rng(0).dirichlet(np.ones(6), 3).astype(np.float32)
    found = measures([(0, draw[None])], (3, 6), [], [], False)
    by_hand = [(6**0.5 - r.sum() / np.sqrt((r**2).sum())) / (6**0.5 - 1) for r in draw]
    assert found["sparsity"] == pytest.approx([np.mean(by_hand)], abs=1e-4)


def test_the_page_has_a_slider_over_the_steps(tmp_path, page):
    inspector = inspected(every=2)
    trained(4, inspector.step)
    page.open(inspector.page(tmp_path / "a.html"), "head=1&row=2")
    assert page.ask("() => document.querySelector('#steps b').textContent") == "0"
    for step in ("2", "4"):
        page.page.focus("#step")
        page.page.keyboard.press("ArrowRight")
        page.settle()
        page.page.wait_for_timeout(50)
        assert page.ask("() => document.querySelector('#steps b').textContent") == step
    assert (page.state("run"), page.state("head"), page.state("row")) == (2, 1, 2)
    shown = page.ask("() => [...document.querySelector('#run').options].map((o) => o.hidden)")
    assert shown == [True, True, False, True, True, False]
    page.ask("() => change({ view: 'training', head: 'mean' })")
    assert page.ask("() => viewNow().id") == "training"
    assert page.ink() > 6
    page.page.mouse.click(60, 200)  # on a curve, at its left: the first step
    page.settle()
    assert page.state("run") == 0
    assert page.fine()


@pytest.mark.skipif(minifier() is None, reason="needs esbuild: npm install")
def test_other_pages_are_no_larger(tmp_path):
    plain = regard.view(np.eye(3))
    assert b'id: "training"' not in whole(plain)
    assert len(script("steps.js")) - len(script()) < 3500


@pytest.mark.slow
def test_lightning_shows_it_after_each_step(tmp_path):
    pl = pytest.importorskip("pytorch_lightning")
    from regard.train.engine import inspecting

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = Model()

        def forward(self, ids):
            return self.inner(ids)

        def training_step(self, ids, index):
            return F.cross_entropy(self(ids).transpose(1, 2), ids.roll(1, 1))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    inspector = inspected(every=2)
    trainer = pl.Trainer(
        max_steps=4, accumulate_grad_batches=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        callbacks=[inspecting(inspector)], default_root_dir=tmp_path,
    )  # fmt: skip
    data = torch.utils.data.DataLoader(torch.randint(0, 9, (64, 5)), batch_size=4)
    trainer.fit(Module(), data)
    assert inspector.steps == [0, 2, 4]


@pytest.mark.slow
def test_the_trainer_of_transformers_shows_it():
    transformers = pytest.importorskip("transformers")
    from transformers.trainer_callback import CallbackHandler

    inspector = inspected(every=2)
    state, control = transformers.TrainerState(), transformers.TrainerControl()
    handler = CallbackHandler([inspector.trainer_callback()], Model(), None, None, None)
    handler.on_train_begin(None, state, control)
    for step in range(1, 5):
        state.global_step = step
        handler.on_step_begin(None, state, control)
        handler.on_step_end(None, state, control)
    assert inspector.steps == [0, 2, 4]
    state.is_world_process_zero, state.global_step = False, 6
    handler.on_step_end(None, state, control)
    assert inspector.steps == [0, 2, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"examples": []}, "an example"), ({"every": 0}, "from 1 up"),
        ({"labels": [WORDS[0]]}, "labels: expected one for each of 2, got 1"),
        ({"names": ["a"]}, "names"), ({"to": "kept.png"}, ".seen or .html"),
    ],
)  # fmt: skip
def test_wrong_settings(options, said):
    with pytest.raises(RequestError, match=said):
        regard.Inspector(**{"examples": EXAMPLES, **options})


def test_nothing_kept():
    inspector = inspected(every=5)
    assert not inspector.step(Model(), 3)
    with pytest.raises(RequestError, match="nothing was kept"):
        inspector.view()
