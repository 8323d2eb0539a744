"""Seven scores by six selections: strings copied and reversed, by length, at equal updates.

    python benchmarks/comparison.py run -o benchmarks/results/comparison-2026-11-28.jsonl
    python benchmarks/comparison.py run -o FILE --only cosine-8,reinforce

`run` trains what FILE does not have yet and appends a JSON line for each finished training: the
same command continues where it was stopped. One thread, seeds 1 to 3. `docs/comparison.md` is
written from FILE by `python -m tests.docs.comparison`.

The model is Luong's (one layer of 64 cells in each direction of time, no input feeding), so that
attention is all that passes the source to the words, and all positions of a target are learned at
once. Strings of 3 to 12 symbols, eight different ones, are trained on; 3 to 24 are tested, twelve
strings of each length, the same for every system. Every system gets the same 300 updates of 32
strings, the same optimizer and, with the same seed, the same strings.

Fixed before the runs:

    measure   share of symbols that greedy decoding writes at their place
    cells     each against dot with softmax: `regard.metrics.paired` over strings, seeds pooled, as
              `regard compare`; Holm's correction over the 41 comparisons of a task
    rows      each pair of scores over the runs of all selections and seeds, paired by both; Holm's
              correction over the 21 pairs of a task. The same for the 15 pairs of selections.
              This covers the randomness of training, which the comparison of cells does not.
"""

import argparse
import json
import string
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Hard
from regard.claims.experiments.fitting import fit
from regard.claims.experiments.strings import SIZE, strings
from regard.decode import Greedy
from regard.models.luong import Luong
from regard.protocols import PAD

SCORES: Mapping[str, Any] = {
    "dot": "dot", "general": "general", "concat": "additive", "location": "location",
    "scaled": "scaled", "cosine": "cosine", "euclidean": "euclidean",
}  # fmt: skip
SELECTS: Mapping[str, Any] = {
    "softmax": "softmax", "sparsemax": "sparsemax", "entmax": "entmax",
    "local-m": {"name": "local-m", "reach": 2, "clamp": True},
    "local-p": {"name": "local-p", "reach": 2}, "hard": "straight-through",
}  # fmt: skip
BESIDE: Mapping[str, Sequence[tuple[str, str]]] = {
    "cosine-8": [("cosine-8", "softmax")],
    "reinforce": [(score, "reinforce") for score in ("dot", "general", "euclidean")],
}
"""Beside the 42: the cosine times 8 with softmax, and `Hard` with REINFORCE."""
TASKS = {"copying": False, "reversing": True}
SEEDS = (1, 2, 3)
TRAINED, TESTED = (3, 12), (3, 24)
UPDATES, LR, EACH = 300, 0.01, 12
DIGITS = string.digits + string.ascii_lowercase


def cells(only: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of a score and a selection."""
    named = [one for one in only.split(",") if one]
    for name in named:
        if name not in BESIDE:
            sys.exit(f"--only {name}: expected {' or '.join(BESIDE)}, or both with a comma")
    if not named:
        yield from ((score, select) for score in SCORES for select in SELECTS)
    for name in named:
        yield from BESIDE[name]


def model_of(score: str, select: str) -> Luong:
    """Luong's model, with wide weights at the start: it learns in hundreds of updates."""
    told = {"name": "cosine", "scale": 8.0} if score == "cosine-8" else SCORES[score]
    parts = {"score": told, "select": SELECTS.get(select, "softmax")}
    model = Luong(
        SIZE, SIZE, embed=32, hidden=64, layers=1, dropout=0.0, reverse=False, feed=False,
        max_length=TESTED[1] + 1, attention=parts,
    )  # fmt: skip
    if select == "reinforce":
        model.attention.select = Hard()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3.0)
    return model


class Reinforced:
    """The loss of hard attention by REINFORCE: the reward is log p of the word, less its mean.

    Only for a model that attends to all positions of the target at once.
    """

    def __init__(self, model: Luong) -> None:
        self.average: Tensor = torch.zeros(())
        self.log_prob: Tensor = torch.zeros(())
        model.attention.register_forward_hook(self._keep)

    def _keep(self, module: nn.Module, inputs: Any, attended: Any) -> None:
        self.log_prob = attended.log_prob

    def __call__(self, loss: Tensor, gold: Tensor) -> Tensor:
        """The mean loss of the words, with the gradient of the choices."""
        real = gold != PAD
        reward = -loss.detach()
        mean = (reward * real).sum() / real.sum()
        chosen = (((reward - self.average) * self.log_prob) * real).sum() / real.sum()
        self.average = 0.9 * self.average + 0.1 * mean
        return (loss * real).sum() / real.sum() - chosen


def trained(score: str, select: str, flip: bool, seed: int, updates: int = UPDATES) -> Luong:
    """A model after its updates."""
    torch.manual_seed(seed)
    model = model_of(score, select)
    reinforced = Reinforced(model) if select == "reinforce" else None

    def loss(draw: torch.Generator) -> Tensor:
        lengths = torch.randint(TRAINED[0], TRAINED[1] + 1, (32,), generator=draw)
        source, with_end, target_in, gold = strings(lengths, draw, flip)
        logits = model(source, target_in, with_end).logits
        each = F.cross_entropy(
            logits.flatten(0, 1), gold.flatten(), ignore_index=PAD, reduction="none"
        ).view_as(gold)
        return each.sum() / (gold != PAD).sum() if reinforced is None else reinforced(each, gold)

    fit(model, loss, updates=updates, lr=LR, seed=seed)
    return model


@torch.no_grad()
def right(model: Luong, flip: bool, each: int = EACH) -> dict[str, str]:
    """By length, how many symbols of each string are right: a digit a string, to the base 36."""
    found = {}
    for length in range(TESTED[0], TESTED[1] + 1):
        draw = torch.Generator().manual_seed(1000 + length)
        source, with_end, _, gold = strings(torch.full((each,), length), draw, flip)
        written = Greedy()(model, source, with_end)
        same = [
            sum(a == b for a, b in zip(hypothesis.tokens[:length], row[:length], strict=False))
            for (hypothesis,), row in zip(written, gold.tolist(), strict=True)
        ]
        found[str(length)] = "".join(DIGITS[count] for count in same)
    return found


def one(task: str, score: str, select: str, seed: int, updates: int = UPDATES) -> dict[str, Any]:
    """A finished run, as it is kept."""
    start = time.process_time()
    model = trained(score, select, TASKS[task], seed, updates)
    spent = time.process_time() - start
    return {
        "task": task, "score": score, "select": select, "seed": seed, "updates": updates,
        "cpu": round(spent, 2), "parameters": sum(p.numel() for p in model.parameters()),
        "right": right(model, TASKS[task]),
    }  # fmt: skip


def kept(path: Path) -> list[dict[str, Any]]:
    """The runs of a file; a last line that was cut short is left out."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines[-1]:
        print(f"{path}: the last line is cut short and is run again", file=sys.stderr)
    return [json.loads(line) for line in lines[:-1] if line]


def run(path: Path, only: str = "") -> None:
    """Train what is missing, seed by seed, so that a stopped file has whole tables."""
    runs = kept(path)
    if path.is_file():
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole[: whole.rfind("\n") + 1], encoding="utf-8")
    done = {(r["task"], r["score"], r["select"], r["seed"]) for r in runs}
    for seed in SEEDS:
        for task in TASKS:
            for score, select in cells(only):
                if (task, score, select, seed) in done:
                    continue
                made = one(task, score, select, seed)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(made, separators=(",", ":")) + "\n")
                total = sum(int(digit, 36) for text in made["right"].values() for digit in text)
                share = total / sum(int(n) * len(text) for n, text in made["right"].items())
                print(f"{seed} {task} {score} {select}: {share:.3f}, {made['cpu']} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=["run"])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="cosine-8, reinforce: runs beside the 42")
    given = parser.parse_args()
    torch.set_num_threads(1)
    run(given.output, given.only)
