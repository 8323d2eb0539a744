"""A dry run: one step, a few decoded and scored examples, and no output files."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from regard.data.batch import plan
from regard.data.dataset import Batch
from regard.data.storage.shuffle_buffer import Streamed
from regard.protocols import Inputs
from regard.recipe import Recipe
from regard.train.building import Built, build, validation_of
from regard.train.engine import device_of
from regard.train.file_batches import micros_of

__all__ = ["dry"]

FEW = 2
"""Examples that are decoded and scored."""

_talk = logging.getLogger("regard.train")


def dry(recipe: Recipe) -> dict[str, Any]:
    """Build everything and run each stage once: a step, validation, final scores.

    A recipe that passes can be trained, decoded and scored. Reports shapes, parameters, memory
    and time.

    Raises:
        RequestError: the recipe is invalid, or this machine lacks something it needs.
    """
    built = build(recipe.plan())
    s, device = built.settings, device_of(built.settings)
    model = built.model.to(device).train()
    train = built.data.train
    if isinstance(train, Streamed):  # a buffer of it
        train = train.first()
    stream = micros_of(train, s, alone=True)
    optimizer = built.plan.optimizer(model)
    micro = next(iter(stream))
    shapes = {name: list(value.shape) for name, value in _tensors(micro.batch)}
    started = time.monotonic()
    bf16 = s.precision == "bf16"
    with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
        total, count = built.task.loss(model, micro.batch.to(device), 0)
    (total / int(count)).backward()
    optimizer.step()
    seconds = time.monotonic() - started
    scores = _judged(built, device)
    result = {
        "recipe": recipe.name,
        "model": recipe.model["name"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "examples": {
            split: len(part)
            for split, part in (
                ("train", train),
                ("dev", built.data.dev),
                ("test", built.data.test),
            )
            if part is not None
        },
        "vocabulary": {side: len(tokenizer) for side, tokenizer in built.data.tokenizers.items()},
        "batches": len(plan(train.sizes, tokens=s.batch.budget, seed=s.seed, epoch=0)),
        "shapes": shapes,
        "loss": float(total.detach()) / int(count),
        "scored": scores,
        "seconds": round(seconds, 3),
        "memory_mb": _peak(),
    }
    for key, value in result.items():
        _talk.info("%s: %s", key, value)
    return result


def _peak() -> int | None:
    """The most memory that this process has had, in MiB; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB; bytes on macOS
    return peak >> (20 if sys.platform == "darwin" else 10)


def _tensors(batch: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a batch, with their names."""
    named = batch if isinstance(batch, Batch) else vars(batch)
    for name, value in named.items():
        if isinstance(value, Inputs):
            yield name, value.values
        elif isinstance(value, torch.Tensor):
            yield name, value


def _judged(built: Built, device: torch.device) -> list[str]:
    """Score the model on a few examples of dev and test, as a training does."""
    few = {
        split: part.subset(range(min(FEW, len(part))))
        for split in ("dev", "test")
        if (part := getattr(built.data, split)) is not None and len(part)
    }
    validation = validation_of(built._replace(data=replace(built.data, **few)))
    if validation is not None:
        validation(built.model, device, nullcontext)
    last = few.get("test")
    if last is None:
        return []
    built.model.eval()
    found = built.task.predict(
        built.model,
        last,
        built.plan.decoder,
        built.data.fields,
        tokens=built.settings.validate.tokens,
    )
    return list(built.task.score(found, last))
