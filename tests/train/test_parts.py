"""The parts of a training against formulas and loops, and a training driven by hand."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from regard.data.batch import some
from regard.errors import RegardError, RequestError
from regard.optim import optimizers, schedules
from regard.optim.schedules import Point
from regard.recipe.train_section import BatchSettings, Checkpoint, Training, Validate
from regard.train import engine
from regard.train import loop as works
from regard.train.averaging import Average, Last, average
from regard.train.checkpoints import (
    load_checkpoint,
    load_weights,
    replace_file,
    save_weights,
    weights_of,
)
from regard.train.final_weights import choose
from regard.train.log import Log
from regard.train.loop import Work
from regard.train.micro_batches import Place, Stream
from regard.train.seeds import seeds_of, summary
from regard.train.validation import Validation

# -- schedules


@pytest.mark.parametrize(("dim", "peak"), [(512, 6.99e-4), (1024, 4.94e-4)])
def test_inverse_sqrt_of_the_paper(dim, peak):
    """Vaswani et al. 2017, equation 3: dim^-0.5 * min(step^-0.5, step * warmup^-1.5)."""
    rate = schedules.build({"name": "inverse-sqrt", "warmup": 4000, "dim": dim})
    at = {step: rate(Point(step, 0.0, 0.0)) for step in (1, 2000, 3999, 4000, 4001, 16000)}
    assert float(f"{at[4000]:.2e}") == peak
    assert at[4000] == max(at.values())
    assert at[2000] == pytest.approx(at[4000] / 2)
    assert at[1] == pytest.approx(at[4000] / 4000)
    assert at[16000] == pytest.approx(at[4000] / 2)
    scaled = schedules.build({"name": "inverse-sqrt", "warmup": 4000})
    for step, value in at.items():
        assert scaled(Point(step, 0.0, 0.0)) == pytest.approx(value / at[4000])


@pytest.mark.parametrize(
    ("section", "step", "epoch", "progress", "factor"),
    [
        ({"name": "constant"}, 1, 0.0, 0.0, 1.0),
        ({"name": "constant", "warmup": 10}, 3, 0.0, 0.0, 0.3),
        ({"name": "constant", "warmup": 10}, 30, 0.0, 0.0, 1.0),
        ({"name": "linear"}, 1, 0.0, 0.25, 0.75),
        ({"name": "linear", "final": 0.2}, 1, 0.0, 1.0, 0.2),
        ({"name": "linear", "warmup": 4}, 2, 0.0, 0.5, 0.25),
        ({"name": "cosine"}, 1, 0.0, 0.0, 1.0),
        ({"name": "cosine"}, 1, 0.0, 1 / 3, 0.75),
        ({"name": "cosine", "final": 0.1}, 1, 0.0, 1.0, 0.1),
        ({"name": "cosine", "final": 0.5}, 1, 0.0, 0.5, 0.75),
        ({"name": "halving"}, 1, 4.999, 0.0, 1.0),
        ({"name": "halving"}, 1, 5.0, 0.0, 0.5),
        ({"name": "halving"}, 1, 7.5, 0.0, 0.125),
        ({"name": "halving", "start": 8.0, "every": 0.5}, 1, 9.0, 0.0, 0.125),
    ],
)
def test_schedules_by_hand(section, step, epoch, progress, factor):
    assert schedules.build(section)(Point(step, epoch, progress)) == pytest.approx(factor)


def test_unknown_names_are_refused():
    with pytest.raises(RequestError, match="did you mean 'cosine'"):
        schedules.build({"name": "cosin"})
    with pytest.raises(RequestError, match="did you mean 'sgd'"):
        optimizers.build({"name": "sgdd"}, [])


# -- optimizers


def _steps(section, count=3):
    """The weight 1.0 after `count` steps of gradients 0.5, -1, 2."""
    weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = optimizers.build(section, [weight])
    for gradient in [0.5, -1.0, 2.0][:count]:
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    return float(weight.detach())


def test_defaults_of_the_optimizers_against_their_equations():
    gradients = [0.5, -1.0, 2.0]
    weight, m, v = 1.0, 0.0, 0.0
    decayed, dm, dv = 1.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        weight -= 1e-3 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        decayed *= 1 - 1e-3 * 0.01
        dm, dv = 0.9 * dm + 0.1 * g, 0.999 * dv + 0.001 * g * g
        decayed -= 1e-3 * (dm / (1 - 0.9**t)) / (math.sqrt(dv / (1 - 0.999**t)) + 1e-8)
    assert _steps({}) == pytest.approx(weight, rel=1e-9)
    assert _steps({"name": "adam"}) == pytest.approx(weight, rel=1e-9)
    assert _steps({"name": "adamw"}) == pytest.approx(decayed, rel=1e-9)

    weight, square, change = 1.0, 0.0, 0.0
    for g in gradients:  # Bahdanau et al. 2015, appendix B.2: rho = 0.95, epsilon = 1e-6
        square = 0.95 * square + 0.05 * g * g
        step = math.sqrt(change + 1e-6) / math.sqrt(square + 1e-6) * g
        change = 0.95 * change + 0.05 * step * step
        weight -= step
    assert _steps({"name": "adadelta"}) == pytest.approx(weight, rel=1e-9)
    assert _steps({"name": "sgd"}) == pytest.approx(1.0 - sum(gradients))
    assert _steps({"name": "sgd", "lr": 0.1, "momentum": 0.5}, 2) == pytest.approx(
        1 - 0.1 * 0.5 - 0.1 * (0.25 - 1.0)
    )


# -- averages


def _net(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    return net


def test_moving_average_against_a_loop():
    net = _net()
    moving = Average(net, 0.9)
    slow = {k: v.detach().numpy().astype(np.float64) for k, v in weights_of(net).items()}
    for _ in range(5):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter))
            net[1].num_batches_tracked += 1
        moving.update(net)
        for name, tensor in weights_of(net).items():
            now = tensor.detach().numpy()
            slow[name] = 0.9 * slow[name] + 0.1 * now if tensor.is_floating_point() else now
    for name, tensor in moving.weights.items():
        np.testing.assert_allclose(tensor.numpy(), slow[name], rtol=1e-5, atol=1e-6)
    assert int(moving.weights["1.num_batches_tracked"]) == 5
    assert not moving.weights["0.weight"].requires_grad


def test_average_of_files(tmp_path):
    nets = [_net(seed) for seed in range(3)]
    files = [tmp_path / f"{seed}.safetensors" for seed in range(3)]
    for net, file in zip(nets, files, strict=True):
        save_weights(file, weights_of(net))
    same = average([files[0]] * 7)
    for name, tensor in weights_of(nets[0]).items():
        assert torch.equal(same[name], tensor)
        assert same[name].dtype == tensor.dtype
    mean = average(files)
    for name in mean:
        each = [weights_of(net)[name].detach().double().numpy() for net in nets]
        np.testing.assert_allclose(mean[name].numpy(), sum(each) / 3, rtol=1e-6, atol=1e-7)


def test_the_last_files_are_kept_and_later_ones_go(tmp_path):
    net, last = _net(), Last(tmp_path / "checkpoints", 2)
    assert last.files() == []
    for step in (10, 20, 30, 40):
        last.save(net, step)
    # Step 40 was saved, but not the state: the training goes on from step 30.
    assert [p.stem for p in last.files(30)] == ["step-000000020", "step-000000030"]
    last.prune(30)
    assert sorted(p.stem for p in last.folder.iterdir()) == ["step-000000020", "step-000000030"]
    assert Last(tmp_path / "none", 0).files() == []


# -- the stream


class Numbers:
    """Examples 0 .. n-1 whose batches are their indices."""

    def __init__(self, count):
        self.sizes = np.ones((count, 2), np.int64)
        self.texts, self.references = [""] * count, [[""]] * count

    def subset(self, indices):
        return Numbers(len(indices))

    def __len__(self):
        return len(self.sizes)

    def count(self, indices):
        return sum(indices)

    def collate(self, indices):
        return indices


def _plan(sizes, *, tokens, seed, epoch):
    order = np.random.default_rng([seed, epoch]).permutation(len(sizes)).tolist()
    return [order[i : i + tokens] for i in range(0, len(order), tokens)]


def test_the_stream_continues_anywhere_and_two_processes_see_what_one_sees():
    def stream(**more):
        return Stream(Numbers(10), _plan, tokens=3, seed=1, **more)

    def take(stream, count):
        return [micro for _, micro in zip(range(count), stream, strict=False)]

    whole = take(stream(accumulate=2), 12)
    plans = [
        batch for epoch in range(3) for batch in _plan(range(10), tokens=3, seed=1, epoch=epoch)
    ]
    assert [m.batch for m in whole] == plans
    for n in range(0, 12, 2):
        assert whole[n].count == sum(plans[n]) + sum(plans[n + 1]) == whole[n + 1].count
        assert whole[n].epoch == n / 4
        assert whole[n].until == (n + 2) / 4
    for done in (2, 4, 6):
        assert take(stream(accumulate=2, start=whole[done - 1].after), 12 - done) == whole[done:]
    ranks = [take(stream(rank=rank, world=2), 6) for rank in (0, 1)]
    assert [m.batch for pair in zip(*ranks, strict=True) for m in pair] == plans
    assert [m.count for m in ranks[0]] == [m.count for m in whole[::2]]


# -- the log and the files


def test_the_log_is_cut_to_what_the_checkpoint_knows(tmp_path):
    file = tmp_path / "log.jsonl"
    log = Log(file, bar=False)
    log.write(step=1, loss=2.0)
    known = log.length
    log.write(step=2, loss=math.nan, dev={"per": math.inf})
    log.close()
    assert json.loads(file.read_text().splitlines()[1]) == {
        "step": 2, "loss": None, "dev": {"per": None},
    }  # fmt: skip
    again = Log(file, length=known, bar=False)
    again.write(step=2, loss=1.0)
    again.close()
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0},
    ]  # fmt: skip
    Log(file, bar=False).close()  # nothing to continue: nothing is left
    assert file.read_text() == ""


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    file = tmp_path / "a" / "file"
    replace_file(file, lambda path: path.write_text("old"))

    def fail(path):
        path.write_text("ha")
        raise OSError("disk full")

    with pytest.raises(RegardError, match="file: could not be written: disk full"):
        replace_file(file, fail)
    assert file.read_text() == "old"
    assert list(file.parent.iterdir()) == [file]


def test_a_broken_checkpoint_is_said(tmp_path):
    for content in (b"", b"PK\x03\x04 nothing"):
        (tmp_path / "last.ckpt").write_bytes(content)
        with pytest.raises(RegardError, match="--fresh starts over"):
            load_checkpoint(tmp_path / "last.ckpt")


# -- validation


def _validation(metric="loss", lower=("loss",)):
    return Validation(
        None, [], None, {}, limit=0, metric=metric, lower=set(lower), tokens=1
    )  # fmt: skip


def test_what_is_better():
    nan = math.nan
    lower, higher = _validation("per", ["per"]), _validation("bleu", ["per"])
    assert lower.better(1.0, 2.0)
    assert not lower.better(2.0, 1.0)
    assert not lower.better(1.0, 1.0)
    assert higher.better(2.0, 1.0)
    assert not higher.better(1.0, 2.0)
    for validation in (lower, higher):
        assert validation.better(1.0, None)
        assert validation.better(1.0, nan)
        assert not validation.better(nan, 1.0)
        assert not validation.better(nan, nan)
        assert not validation.better(nan, None)
    assert higher.better_of({"bleu": 1.0, "loss": 1.0}, {"bleu": 1.0, "loss": 2.0})
    assert not higher.better_of({"bleu": 1.0, "loss": 1.0}, {"bleu": 2.0, "loss": 2.0})


def test_examples_are_spread_evenly():
    assert some(10, 4) == [0, 3, 6, 9]
    assert some(3, 5) == [0, 1, 2]


# -- a training, driven by hand


class Scores(Validation):
    """Gives the scores it was told, one after the other."""

    def __init__(self, losses):
        super().__init__(None, [], None, {}, limit=0, metric="loss", lower=set(), tokens=1)
        self.losses = iter(losses)

    def __call__(self, model, device, precision):
        torch.rand(3)  # may not be seen by the training
        return {"loss": next(self.losses), "perplexity": 1.0}


def _loss(model, batch):
    return (model(batch) ** 2).sum(), batch.numel()


def _work(folder, losses=None, task=_loss, **settings):
    settings = {
        "optimizer": {"name": "sgd", "lr": 0.1}, "log": 1, "device": "cpu",
        "validate": Validate(every=2), "checkpoint": Checkpoint(every=2), **settings,
    }  # fmt: skip
    made = Training(**settings)
    torch.manual_seed(5)
    model = nn.Linear(2, 1)
    hooks = SimpleNamespace(
        loss=lambda model, batch, step: task(model, batch), phases=lambda model: (),
        after_update=lambda model: None, measured=dict,
    )  # fmt: skip
    return Work(
        folder, model, hooks, optimizers.build(made.optimizer, model.parameters()),
        schedules.build(made.schedule), made, Scores(losses) if losses is not None else None,
        bar=False,
    )  # fmt: skip


class Micros:
    """Step n sees [n, 1], 4 steps an epoch; continues where a training stands."""

    def __init__(self, work):
        self.work = work

    def __iter__(self):
        n = self.work.progress.place.offset
        while True:
            batch = torch.tensor([[n % 4 + 1.0, 1.0]])
            after = Place(0, n + 1)
            yield works.Micro(batch, 1, after, n / 4, (n + 1) / 4)
            n += 1


def _train(work, interrupt=None):
    """Run to the end, or to the end of the step that is interrupted."""
    before = work.before_step

    def before_step(micro):
        work.interrupted = work.progress.step + 1 == interrupt
        before(micro)

    work.before_step = before_step
    try:
        engine.run(work, Micros(work))
    finally:
        work.log.close()
    return work


def test_early_stopping_counts_validations_without_a_better_score(tmp_path):
    losses = [3.0, 2.0, 2.5, math.nan, 1.0, 1.0, 1.5, 2.0, 0.1]
    validate = Validate(every=2, patience=3)
    work = _train(_work(tmp_path, losses, steps=100, validate=validate))
    assert work.progress.done == "no better loss in 3 validations"
    assert work.progress.step == 16
    assert (work.progress.best, work.progress.best_step) == (1.0, 10)
    best = load_weights(tmp_path / "checkpoints" / "best.safetensors")
    other = _train(_work(tmp_path / "other", steps=10))
    assert torch.equal(best["weight"], other.model.weight)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["dev"]["loss"] for line in lines if "dev" in line] == [
        3.0, 2.0, 2.5, None, 1.0, 1.0, 1.5, 2.0,
    ]  # fmt: skip


def test_never_a_number_is_never_the_best_and_patience_ends_it(tmp_path):
    work = _work(tmp_path, [math.nan] * 9, steps=100, validate=Validate(every=1, patience=2))
    assert _train(work).progress.step == 2
    assert work.progress.best is None
    assert not (tmp_path / "checkpoints" / "best.safetensors").exists()


def test_a_loss_that_is_no_number_ends_the_training(tmp_path):
    def loss(model, batch):
        total, count = _loss(model, batch)
        return (total * math.nan if batch[0, 0] == 3 else total), count

    with pytest.raises(RegardError, match=r"step 3: the loss is nan; --fresh"):
        _train(_work(tmp_path, steps=9, task=loss))


@pytest.mark.parametrize(
    ("limits", "steps", "why"),
    [
        ({"steps": 3}, 3, "3 steps"),
        ({"epochs": 1.5}, 6, "1.5 epochs"),
        ({"steps": 9, "epochs": 2}, 8, "2 epochs"),
        ({"steps": 9, "cpu_seconds": 1e-9}, 1, "1e-09 s of CPU time"),
    ],
)
def test_the_nearest_limit_ends_it(tmp_path, limits, steps, why):
    floats = {key: value if key == "steps" else float(value) for key, value in limits.items()}
    work = _train(_work(tmp_path, **floats))
    assert (work.progress.step, work.progress.done) == (steps, why)
    assert work.progress.epoch == steps / 4


def test_an_interruption_changes_neither_weights_nor_averages(tmp_path):
    settings = {"steps": 9, "average": 3, "ema": 0.5, "log": 4, "checkpoint": Checkpoint(every=3)}
    whole = _train(_work(tmp_path / "whole", [1.0] * 9, **settings))
    broken = tmp_path / "broken"
    for stop in (4, 5, 8):
        part = _train(_work(broken, [1.0] * 9, **settings), interrupt=stop)
        assert (part.progress.step, part.progress.done) == (stop, "")
    last = _train(_work(broken, [1.0] * 9, **settings))
    names = [[p.name for p in w.last.files()] for w in (whole, last)]
    assert names[0] == names[1] == [f"step-{step:09d}.safetensors" for step in (3, 6, 9)]
    for name, tensor in average(whole.last.files()).items():
        assert torch.equal(tensor, average(last.last.files())[name])
    for name, tensor in weights_of(whole.model).items():
        assert torch.equal(tensor, weights_of(last.model)[name])
        assert torch.equal(whole.ema.weights[name], last.ema.weights[name])
    logs = [(tmp_path / n / "log.jsonl").read_text().splitlines() for n in ("whole", "broken")]
    found = [
        [(x["step"], x["loss"], x["lr"]) for x in map(json.loads, log) if "loss" in x]
        for log in logs
    ]
    assert found[0] == found[1]
    assert [step for step, _, _ in found[0]] == [4, 8]


def test_an_interruption_inside_a_step_is_an_interruption(tmp_path):
    """The engine would exit with 1."""

    def loss(model, batch):
        raise KeyboardInterrupt("interrupted twice")

    with pytest.raises(KeyboardInterrupt, match="interrupted twice"):
        _train(_work(tmp_path, steps=3, task=loss))


def test_a_training_that_had_ended_is_judged_as_when_it_ends(tmp_path):
    ended = _train(_work(tmp_path, steps=2, precision="bf16"))
    again = _work(tmp_path, steps=2, precision="bf16")
    again.log.close()
    assert again.progress.done == ended.progress.done == "2 steps"
    inputs = torch.ones(1, 2)
    for work in (ended, again):
        with work.precision():
            assert work.model(inputs).dtype == torch.bfloat16
    assert again.device == ended.device


def test_processes_share_one_learning_rate_and_one_verdict(tmp_path, monkeypatch):
    """Each has its own clock and may round its scores another way."""
    monkeypatch.setattr(works.distributed, "first", lambda value, device: 0.25)
    timed = _work(tmp_path / "a", [7.0], cpu_seconds=1000.0, schedule={"name": "linear"})
    timed.before_step(next(iter(Micros(timed))))
    assert timed.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.75)
    timed._cpu_before = timed._wall_before = 0.0
    timed._tick = 0.0
    timed._validate()
    timed.log.close()
    assert timed.progress.best == 0.25


def test_the_learning_rate_at_each_step(tmp_path):
    made = {"name": "linear", "warmup": 2}
    _train(_work(tmp_path, steps=4, schedule=made))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["lr"] for line in lines] == pytest.approx([0.05, 0.075, 0.05, 0.025])


def test_a_plateau_anneals_by_the_losses_on_dev_and_ends_the_training(tmp_path):
    """Losses at steps 2, 4, ...: the second stall is the third that is not below the one before."""
    made = {"name": "plateau", "factor": 0.5, "least": 0.3}
    work = _train(_work(tmp_path, [5.0, 4.0, 4.0, 3.0, 6.0, 1.0], steps=12, schedule=made))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    rates = [line["lr"] for line in lines if "lr" in line]
    assert rates == pytest.approx([0.1] * 6 + [0.05] * 4)  # 4.0 after 4.0; then 6.0 after 3.0
    assert work.progress.done == "a learning rate of less than 0.3 times the first"


def test_each_parameter_is_clipped_by_its_own_norm(tmp_path):
    """Sukhbaatar et al. (2015): the weight's gradient is scaled, the bias's small one is not."""

    class One(Micros):
        def __iter__(self):
            yield works.Micro(torch.tensor([[1.0, 2.0]]), 1, Place(0, 1), 0.0, 0.25)

    work = _work(tmp_path, steps=1, clip_each=2.0)
    with torch.no_grad():
        work.model.weight.copy_(torch.tensor([[0.4, 0.1]]))
        work.model.bias.fill_(0.1)
    engine.run(work, One(work))
    work.log.close()
    y = 0.4 + 2 * 0.1 + 0.1
    weight, bias = np.array([2 * y, 4 * y]), 2 * y  # of y²
    norm = np.sqrt((weight**2).sum())
    assert norm > 2.0 > bias
    right = np.array([0.4, 0.1]) - 0.1 * weight * 2.0 / norm
    np.testing.assert_allclose(work.model.weight.detach()[0], right, rtol=1e-4)
    np.testing.assert_allclose(work.model.bias.detach(), [0.1 - 0.1 * bias], rtol=1e-4)


def test_accumulated_gradients_are_those_of_one_batch(tmp_path):
    """A step of two micro-batches: the sum of the losses by the tokens of both, then clipped."""

    class Pairs(Micros):
        def __iter__(self):
            for rows in ([[1.0, 2.0]], [[3.0, -1.0], [0.5, 4.0]]):
                yield works.Micro(torch.tensor(rows), 3, Place(0, 1), 0.0, 0.25)

    settings = {"steps": 1, "batch": BatchSettings(accumulate=2), "clip": 0.5}
    work = _work(tmp_path, **settings)
    before = {k: v.detach().double().numpy().copy() for k, v in weights_of(work.model).items()}
    engine.run(work, Pairs(work))
    work.log.close()
    x = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]])
    y = x @ before["weight"].T + before["bias"]
    gradients = {"weight": (2 * y * x).sum(0, keepdims=True) / 3, "bias": (2 * y).sum(0) / 3}
    norm = math.sqrt(sum((g**2).sum() for g in gradients.values()))
    assert norm > 0.5
    for name, tensor in weights_of(work.model).items():
        right = before[name] - 0.1 * gradients[name] * 0.5 / norm
        np.testing.assert_allclose(tensor.detach().numpy(), right, rtol=1e-4, atol=1e-6)


# -- the end


@pytest.mark.parametrize(
    ("final", "losses", "name"),
    [
        ("auto", [4.0, 3.0, 2.0, 1.0], "last"),
        ("auto", [1.0, 3.0, 2.0, 4.0], "average"),
        ("last", [1.0], "last"),
        ("ema", [1.0], "ema"),
        ("best", [1.0], "best"),
    ],
)
def test_the_best_weights_are_chosen(tmp_path, final, losses, name):
    training = [5.0, 4.0, 9.0]  # the best is at step 4 of 6
    settings = {"steps": 6, "average": 2, "ema": 0.5, "final": final}
    work = _train(_work(tmp_path, training + losses, **settings))
    found = {
        "last": {k: v.detach().clone() for k, v in weights_of(work.model).items()},
        "average": average(work.last.files()),
        "ema": {k: v.clone() for k, v in work.ema.weights.items()},
        "best": load_weights(tmp_path / "checkpoints" / "best.safetensors"),
    }
    chosen, scores = choose(work)
    assert (chosen, scores["loss"]) == (name, min(losses))
    assert torch.equal(work.model.weight, found[name]["weight"])
    others = [found[other]["weight"] for other in found if other != name]
    assert not any(torch.equal(work.model.weight, other) for other in others)


def test_what_is_not_there_is_called_what_it_is(tmp_path):
    work = _train(_work(tmp_path, steps=3, final="best"))  # no dev: no best
    assert choose(work)[0] == "last"


# -- seeds


def test_seeds():
    assert seeds_of("1-3, 7,2") == [1, 2, 3, 7]
    for wrong in ("", "3-1", "a", "1-", "-1"):
        with pytest.raises(RequestError, match="--seeds"):
            seeds_of(wrong)
    found = summary({1: {"per": 1.0}, 2: {"per": 2.0}, 5: {"per": 6.0}})
    assert found["metrics"]["per"] == 3.0
    assert found["sd"]["per"] == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert found["seeds"]["5"] == {"per": 6.0}
    assert summary({1: {"per": 1.0}})["sd"] == {"per": 0.0}
