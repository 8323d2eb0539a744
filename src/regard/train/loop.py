"""What a training does at each step, independent of the engine that runs it."""

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.optim import Optimizer

from regard.errors import RegardError
from regard.optim.schedules import Point, Schedule, ended
from regard.recipe.train_section import Training
from regard.system.heap import hand_back
from regard.train import distributed, phase_switch
from regard.train.averaging import Average, Last
from regard.train.checkpoints import (
    load_checkpoint,
    restoring,
    same_model,
    save_checkpoint,
    save_weights,
    seed_all,
    weights_of,
)
from regard.train.engine import device_of, rank
from regard.train.gradients import add_noise, clip_each
from regard.train.log import Log
from regard.train.micro_batches import Micro
from regard.train.progress import Progress
from regard.train.random_state import random_state, set_random_state
from regard.train.sharding import copy_weights, like, sharded, whole
from regard.train.validation import Validation
from regard.train.watched_examples import Watching
from regard.train.weight_noise import WeightNoise, limit_columns

__all__ = ["Work"]

ASK_EVERY = 10
"""Steps after which several processes ask each other whether to stop."""
TIDY = 60.0
"""Seconds after which freed memory is handed back: what is kept for the next step has holes."""

_talk = logging.getLogger("regard.train")


class Work:
    """A training, called by `engine.run` at every step.

    Args:
        folder: for checkpoints, weights and the log.
        model: the model to validate and save. It is also `trained`, unless the engine shards the
            weights; then `trained` is a copy, whose weights are copied back when needed.
        watching: keeps what a few examples are attended to.
        epoch_limit: passes over the data before it ends; None: no limit.
    """

    def __init__(
        self,
        folder: Path,
        model: nn.Module,
        task: Any,
        optimizer: Optimizer,
        schedule: Schedule,
        settings: Training,
        validation: Validation | None,
        *,
        watching: Watching | None = None,
        bar: bool = True,
    ) -> None:
        """Continue from the checkpoint in `folder`, if there is one."""
        self.folder = folder
        self.model = self.trained = model
        self.task = task
        self.optimizer = optimizer
        self.schedule = schedule
        self.settings = settings
        self.validation = validation
        self.watching = watching
        self.progress = Progress()
        self.ema = Average(model, settings.ema) if settings.ema else None
        self.noise = WeightNoise(model, settings)
        self.last = Last(folder / "checkpoints", max(settings.average, 0))
        self.checkpoint = folder / "checkpoints" / "last.ckpt"
        self.first = rank() == 0
        # As `begin` will say; a training that had ended before only needs its last scores.
        self.device = device_of(settings)
        bf16 = settings.precision == "bf16"
        self.precision: Callable[[], Any] = (
            partial(torch.autocast, self.device.type, torch.bfloat16) if bf16 else nullcontext
        )
        self.interrupted = False
        self.phases = tuple(task.phases(model))
        self.mode: int | None = None  # the phase whose mode the model is in; see `phase`
        self._base_lr = [float(group["lr"]) for group in optimizer.param_groups]
        self._norm: Tensor | float = 0.0
        self._sum: Tensor | None = None
        self._tokens = 0
        self._random: list[dict[str, Any]] | None = None
        self.before: int | None = None  # the processes that made the checkpoint
        with restoring(self.checkpoint):
            length = self._restore() if self.checkpoint.is_file() else 0
        self.log = Log(folder / "log.jsonl" if self.first else None, length=length, bar=bar)

    # -- what the engine calls

    def begin(self, precision: Callable[[], Any], device: torch.device) -> None:
        """Start, with everything on its device."""
        self.precision, self.device = precision, device
        if self.ema:
            now = weights_of(self.trained)
            self.ema.weights = {k: like(v, now[k]).to(device) for k, v in self.ema.weights.items()}
        self.trained.train()
        if self._random is not None and rank() < len(self._random):
            set_random_state(self._random[rank()])
        else:  # also a process that an earlier start did not have
            torch.manual_seed(self.settings.seed + 1_000_003 * rank() + 1_009 * self.progress.step)
        self._cpu0, self._wall0 = time.process_time(), time.monotonic()
        self._tidied = self._wall0
        self._cpu_before, self._wall_before = self.progress.cpu, self.progress.wall
        self._tick, self._saved = time.monotonic(), time.monotonic()
        self._watch()

    def shard(self, mesh: DeviceMesh) -> None:
        """Train a sharded copy of the model."""
        self.trained = sharded(self.model, self.optimizer, mesh)

    def end(self) -> None:
        """Gather everything for the final scores."""
        phase_switch.leave(self)
        self._gather_weights()
        if self.ema:
            self.ema.weights = whole(self.ema.weights)
        self.trained = self.model.to(self.device)  # the engine leaves it on the CPU

    def loss(self, micro: Micro) -> Tensor:
        """The sum of the losses of one micro-batch."""
        if micro.number is not None:
            seed_all(self.settings.seed, self.progress.step, micro.number)
        total: Tensor = self.task.loss(self.trained, micro.batch, self.progress.step)[0]
        if micro.idle:  # all processes must take part in the sum of gradients
            total = total * 0.0
        detached = total.detach()
        self._sum = detached if self._sum is None else self._sum + detached
        return total

    def before_step(self, micro: Micro) -> None:
        """Set the learning rate of the step."""
        fraction = self.fraction(micro.epoch)
        if self.settings.cpu_seconds:  # each process has its own clock, but all one learning rate
            fraction = distributed.first(fraction, self.device)
        steps, epochs = phase_switch.enter(self, micro.epoch)
        place = self.progress.step + 1 - steps, micro.epoch - epochs, fraction
        factor = self.schedule(Point(*place, self.progress.losses))
        for group, base in zip(self.optimizer.param_groups, self._base_lr, strict=True):
            group["lr"] = base * factor
        self.noise.put(self.trained, self.progress.step, micro)

    def clip(self) -> None:
        """Clip the gradient norm, or only compute it for the log; then add noise."""
        self.noise.take(self.trained)
        limit = self.settings.clip
        logged = _due(self.progress.step + 1, self.settings.log)
        parameters = [p for p in self.trained.parameters() if p.grad is not None]
        clip_each(parameters, self.settings.clip_each)
        if limit:
            self._norm = whole(nn.utils.clip_grad_norm_(parameters, limit))
        elif logged:
            gradients = [p.grad for p in parameters if p.grad is not None]
            self._norm = whole(nn.utils.get_total_norm(gradients))
        add_noise(parameters, self.settings.noise, self.progress.step, self.settings.seed)

    def after_step(self, micro: Micro) -> bool:
        """Log, validate, save; True when the training ends."""
        p, s = self.progress, self.settings
        p.step += 1
        limit_columns(self.trained, s.max_column_norm)
        self.task.after_update(self.trained)
        p.place, p.epoch = micro.after, micro.until
        p.tokens, self._tokens = p.tokens + micro.count, self._tokens + micro.count
        self._clock()
        if self.ema:
            self.ema.update(self.trained)
        if _due(p.step, s.log):
            self._report(micro)
        if time.monotonic() - self._tidied > TIDY:
            hand_back()
            self._tidied = time.monotonic()
        late, spent, interrupted = self._agree()
        p.done = self._end(micro, spent)
        if self.validation and (p.done or _due(p.step, s.validate.every)):
            self._validate()
            self._clock()
            p.done = p.done or self._patience() or ended(self.schedule, p.losses)
        if p.done or _due(p.step, s.watch.every):
            self._watch()
        stop = bool(p.done) or interrupted
        if stop or late or _due(p.step, s.checkpoint.every):
            self.save()
        return stop

    # -- parts of a step

    def _clock(self) -> None:
        self.progress.cpu = self._cpu_before + time.process_time() - self._cpu0
        self.progress.wall = self._wall_before + time.monotonic() - self._wall0

    def fraction(self, epoch: float) -> float:
        """The finished part, 0 to 1, by the nearest limit."""
        s, p = self.settings, self.progress
        parts = [
            p.step / s.steps if s.steps else 0.0,
            epoch / s.epochs if s.epochs else 0.0,
            p.cpu / s.cpu_seconds if s.cpu_seconds else 0.0,
        ]
        return min(1.0, max(parts))

    def _agree(self) -> tuple[bool, bool, bool]:
        """Whether any process has a due checkpoint, no CPU time left, or an interruption."""
        s = self.settings
        minutes, seconds = s.checkpoint.minutes, s.cpu_seconds
        late = minutes is not None and time.monotonic() - self._saved >= 60 * minutes
        spent = seconds is not None and self.progress.cpu >= seconds
        flags = [late, spent, self.interrupted]
        # Every process must stop at the same step, but asking at each one would be slow.
        if distributed.is_parallel():
            if not _due(self.progress.step, ASK_EVERY):
                return False, False, False
            asked = distributed.total(torch.tensor(flags, dtype=torch.float32, device=self.device))
            flags = [bool(flag) for flag in asked]
        self.interrupted = flags[2]
        return flags[0], flags[1], flags[2]

    def _end(self, micro: Micro, spent: bool) -> str:
        s, p = self.settings, self.progress
        if s.steps and p.step >= s.steps:
            return f"{p.step} steps"
        if s.epochs and micro.until >= s.epochs:
            return f"{s.epochs:g} epochs"
        return f"{s.cpu_seconds:g} s of CPU time" if spent else ""

    def _patience(self) -> str:
        patience = self.settings.validate.patience
        spent = patience is not None and self.progress.worse >= patience
        if spent and phase_switch.ends_early(self):
            metric = " or ".join(self.validation.metrics) if self.validation else ""
            return f"no better {metric} in {patience} validations"
        return ""

    def _report(self, micro: Micro) -> None:
        assert self._sum is not None
        now = time.monotonic()
        mean = float(distributed.total(self._sum.double())) / self._tokens
        if not math.isfinite(mean):
            raise RegardError(
                f"{self.folder}: step {self.progress.step}: the loss is {mean}; --fresh with a "
                "lower train.optimizer.lr, with train.clip or with train.precision=fp32 may help"
            )
        values = {
            "step": self.progress.step,
            "epoch": round(micro.epoch, 4),
            "loss": mean,
            "lr": self.optimizer.param_groups[0]["lr"],
            "tokens/s": round(self._tokens / (now - self._tick), 1),
            "norm": round(float(self._norm), 4),
            "wall": round(self.progress.wall, 2),
            "cpu": round(self.progress.cpu, 2),
            **self.task.measured(),
        }
        self.log.train(values, self.fraction(micro.epoch))
        self._sum, self._tokens, self._tick = None, 0, now

    def _validate(self) -> None:
        assert self.validation is not None
        p, started = self.progress, time.monotonic()
        self._gather_weights()
        kept = random_state()
        result = self.validation(self.model.to(self.device), self.device, self.precision)
        set_random_state(kept)
        if self.trained is not self.model:
            self.model.cpu()
        counted = {m: distributed.first(result[m], self.device) for m in self.validation.metrics}
        counted.setdefault("loss", distributed.first(result["loss"], self.device))
        p.losses.append(counted["loss"])
        best, hopeful = self.validation.improved(counted, p.bests)
        p.bests = {**p.bests, **self.validation.bests(counted, p.bests)}
        p.worse = 0 if hopeful else p.worse + 1
        if best:
            p.best, p.best_step = counted[self.validation.metric], p.step
            if self.first:
                save_weights(
                    self.folder / "checkpoints" / "best.safetensors", weights_of(self.model)
                )
        self.log.write(
            step=p.step,
            dev=result,
            best=p.best,
            seconds=round(time.monotonic() - started, 2),
            wall=round(p.wall, 2),
            cpu=round(p.cpu, 2),
        )
        every, log = self.settings.validate.every, self.settings.log
        if p.done or every * 10 >= log or _due(p.step, log):
            said = "  ".join(f"{name} {number:.3f}" for name, number in result.items())
            self.log.say(f"step {p.step}: dev {said}{' (best)' if best else ''}")
        self._tick += time.monotonic() - started  # tokens/s is about training

    def _watch(self) -> None:
        if self.watching is not None:
            started = time.monotonic()
            self._gather_weights()
            if self.first:
                self.watching(self.model, self.progress.step, last=bool(self.progress.done))
            self._tick += time.monotonic() - started

    # -- saving

    def _gather_weights(self) -> None:
        """Copy the trained weights to `model`; every process must call it."""
        if self.trained is not self.model:
            copy_weights(self.trained, self.model)

    def save(self) -> None:
        """Save everything that resuming needs; every process must call it."""
        states = distributed.gather(random_state())
        self._gather_weights()
        optimizer = whole(self.optimizer.state_dict(), keep=self.first)
        ema = whole(self.ema.weights, keep=self.first) if self.ema else None
        total = None if self._sum is None else distributed.total(self._sum.clone())
        if self.first:
            # What is averaged must not depend on interruptions and clocks.
            if self.progress.done or _due(self.progress.step, self.settings.checkpoint.every):
                self.last.save(self.model, self.progress.step)
            save_checkpoint(
                self.checkpoint,
                {
                    "progress": self.progress.state(),
                    "model": self.model.state_dict(),
                    "optimizer": optimizer,
                    "ema": ema,
                    "weight_noise": self.noise.state(),
                    "random": states,
                    "log": self.log.length,
                    "interval": (total, self._tokens),
                },
            )
            self.last.prune(self.progress.step)
        self._saved = time.monotonic()

    def _restore(self) -> int:
        state = load_checkpoint(self.checkpoint)
        self.progress.restore(state["progress"])
        with same_model(self.checkpoint):
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        if self.ema and state["ema"] is not None:
            self.ema.weights = state["ema"]
        self.noise.restore(state.get("weight_noise", {}))
        self._random, self.before = state["random"], len(state["random"])
        total, self._tokens = state["interval"]
        self._sum = total if total is None or self.first else torch.zeros_like(total)
        return int(state["log"])

    @contextmanager
    def catching_signals(self) -> Iterator[None]:
        """Make the first Ctrl-C end the training after the current step, the second immediately."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.interrupted and not distributed.is_parallel():
                raise KeyboardInterrupt("interrupted twice: stopped without saving")
            if self.first and not self.interrupted:  # of several each is told twice: see `launch`
                _talk.info("interrupted: saving after this step (once more: stop at once)")
            self.interrupted = True

        before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
