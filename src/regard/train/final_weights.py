"""The end of a training: choose the weights, score them, write the folder."""

import logging
import math
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard import decode, tasks
from regard.decode.program.in_c import PRECISIONS
from regard.decode.program.recordings import recorded_decoder
from regard.folder.weights import round_as, saved_size
from regard.train.averaging import average
from regard.train.checkpoints import load_weights, set_weights, weights_of
from regard.train.loop import Work
from regard.train.validation import Validation

if TYPE_CHECKING:
    from regard.train.building import Built

__all__ = ["choose", "finish"]

_talk = logging.getLogger("regard.train")

EXAMPLES = 2000
"""Of dev that are decoded for the choice. A few hundred sentences are too few: BLEU on 150 of them
chose weights of `en-de-small` from step 10,000 of 14,248: loss 2.125, at the end 2.067."""
PATIENCE = 300
"""Seconds of a last evaluation up to which it is made in lower precisions too."""


def finish(folder: Path, built: "Built", work: Work) -> dict[str, Any]:
    """Choose the weights, score them on test, write the folder; return the metrics."""
    from regard.folder import writing

    recipe = built.plan.recipe
    built.model.to(work.device)  # the engine leaves it on the CPU
    name, dev = choose(work)
    built.model.eval()
    section = dict(recipe.task)
    if found := built.task.settled(
        built.model,
        built.data.dev,
        built.plan.decoder,
        built.data.fields,
        built.settings.validate.tokens,
    ):
        section |= found
        told = {key: value for key, value in section.items() if key != "name"}
        built = built._replace(task=tasks.load(section["name"])(**told))
    metrics: dict[str, Any] = {"metrics": {}, "signature": {}, "examples": 0, "seconds": 0.0}
    test = built.data.test
    if test is not None and len(test):
        metrics |= evaluate(built, work, test)
    p = work.progress
    metrics["dev"] = dev
    metrics["training"] = {
        "ended": p.done,
        "weights": name,
        "steps": p.step,
        "epochs": round(p.epoch, 2),
        "tokens": p.tokens,
        "cpu": round(p.cpu, 1),
        "wall": round(p.wall, 1),
        "parameters": sum(t.numel() for t in built.model.parameters()),
        "seed": built.settings.seed,
        "problems": dict(getattr(built.data.problems, "counts", {})),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    writing.save_pretrained(
        folder,
        built.model,
        task=built.task.noted(section),
        fields=built.data.fields,
        recipe=recipe,
        metrics=_finite(metrics),
        noted=built.data.noted,
        dtype=built.settings.dtype,
    )
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    scores = "  ".join(f"{key} {value:.2f}" for key, value in metrics["metrics"].items())
    _talk.info("%s: %s (weights: %s)", folder, scores or "no test data", name)
    return metrics


def choose(work: Work) -> tuple[str, dict[str, float]]:
    """Load the final weights into the model, rounded as stored; return their name and dev scores.

    With `final: auto` every candidate (last, best, average, moving average) is scored on dev with
    the metric of early stopping, and the best is used. More of dev is decoded than while training.
    """
    candidates = _candidates(work)
    validation, best = work.validation, ""
    if validation and len(candidates) > 1:
        validation = validation.wider(EXAMPLES)
    result: dict[str, float] = {}
    weights: Mapping[str, Tensor] = {}
    for name, make in candidates.items():
        made = make()
        set_weights(work.model, made)
        scores = validation(work.model, work.device, work.precision) if validation else {}
        if validation and len(candidates) > 1:
            metric = validation.metric
            _talk.info(
                "weights %s: dev %s %.3f, loss %.4f", name, metric, scores[metric], scores["loss"]
            )
        if not best or (validation and validation.better_of(scores, result)):
            best, result, weights = name, scores, made
    set_weights(work.model, weights)
    if work.settings.dtype != "float32":
        result = _round(work, validation, result)
    return best, result


def _round(work: Work, validation: Validation | None, before: dict[str, float]) -> dict[str, float]:
    """Round the weights as they are stored; log the size, and what it costs on dev."""
    dtype = work.settings.dtype
    sizes = {name: saved_size(work.model, name) for name in ("float32", "float16", dtype)}
    round_as(work.model, dtype)
    scores = validation(work.model, work.device, work.precision) if validation else {}
    said = f"weights stored as {dtype}, {_size(sizes[dtype])} (float32 {_size(sizes['float32'])})"
    for metric in dict.fromkeys([validation.metric, "loss"] if validation else []):
        said += f", dev {metric} {scores[metric]:.4f} (float32 {before[metric]:.4f})"
    _talk.info("%s", said)
    if dtype != "float16" and sizes[dtype] >= sizes["float16"]:
        _talk.warning(
            "train.dtype=%s: float16 would be no larger (%s), and more exact: the matrices have "
            "too few columns for a step each row",
            dtype,
            _size(sizes["float16"]),
        )
    return scores


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} KB"


def _candidates(work: Work) -> dict[str, Callable[[], Mapping[str, Tensor]]]:
    """The candidate weights in order of preference; without dev the first is used."""
    folder, settings = work.folder / "checkpoints", work.settings
    last = {name: tensor.detach().clone() for name, tensor in weights_of(work.model).items()}
    files = work.last.files(work.progress.step)
    found: dict[str, Callable[[], Mapping[str, Tensor]]] = {}
    if settings.average > 1 and len(files) > 1:
        found["average"] = lambda: average(files)
    if work.ema is not None:
        moving = work.ema.weights
        found["ema"] = lambda: moving
    if (folder / "best.safetensors").is_file() and work.progress.best_step != work.progress.step:
        found["best"] = lambda: load_weights(folder / "best.safetensors")
    found["last"] = lambda: last
    if settings.final == "auto":
        return found
    name = settings.final if settings.final in found else "last"  # the best may be the last
    return {name: found[name]}


def evaluate(built: "Built", work: Work, test: Any) -> dict[str, Any]:
    """The official scores on test, with the recipe's decoder."""
    started = time.monotonic()
    work.model.eval()
    found = built.task.predict(
        work.model,
        test,
        built.plan.decoder,
        built.data.fields,
        tokens=built.settings.validate.tokens,
    )
    scores = built.task.score(found, test)
    seconds = time.monotonic() - started
    measured = {
        "metrics": {name: float(score.value) for name, score in scores.items()},
        "signature": {name: score.signature for name, score in scores.items()},
        "examples": len(test),
        "seconds": round(seconds, 1),
    }
    low = _low_precisions(built, work, test) if seconds < PATIENCE else {}
    return measured | ({"precision": low} if low else {})


def _low_precisions(built: "Built", work: Work, test: Any) -> dict[str, Any]:
    """The scores with rounded weights, for models whose decoder runs in C."""
    asked = built.plan.recipe.decode
    if asked.get("precision", "float32") != "float32":
        return {}
    if not _was_recorded(work.model):
        return {}
    found = {}
    for precision in PRECISIONS[1:]:
        outputs = built.task.predict(
            work.model,
            test,
            decode.build({**asked, "precision": precision}),
            built.data.fields,
            tokens=built.settings.validate.tokens,
        )
        scores = built.task.score(outputs, test)
        found[precision] = {name: float(score.value) for name, score in scores.items()}
    return found


def _was_recorded(model: Any) -> bool:
    """Whether the outputs that were scored were decoded by a program."""
    return recorded_decoder(model)[0] is not None


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
