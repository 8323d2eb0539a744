"""Trainings in processes of their own, on the sentences that ship with the package."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RECIPE = """
model: {{name: {model}, {size}, dropout: {dropout}}}
task: {{name: translation, smoothing: 0.1, bpe_dropout: {bpe_dropout}}}
data:
  path: mt-bible-de
  train: mt-bible-de/dev.tsv.gz
  columns: {{source: de, target: en}}
  tokenizer: {{kind: bpe, vocab_size: 200, shared: true}}
train:
  steps: {steps}
  batch: {batch}
  optimizer: {{name: adam, lr: 0.003}}
  schedule: {{name: inverse-sqrt, warmup: 20}}
  clip: 1.0
  average: 2
  ema: 0.9
  validate: {{every: {validate}, examples: 0}}
  checkpoint: {{every: {checkpoint}}}
  device: cpu
  threads: 1
  log: 1
  final: {final}
"""
SIZES = {
    "transformer": "dim: 16, heads: 2, layers: 1, ffn_dim: 32",
    "rnnsearch": "embed: 8, hidden: 8, align: 8, maxout: 8",
}


def recipe(folder: Path, model: str = "transformer", **changes: object) -> Path:
    values: dict[str, object] = {
        "dropout": 0.2, "steps": 300, "validate": 45, "checkpoint": 20, "final": "last",
        "bpe_dropout": 0.0,
        "batch": f"{{tokens: 300, accumulate: {changes.pop('accumulate', 1)}}}",
    } | changes  # fmt: skip
    path = folder / "recipe-in.yaml"
    path.write_text(RECIPE.format(model=model, size=SIZES[model], **values))
    return path


def command(recipe: Path, folder: Path, *, processes: int = 1) -> list[str]:
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*start, "-m", "regard", "train", str(recipe), "-o", str(folder)]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(recipe: Path, folder: Path, *, processes: int = 1) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(recipe, folder, processes=processes),
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def killed(recipe: Path, folder: Path, *, after: int, processes: int = 1) -> None:
    """Train until so many steps are logged, and end all processes without a word."""
    process = subprocess.Popen(
        command(recipe, folder, processes=processes), env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while steps(folder) < after and process.poll() is None:
        time.sleep(0.02)
    for one in ranks_of(process.pid).values() if processes > 1 else ():
        os.kill(one, signal.SIGKILL)
    process.kill()
    process.wait()
    assert not (folder / "metrics.json").exists()


def ranks_of(launcher: int) -> dict[int, int]:
    """The process of each rank that torchrun has started, by its environment."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            if f"\nPPid:\t{launcher}\n" not in (place / "status").read_text():
                continue
            told = (place / "environ").read_text().split("\0")
        except OSError:  # no process, or one that has ended
            continue
        found |= {int(one[5:]): int(place.name) for one in told if one.startswith("RANK=")}
    return found


def losses(folder: Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def steps(folder: Path) -> int:
    """How many steps a running training has logged."""
    log = folder / "log.jsonl"
    return log.read_text().count('"norm"') if log.is_file() else 0
