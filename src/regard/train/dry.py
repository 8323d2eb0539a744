"""A dry run: everything is built, one step is made, nothing is written."""

import logging
import resource
import sys
import time
from typing import Any

import torch

from regard.data.batch import plan
from regard.recipe import Recipe
from regard.train import optim
from regard.train.run import build
from regard.train.stream import Stream
from regard.train.work import minimized

__all__ = ["dry"]

_talk = logging.getLogger("regard.train")


def dry(recipe: Recipe) -> dict[str, Any]:
    """Build all that a recipe describes, make one step; say shapes, parameters, memory, time."""
    built = build(recipe)
    s, model = built.settings, built.model.train()
    stream = Stream(
        built.data.train, plan, tokens=s.batch.tokens, seed=s.seed, accumulate=s.batch.accumulate
    )
    optimizer = optim.build(s.optimizer, model.parameters())
    micro = next(iter(stream))
    shapes = {
        name: list(value.shape)
        for name, value in vars(micro.batch).items()
        if isinstance(value, torch.Tensor)
    }
    started = time.monotonic()
    total, count = minimized(built.task, model, micro.batch, 0)
    (total / int(count)).backward()
    optimizer.step()
    seconds = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB; bytes on macOS
    peak //= 1024 if sys.platform == "darwin" else 1
    result = {
        "recipe": recipe.name,
        "model": recipe.model["name"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "examples": {
            split: len(part)
            for split in ("train", "dev", "test")
            if (part := getattr(built.data, split)) is not None
        },
        "vocabulary": {side: len(tokenizer) for side, tokenizer in built.data.tokenizers.items()},
        "batches": len(plan(built.data.train.sizes, tokens=s.batch.tokens, seed=s.seed, epoch=0)),
        "shapes": shapes,
        "loss": float(total.detach()) / int(count),
        "seconds": round(seconds, 3),
        "memory_mb": peak // 1024,
    }
    for key, value in result.items():
        _talk.info("%s: %s", key, value)
    return result
