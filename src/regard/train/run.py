"""From a recipe to a folder: results follow from (recipe, seed), and running again continues."""

import logging
import math
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.data.storage.shuffle_buffer import Streamed
from regard.errors import RegardError, RequestError
from regard.fields import Field
from regard.fields.saved import NAMES, files_of
from regard.native.bfloat16 import bf16_is_fast
from regard.recipe import Recipe, load
from regard.recipe.plan import Plan
from regard.settings.overlay import flat
from regard.system.devices import device_named
from regard.system.files import replace_file, settle, sweep
from regard.system.heap import keep_freed_memory
from regard.system.lock import locked
from regard.system.plain_json import read_object
from regard.train import engine
from regard.train.building import Built, build, validation_of, watching_of
from regard.train.file_batches import micros_of
from regard.train.final_weights import finish
from regard.train.loop import Work
from regard.train.prefetch import ahead
from regard.train.watched_examples import FILE as WATCHED

__all__ = ["default_folder", "fit"]

_talk = logging.getLogger("regard.train")

SAME = ("expect", "train.log", "train.batch.ahead", "train.checkpoint.minutes", "train.watch")
"""What may differ between a recipe and the one in its folder: results do not depend on it."""


def default_folder(recipe: Recipe) -> Path:
    """The default folder of a recipe: `runs/<recipe>`."""
    return Path("runs") / recipe.name


def fit(
    recipe: Recipe,
    folder: Path | str | None = None,
    *,
    fresh: bool = False,
    force: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Train a recipe into a folder, or continue there; return the metrics.

    Args:
        recipe: see `regard.recipe.load`.
        folder: `runs/<recipe>` by default.
        fresh: discard an earlier run in the folder.
        force: ignore the lock of another process.
        progress: show a bar on a terminal.

    Raises:
        RequestError: the recipe is invalid, the folder belongs to another recipe, or another
            process trains into it.
        KeyboardInterrupt: after an interruption, with everything saved.
    """
    folder = Path(folder) if folder is not None else default_folder(recipe)
    plan = recipe.plan()
    finished = None if fresh else _finished(recipe, folder)
    if finished is None:
        with locked(folder, force=force) if engine.rank() == 0 else nullcontext():
            if engine.rank() == 0:
                if not force:  # the folder is this process's alone
                    sweep(folder, ("", "checkpoints"))
                settle(folder, NAMES)
                if fresh:
                    _clear(folder)
            finished = None if fresh else _finished(recipe, folder)  # it may have ended just now
            if finished is None:
                return _fit(plan, folder, progress)
    _talk.info("%s is finished already; --fresh trains it again", folder)
    return finished


def _fit(plan: Plan, folder: Path, progress: bool) -> dict[str, Any]:
    keep_freed_memory()
    if plan.training.threads:
        torch.set_num_threads(plan.training.threads)
    built = build(plan, folder)
    if engine.rank() == 0:
        _note(plan.recipe, folder, built.data.fields)
    work = Work(
        folder,
        built.model,
        built.task,
        plan.optimizer(built.model),
        plan.schedule,
        built.settings,
        validation_of(built),
        watching=watching_of(built, folder),
        bar=progress,
    )
    try:
        _introduce(built, work)
        if not work.progress.done:
            _run(work, built)
        _say_if_few(plan.recipe, work)
        work.log.say(f"trained for {work.progress.done}; now the final scores")
    finally:
        work.log.close()
    return finish(folder, built, work) if engine.rank() == 0 else {}


FEW, ENOUGH = 100, 500
"""Updates after which a model has hardly learned anything, and with which small ones begin to."""


def _say_if_few(recipe: Recipe, work: Work) -> None:
    """A model that saw too little is said to be one, or its scores seem to be the mechanism's."""
    step, epoch = work.progress.step, work.progress.epoch
    if 0 < step < FEW and not recipe.name.endswith("-tiny"):
        key = next((key for key in ("steps", "cpu_seconds") if recipe.train.get(key)), "epochs")
        spent = max(epoch, 1) if key == "epochs" else recipe.train[key]
        more = math.ceil(ENOUGH / step * spent)
        passes = f"{epoch:.3g} passes" if epoch > 1 else "one pass or less"
        work.log.say(
            f"{step} updates, {passes}: few to learn from; try train.{key}={more}, or more data"
        )


def _run(work: Work, built: Built) -> None:
    s = built.settings
    stream = micros_of(built.data.train, s, work.progress.place)
    with work.catching_signals(), closing(ahead(stream, s.batch.ahead)) as micros:
        engine.run(work, micros)
    if not work.progress.done:
        if not work.interrupted:
            raise RegardError(f"{work.folder}: the training stopped before its end")
        raise KeyboardInterrupt(
            f"interrupted at step {work.progress.step}, saved in {work.folder}; "
            "the same command continues"
        )


def _introduce(built: Built, work: Work) -> None:
    """The first lines of a run: model, data, kernels and the reasons for them."""
    from regard.attention import explain

    recipe, s = built.plan.recipe, built.settings
    count = sum(p.numel() for p in built.model.parameters())
    device = device_named(s.device)
    where = (
        f"{torch.get_num_threads()} threads" if device == "cpu" else torch.cuda.get_device_name()
    )
    work.log.say(f"{recipe.name}, seed {s.seed}, {device} ({where}), {s.precision}")
    if device == "cpu" and s.precision == "bf16" and not bf16_is_fast():
        work.log.say(
            "this processor does not multiply in bfloat16, so bf16 is slow here; "
            "train.precision=fp32 is faster"
        )
    sizes = ", ".join(f"{key} {len(t)}" for key, t in built.data.tokenizers.items())
    work.log.say(
        f"{recipe.model['name']} with {count:,} parameters; {_said(built.data.train)}"
        + (f"; vocabulary {sizes}" if sizes else "")
    )
    for key, own in built.data.tokenizers.items():
        if own.segmenter is not None or "auto" in str(recipe.data.get("tokenizer")):
            cut = f", words without blanks by {own.segmenter}" if own.segmenter else ""
            work.log.say(f"data.tokenizer of {key}: {own.kind}{cut}")
    reasons = explain(built.model)
    if reasons:
        # Those that C may do are for the CPU.
        taken = Counter(
            " or ".join(said.names if device == "cpu" else [said.kernel])
            for said in reasons.values()
        )
        kernels = ", ".join(f"{name} ({count})" for name, count in taken.items())
        work.log.say(f"attention kernels: {kernels}; -v says why")
    for path, said in reasons.items():
        _talk.debug("kernel of %s: %s", path or "the model", said)
    if s.batch.step_tokens:
        each, world = s.batch.accumulated(engine.world()), engine.world()
        work.log.say(
            f"a step: {s.batch.step_tokens:,} tokens in {s.batch.whole} micro-batches of "
            f"{s.batch.budget:,}; {each} for each of {world} process{'es' * (world > 1)}"
        )
    if work.progress.step:
        work.log.say(f"continuing after step {work.progress.step}")
    if work.before not in (None, engine.world()) and not s.batch.step_tokens:
        work.log.say(
            f"a step has {engine.world()}/{work.before} of the tokens it had before, because this "
            "goes on with another number of processes; with train.batch.step_tokens it would not"
        )


def _said(train: Any) -> str:
    """How much there is to learn from."""
    if isinstance(train, Streamed):
        files = f"{len(train.files):,} file{'s' * (len(train.files) > 1)}"
        return f"examples of {files} in {train.lanes} lanes, {train.buffer:,} in memory"
    return f"{len(train):,} examples"


# -- the folder


def _clear(folder: Path) -> None:
    """Remove the files of a training, and nothing else."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    names = (
        "config.json",
        "model.safetensors",
        "recipe.yaml",
        "metrics.json",
        "README.md",
        "log.jsonl",
        WATCHED,
    )
    for path in [
        *(folder / name for name in names),
        *folder.glob("tokenizer*.json"),
        *folder.glob("field.*.json"),
    ]:
        path.unlink(missing_ok=True)


def _finished(recipe: Recipe, folder: Path) -> dict[str, Any] | None:
    """The metrics of a finished training in the folder, or None."""
    noted = folder / "recipe.yaml"
    if not noted.is_file():
        return None
    _refuse_change(recipe, noted)
    metrics = folder / "metrics.json"
    if not metrics.is_file() or not (folder / "config.json").is_file():
        return None
    try:
        return read_object(metrics)
    except RequestError as error:
        raise RequestError(f"{error}; --fresh trains again") from None


def _refuse_change(recipe: Recipe, noted: Path) -> None:
    old, new = _compared(load(noted)), _compared(recipe)
    changes = [
        f"  {sign}{key}: {values[key]!r}"
        for key in sorted({*old, *new})
        if key not in old or key not in new or old[key] != new[key]
        for sign, values in (("-", old), ("+", new))
        if key in values
    ]
    if not changes:
        return
    said = "\n".join(changes)
    raise RequestError(
        f"{noted.parent} holds a training of another recipe; -o trains elsewhere, "
        "--fresh starts over; "
        f"differences (- in the folder, + requested):\n{said}"
    )


def _compared(recipe: Recipe) -> dict[str, Any]:
    """The settings that results depend on; 1 equals 1.0, a list equals a tuple."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in flat(recipe.resolved())
        if not any(key == same or key.startswith(same + ".") for same in SAME)
    }


def _note(recipe: Recipe, folder: Path, fields: Mapping[str, Field]) -> None:
    """Write what a later run compares its recipe with."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files_of(fields).items():
        path = folder / name
        # One that is there may be what a start that was cut short left, of another recipe.
        if not path.is_file() or path.read_bytes() != text.encode():
            replace_file(path, partial(_write, text))
    replace_file(folder / "recipe.yaml", partial(_write, recipe.dump()))


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")
