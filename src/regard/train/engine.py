"""The adapter to the training engine (pytorch-lightning), the only file that imports it.

The engine moves batches and models to devices, accumulates, casts, and runs several processes. The
`Work` decides what a step computes, what is saved and when to stop.
"""

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import ModelParallelStrategy, Strategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.optim import Optimizer

from regard.native.bfloat16 import bf16_is_fast
from regard.recipe.train_section import Training
from regard.train.distributed import compress, connect
from regard.train.micro_batches import Micro

__all__ = ["Inspecting", "Work", "device_of", "inspecting", "precision_of", "rank", "run", "world"]


@runtime_checkable
class Work(Protocol):
    """The interface of a training to the engine."""

    trained: nn.Module
    optimizer: Optimizer
    settings: Training

    def loss(self, micro: Micro) -> Tensor:
        """The sum of the losses of one micro-batch."""
        ...

    def before_step(self, micro: Micro) -> None:
        """Called with the first micro-batch of a step."""
        ...

    def clip(self) -> None:
        """Called when the gradients of a step are complete."""
        ...

    def after_step(self, micro: Micro) -> bool:
        """Called with the last micro-batch of a step; True ends the training."""
        ...

    def begin(self, precision: Callable[[], Any], device: torch.device) -> None:
        """Called when everything is on its device, before the first step."""
        ...

    def shard(self, mesh: DeviceMesh) -> None:
        """Called before `begin` to shard the weights; changes `trained`."""
        ...

    def end(self) -> None:
        """Called after the last step, in every process."""
        ...


def world() -> int:
    """The number of processes, from torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The rank of this process."""
    return int(os.environ.get("RANK", "0"))


def device_of(settings: Training) -> torch.device:
    """The device of a training."""
    found = torch.accelerator.current_accelerator() if settings.device != "cpu" else None
    return found if found is not None and torch.accelerator.is_available() else torch.device("cpu")


def precision_of(settings: Training) -> Literal["fp32", "bf16"]:
    """The precision of a training: where it is `auto`, the faster one on its device."""
    if settings.precision != "auto":
        return settings.precision
    device = device_of(settings)
    fast: dict[str, Callable[[], bool]] = {
        "cpu": bf16_is_fast,
        "cuda": partial(torch.cuda.is_bf16_supported, including_emulation=False),
    }
    return "bf16" if device.type in fast and fast[device.type]() else "fp32"


def run(work: Work, micros: Iterable[Micro]) -> None:
    """Train until `work` ends."""
    settings = work.settings
    if world() > 1:
        connect(device_of(settings))
    with _quiet():
        trainer = pl.Trainer(
            accelerator={"cuda": "gpu"}.get(settings.device, settings.device),
            devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
            num_nodes=max(1, world() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))),
            strategy=_strategy(settings),
            precision={"fp32": "32-true", "bf16": "bf16-mixed"}[settings.precision],  # type: ignore[arg-type]
            accumulate_grad_batches=settings.batch.accumulated(world()),
            max_steps=-1,
            max_epochs=-1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            limit_val_batches=0,
            use_distributed_sampler=False,
            inference_mode=False,
        )
        module = _Module(work)
        try:
            trainer.fit(module, train_dataloaders=_Endless(micros))
        except SystemExit as error:  # how the engine passes on an interruption
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
    work.end()


def _strategy(settings: Training) -> str | Strategy:
    if world() == 1:
        return "auto"
    if settings.strategy == "fsdp":
        return ModelParallelStrategy(data_parallel_size=world(), tensor_parallel_size=1)
    return settings.strategy


class _Endless:
    """An iterable that the engine uses unchanged: no workers, no random numbers."""

    def __init__(self, micros: Iterable[Micro]) -> None:
        self.micros = micros

    def __iter__(self) -> Iterator[Micro]:
        return iter(self.micros)


class _Module(pl.LightningModule):
    """Forwards the engine's calls to the work."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.model = work.trained
        self.work = work
        self.accumulate = work.settings.batch.accumulated(world())

    def configure_model(self) -> None:
        if isinstance(self.trainer.strategy, ModelParallelStrategy):
            self.work.shard(self.trainer.strategy.device_mesh["data_parallel"])
            self.model = self.work.trained

    def configure_optimizers(self) -> Optimizer:
        return self.work.optimizer

    def on_fit_start(self) -> None:
        if self.work.settings.compress is not None:
            compress(self.trainer.strategy.model, self.work.settings.compress)
        self.work.begin(self.trainer.precision_plugin.forward_context, self.device)

    def transfer_batch_to_device(self, batch: Micro, device: torch.device, index: int) -> Micro:
        return replace(batch, batch=batch.batch.to(device))

    def on_train_batch_start(self, batch: Micro, index: int) -> None:
        if index % self.accumulate == 0:
            self.work.before_step(batch)

    def training_step(self, batch: Micro, index: int) -> Tensor:
        # The engine divides by `accumulate`, and averages gradients over processes.
        return self.work.loss(batch) * (self.accumulate * world() / batch.count)

    def configure_gradient_clipping(self, *_: Any, **__: Any) -> None:
        self.work.clip()

    def on_train_batch_end(self, outputs: Any, batch: Micro, index: int) -> None:
        if (index + 1) % self.accumulate == 0 and self.work.after_step(batch):
            self.trainer.should_stop = True


@runtime_checkable
class Inspecting(Protocol):
    """What is shown a model after each step: `regard.Inspector`."""

    def step(self, model: nn.Module, step: int) -> bool:
        """Keep what the model attends to, if it is time."""
        ...


def inspecting(inspector: Inspecting) -> pl.Callback:
    """A callback of pytorch-lightning that shows an inspector the model, in the first process.

    Example:
        `pl.Trainer(callbacks=[inspecting(regard.Inspector(examples, every=100))])`
    """
    return _Inspecting(inspector)


class _Inspecting(pl.Callback):
    """Counts as the engine does: updates, not micro-batches."""

    def __init__(self, inspector: Inspecting) -> None:
        self._inspector, self._last = inspector, -1

    def _show(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if trainer.is_global_zero and trainer.global_step != self._last:
            self._last = trainer.global_step
            self._inspector.step(module, self._last)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._show(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any, **__: Any
    ) -> None:
        self._show(trainer, pl_module)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the engine's banners and hints, but not its errors."""
    names = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch")
    logs = [logging.getLogger(n) for n in (*names, *(f"{n}.utilities.rank_zero" for n in names))]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric)\.")
        # Nothing works in place on logits.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        warnings.filterwarnings("ignore", message=".*(LeafSpec|litlogger|isinstance.treespec).*")
        try:
            yield
        finally:
            for log, level in zip(logs, before, strict=True):
                log.setLevel(level)
