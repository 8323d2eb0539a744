"""What a training is made of: its plan, and what the data bring."""

import logging
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard import decode
from regard.data.storage.shuffle_buffer import Streamed
from regard.errors import RequestError, nearest
from regard.fields import Field
from regard.fields.saved import read_fields
from regard.recipe import Recipe
from regard.recipe.plan import Plan
from regard.recipe.train_section import Training
from regard.settings.check import arguments_of
from regard.system.devices import device_named
from regard.train import engine
from regard.train.validation import Validation
from regard.train.warm_start import Beginning, begin_from
from regard.train.watched_examples import Watching

__all__ = ["Built", "build", "validation_of", "watching_of"]

_talk = logging.getLogger("regard.train")


class Built(NamedTuple):
    """A plan with what the data bring, before the first step."""

    plan: Plan
    settings: Training
    task: Any
    data: Any
    model: nn.Module


def build(plan: Plan, folder: Path | None = None) -> Built:
    """Read the data of a plan and draw the weights of its model, from its seed.

    Args:
        folder: may have tokenizers of an earlier run.
    """
    recipe, settings, task = plan.recipe, plan.training, plan.task
    _refuse(recipe, settings)
    device_named(settings.device, f"{recipe.where('train.device')}: train.device")
    settings = replace(settings, precision=engine.precision_of(settings))
    random.seed(settings.seed)
    np.random.seed(settings.seed)  # noqa: NPY002
    torch.manual_seed(settings.seed)
    first = begin_from(settings.start) if settings.start else None
    fields = _fields(task, folder) if folder else None
    place = recipe.where("train.start" if settings.vocabulary == "keep" else "train.vocabulary")
    begun = None if first is None else Beginning(first, task, settings.vocabulary, place)
    data = begun.data(recipe.data, fields) if begun else task.data(recipe.data, fields)
    if data.train is None or not (isinstance(data.train, Streamed) or len(data.train)):
        raise RequestError(f"{recipe.where('data')}: there is no training example in the data")
    sizes = data.sizes or task.model_arguments(data.fields)
    model = plan.model(sizes)
    task.prepare(model, data)
    if begun:
        begun.fill(model, sizes, arguments_of(recipe.model), data.fields)
    return Built(plan, settings, task, data, model)


def _refuse(recipe: Recipe, training: Training) -> None:
    """Settings of `train` that do not go together."""
    if not (training.steps or training.epochs or training.cpu_seconds):
        raise RequestError(f"{recipe.where('train')}: train needs steps, epochs or cpu_seconds")
    if training.vocabulary != "keep" and not training.start:
        raise RequestError(
            f"{recipe.where('train.vocabulary')}: train.vocabulary says what becomes of the "
            "vocabularies of train.start; expected a model there"
        )
    there = {"ema": training.ema > 0, "average": training.average > 1}
    if not there.get(training.final, True):
        raise RequestError(
            f"{recipe.where('train.final')}: train.final is {training.final!r}, "
            f"but train.{training.final} makes none"
        )


def validation_of(built: Built) -> Validation | None:
    """The validation of a training, or None."""
    recipe, s, task = built.plan.recipe, built.settings.validate, built.task
    if built.data.dev is None or not len(built.data.dev) or not s.every:
        if built.settings.schedule.get("name") == "plateau":
            raise RequestError(
                f"{recipe.where('train.schedule')}: the schedule plateau depends on the dev loss; "
                "it needs dev examples and train.validate.every above 0"
            )
        return None
    asked = s.metric or (task.metric if s.examples else "loss")
    metrics = (asked,) if isinstance(asked, str) else tuple(asked)
    known = ["loss", "perplexity", *(task.scores(built.data.dev) if s.examples else [])]
    for metric in metrics:
        if metric not in known:
            at, near = recipe.where("train.validate.metric"), nearest(metric, known)
            raise RequestError(f"{at}: train.validate.metric: there is no {metric!r} here: {near}")
    return Validation(
        built.plan.another_task(smoothing=0.0),
        built.data.dev,
        decode.build({"name": "greedy"}),
        built.data.fields,
        limit=s.examples,
        metric=metrics[0],
        lower=set(task.lower_is_better),
        tokens=s.tokens,
        also=metrics[1:],
    )


def watching_of(built: Built, folder: Path) -> Watching | None:
    """What looks at a few examples at some steps, or None."""
    if not built.settings.watch.every:
        return None
    recipe = built.plan.recipe
    return Watching(
        built.settings.watch,
        built.plan.another_task(),
        built.data,
        {"model": recipe.model, "decode": recipe.decode},
        folder,
        where=f"{recipe.where('train.watch')}: train.watch",
        say=_talk.info,
    )


def _fields(task: Any, folder: Path) -> dict[str, Field] | None:
    """The fields of an earlier run in the folder, where all of their files are there."""
    if not (folder / "recipe.yaml").is_file():
        return None
    try:
        return read_fields(task.fields(), folder)
    except FileNotFoundError:
        return None
