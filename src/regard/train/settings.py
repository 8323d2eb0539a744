"""What the section `train` of a recipe can say, with its defaults. Nothing heavy is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import Field

__all__ = ["Batch", "Checkpoint", "Training", "Validate"]

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(gt=0)]
_AMOUNTS = ("epochs", "cpu_seconds", "clip", "clip_each", "ema")


@dataclass(frozen=True)
class Batch:
    """How much one step sees.

    Args:
        tokens: the budget of a micro-batch, rows times longest side.
        accumulate: micro-batches a step (and process) whose gradients are added up.
    """

    tokens: Count = 4096
    accumulate: Count = 1


@dataclass(frozen=True)
class Validate:
    """How the model is judged while it learns.

    Args:
        every: steps between two validations; 0: never.
        examples: dev examples that are decoded for the task's metric; 0: only loss and perplexity.
        metric: what early stopping and the best checkpoint go by; the task's own where not given.
            Of several, as `[accuracy, loss]`, the best weights are those where none is worse than
            it ever was, and patience begins anew where any is as good as it ever was (the rule of
            Veličković et al. 2018).
        patience: validations without a better score before the training stops.
        tokens: the budget of a batch.
    """

    every: Natural = 1000
    examples: Natural = 200
    metric: str | list[str] | None = None
    patience: Count | None = None
    tokens: Count = 4096


@dataclass(frozen=True)
class Checkpoint:
    """When the state is saved.

    Args:
        every: steps between two checkpoints; 0: only at the end and when interrupted.
        minutes: or minutes between them, whichever comes first; these are not averaged.
    """

    every: Natural = 1000
    minutes: Amount | None = None


@dataclass(frozen=True)
class Training:
    """Everything about the training.

    Args:
        steps: updates of the weights; with `epochs` or `cpu_seconds` whichever comes first.
        epochs: passes over the training data.
        cpu_seconds: processor time of this process, over all its runs in the folder, validation
            included. Results then depend on the machine.
        start: a model folder, or a shipped model, whose weights and tokenizers to begin with, as
            for training on, or on other data; `data.tokenizer` then counts for nothing.
        optimizer: `{name: adam, lr: 0.001, ...}`; see `train.optim`.
        schedule: `{name: inverse-sqrt, warmup: 4000}`; see `train.schedule`.
        clip: largest norm of the gradient; 0: not clipped.
        clip_each: largest norm of each parameter's own gradient (Sukhbaatar et al. 2015); 0: not
            clipped.
        average: average the last so many checkpoints at the end; 0 or 1: none.
        ema: decay of an exponential moving average of the weights; 0: none.
        final: which weights the folder gets. `auto`: of all there are, those best on dev.
        precision: `bf16` is automatic mixed precision, weights stay float32.
        seed: everything random follows from it.
        log: steps between two lines of the log; 0: none.
        threads: CPU threads; as torch finds them where not given.
        device: `auto` takes a GPU where there is one.
        strategy: how several processes share the work (started by torchrun).
        dtype: of the weights in the final folder.
    """

    steps: Count | None = None
    epochs: Amount | None = None
    cpu_seconds: Amount | None = None
    batch: Batch = Batch()
    start: str | None = None
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "adam"})
    schedule: Mapping[str, Any] = field(default_factory=lambda: {"name": "constant"})
    clip: Annotated[float, Field(ge=0)] = 0.0
    clip_each: Annotated[float, Field(ge=0)] = 0.0
    average: Natural = 0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0
    final: Literal["auto", "last", "best", "average", "ema"] = "auto"
    validate: Validate = Validate()
    checkpoint: Checkpoint = Checkpoint()
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: Natural = 1
    log: Natural = 50
    threads: Count | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    strategy: Literal["ddp", "fsdp"] = "ddp"
    dtype: Literal["float32", "float16"] = "float32"

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> "Training":
        """The settings of a recipe's `train` section, which was checked before."""
        nested = {"batch": Batch, "validate": Validate, "checkpoint": Checkpoint}
        known = {f.name for f in fields(cls)}
        made: dict[str, Any] = {}
        for key, value in section.items():
            if key not in known or value is None:  # null means the default
                continue
            if key in nested:
                made[key] = nested[key](**value)
            else:
                made[key] = float(value) if key in _AMOUNTS else value
        return cls(**made)
