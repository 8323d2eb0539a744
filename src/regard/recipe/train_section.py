"""The section `train` of a recipe, with its defaults. Imports nothing heavy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.errors import RequestError

__all__ = ["BatchSettings", "Checkpoint", "NoiseSettings", "Training", "Validate", "WatchSettings"]

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Choice = Literal["keep", "extend", "replace"]
Amount = Annotated[float, Field(gt=0)]
_AMOUNTS = ("epochs", "cpu_seconds", "clip", "clip_each", "max_column_norm", "noise", "ema")


@dataclass(frozen=True)
class BatchSettings:
    """The size of a step.

    Args:
        tokens: the size of a micro-batch of one process: rows times longest side.
        accumulate: micro-batches per step (and process), for gradient accumulation.
        step_tokens: the size of a whole step, over all processes; `tokens` then is the most that a
            process takes at once. The examples of a step and its loss do not depend on the number
            of processes. None: a step has `tokens` x `accumulate` x processes.
        ahead: micro-batches that a thread makes ready before they are asked for. Results do not
            depend on it; see `benchmarks/batches_ahead.py` for what it gains.
    """

    tokens: Count = 4096
    accumulate: Count = 1
    ahead: Annotated[int, Field(ge=0, le=64)] = 0
    step_tokens: Count | None = None

    def __post_init__(self) -> None:
        """Refuse two sizes of a step."""
        if self.step_tokens is not None and self.accumulate != 1:
            raise RequestError(
                f"train.batch.accumulate: it is {self.accumulate}, but train.batch.step_tokens is "
                "the size of a whole step, from which the number of micro-batches follows; leave "
                "out one of the two"
            )

    @property
    def whole(self) -> int | None:
        """The micro-batches of a whole step, over all processes; None without `step_tokens`."""
        return None if self.step_tokens is None else -(-self.step_tokens // self.tokens)

    @property
    def budget(self) -> int:
        """The budget that micro-batches are cut by: equal parts of the step, within `tokens`."""
        return self.tokens if self.step_tokens is None else self.step_tokens // (self.whole or 1)

    def accumulated(self, world: int) -> int:
        """The micro-batches of a step that each of `world` processes computes."""
        return self.accumulate if self.whole is None else -(-self.whole // world)


@dataclass(frozen=True)
class Validate:
    """Validation during training.

    Args:
        every: steps between validations; 0: never.
        examples: dev examples that are decoded for the task's metric; 0: only loss and perplexity.
            When the final weights are chosen, up to 2,000 are.
        metric: the metric of early stopping and of the best checkpoint; the task's by default.
            With several, as `[accuracy, loss]`, the best weights are those where none is worse than
            its best value so far, and patience restarts if any equals its best value (the rule of
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
    """When checkpoints are saved.

    Args:
        every: steps between checkpoints; 0: only at the end and when interrupted.
        minutes: or minutes between them, whichever comes first; these are not averaged.
    """

    every: Natural = 1000
    minutes: Amount | None = None


@dataclass(frozen=True)
class WatchSettings:
    """Attention of a few examples, kept in `watch.seen` of the folder (`train.watched_examples`).

    Args:
        examples: how many of dev (of the training split where there is no dev), or inputs as
            `regard look` takes them.
        every: steps between two looks; the first is before the first step, the last after the last
            one; 0: none. Weights and results do not depend on it.
    """

    examples: Annotated[int, Field(ge=1, le=16)] | list[str] = 3
    every: Natural = 0


@dataclass(frozen=True)
class NoiseSettings:
    """Noise on the weights while a step is computed; see `train.weight_noise`.

    Args:
        deviation: of the noise of every weight, or where learned deviations start; 0: no noise.
        cost: weight of the complexity cost of learned deviations (Graves 2011; Chorowski et al.
            2015: 0.1); 0: deviations stay.
        lr: learning rate (Adam) of the logarithms of learned deviations.
    """

    deviation: Annotated[float, Field(ge=0)] = 0.0
    cost: Annotated[float, Field(ge=0)] = 0.0
    lr: Amount = 0.01


@dataclass(frozen=True)
class Training:
    """All settings of a training.

    Args:
        steps: updates of the weights; with `epochs` or `cpu_seconds` whichever comes first.
        epochs: passes over the training data.
        cpu_seconds: CPU time of this process, over all its runs in the folder, including
            validation. Results then depend on the machine.
        start: a model folder, or a shipped model, with the initial weights and tokenizers (for
            fine-tuning).
        vocabulary: what becomes of the vocabularies, labels and tags of `start`: `keep` them
            (`data.tokenizer` is then ignored), `extend` them by what is new in the training data,
            or `replace` them; rows of weights go by their names. A mapping says it of single
            fields; the others are kept. See `train.row_transfer`.
        optimizer: `{name: adam, lr: 0.001, ...}`; see `optim.optimizers`.
        schedule: `{name: inverse-sqrt, warmup: 4000}`; see `optim.schedules`.
        clip: maximum gradient norm; 0: no clipping.
        clip_each: maximum gradient norm of each parameter (Sukhbaatar et al. 2015); 0: no
            clipping.
        max_column_norm: a unit's incoming weights are scaled to at most this norm after each
            update (Hinton et al. 2012; Chorowski et al. 2015: 1); 0: no limit.
        weight_noise: noise on the weights while a step is computed; what is validated and saved
            has none.
        noise: gradients get Gaussian noise of this size over the root of the step (Verga et al.
            2018: 0.1), after clipping; 0: none.
        average: the number of last checkpoints to average at the end; 0 or 1: none.
        ema: decay of an exponential moving average of the weights; 0: none.
        final: which weights are saved. `auto`: those that are best on dev.
        watch: examples whose attention is kept at some steps.
        precision: `bf16` is automatic mixed precision, weights stay float32; `auto` takes it where
            the device multiplies in bfloat16, and `fp32` elsewhere.
        seed: the seed of all random numbers.
        log: steps between lines of the log; 0: none.
        threads: CPU threads; PyTorch's default if not given.
        device: `auto` uses a GPU if there is one.
        strategy: how several processes share the work (started by torchrun).
        compress: gradients are sent between processes in this precision, half the bytes, and added
            up in it (PyTorch's DDP communication hooks); null: as they are.
        dtype: of the weights in the final folder, which are rounded before they are scored;
            training logs what rounding changes on dev. int8: one step for each row of a matrix;
            int7, int6: the same size, but smaller in an archive (`regard export`).
    """

    steps: Count | None = None
    epochs: Amount | None = None
    cpu_seconds: Amount | None = None
    batch: BatchSettings = BatchSettings()
    start: str | None = None
    vocabulary: Choice | dict[str, Choice] = "keep"
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "adam"})
    schedule: Mapping[str, Any] = field(default_factory=lambda: {"name": "constant"})
    clip: Annotated[float, Field(ge=0)] = 0.0
    clip_each: Annotated[float, Field(ge=0)] = 0.0
    max_column_norm: Annotated[float, Field(ge=0)] = 0.0
    weight_noise: NoiseSettings = NoiseSettings()
    noise: Annotated[float, Field(ge=0)] = 0.0
    average: Natural = 0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0
    final: Literal["auto", "last", "best", "average", "ema"] = "auto"
    validate: Validate = Validate()
    checkpoint: Checkpoint = Checkpoint()
    watch: WatchSettings = WatchSettings()
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    seed: Natural = 1
    log: Natural = 50
    threads: Count | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    strategy: Literal["ddp", "fsdp"] = "ddp"
    compress: Literal["fp16", "bf16"] | None = None
    dtype: Literal["float32", "float16", "int8", "int7", "int6"] = "float32"

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.compress is not None and self.strategy != "ddp":
            raise RequestError(
                f"train.compress: it is {self.compress}, and train.strategy is {self.strategy}; "
                "expected ddp, whose processes send whole gradients"
            )

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> "Training":
        """The settings of a recipe's `train` section, which was checked before."""
        nested = {
            "batch": BatchSettings,
            "validate": Validate,
            "checkpoint": Checkpoint,
            "weight_noise": NoiseSettings,
            "watch": WatchSettings,
        }
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
