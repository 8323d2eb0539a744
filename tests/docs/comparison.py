"""Writes docs/comparison.md and its picture from docs/comparison.json and comparison-words.json.

    python -m tests.docs.comparison

The prose is in `comparison_page.md`. A line `@name …` says what to choose; `FINDINGS` has the
condition that it follows from, and its numbers. Where they do not bear it out, nothing is written.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from regard.viewer.figure.charts import draw_charts
from regard.views.charts import Chart, Matrix

ROOT = Path(__file__).resolve().parents[2]
PAGE, DATA = ROOT / "docs" / "comparison.md", ROOT / "docs" / "comparison.json"
WORDS = ROOT / "docs" / "comparison-words.json"
PICTURE = ROOT / "docs" / "images" / "comparison.png"
PROSE = Path(__file__).with_name("comparison_page.md")
SHORTEST, TRAINED, LONGEST = 3, 12, 24
TASKS, RANGES = ("copying", "reversing"), ("trained", "longer")
SAID = {"trained": "3 to 12 symbols", "longer": "13 to 24"}
SCORES = ("dot", "general", "concat", "location", "scaled", "cosine", "euclidean")
SELECTS = ("softmax", "sparsemax", "entmax", "local-m", "local-p", "hard")
CONTENT = tuple(score for score in SCORES if score != "location")
FLAT = ("scaled", "cosine")
LEVEL = 0.05
VARIED = {
    "dot": "dot", "general": "general", "additive": "concat", "location": "location",
    "scaled": "scaled", "cosine": "cosine", "euclidean": "euclidean",
}  # fmt: skip
"""What a recipe calls each score."""


class Numbers:
    """What was measured, by name."""

    def __init__(self, data: dict[str, Any], words: dict[str, Any]) -> None:
        self.data, self.words = data, words

    def per(self, kind: str) -> dict[str, dict[str, Any]]:
        """Phoneme error rates by score or selection, with p against dot with softmax."""
        names = VARIED.values() if kind == "scores" else SELECTS
        rows = self.words[kind]["systems"]
        return {n: row["metrics"]["per"] for n, row in zip(names, rows, strict=True)}

    def cell(self, task: str, lengths: str, score: str, select: str) -> dict[str, Any]:
        """One score with one selection."""
        each = self.data["tasks"][task][lengths]["cells"]
        (found,) = (one for one in each if (one["score"], one["select"]) == (score, select))
        result: dict[str, Any] = found
        return result

    def right(self, task: str, lengths: str, score: str, select: str) -> float:
        """Its share of symbols that are right."""
        return float(self.cell(task, lengths, score, select)["right"])

    def mean(self, task: str, lengths: str, name: str) -> float:
        """The mean of a score over selections, or of a selection over scores."""
        return float(self.data["tasks"][task][lengths]["mean"][name])

    def beats(self, task: str, lengths: str, name: str, other: str) -> bool:
        """Whether a score is above another score, or a selection above another, by Holm's p."""
        told = self.data["tasks"][task][lengths]
        for pair in (*told["scores"], *told["selects"]):
            if {pair["first"], pair["second"]} == {name, other}:
                gap = pair["difference"] if pair["second"] == name else -pair["difference"]
                return bool(gap > 0 and pair["p_holm"] < LEVEL)
        raise KeyError((name, other))


def others(name: str, names: tuple[str, ...] = SELECTS) -> list[str]:
    """All but one."""
    return [one for one in names if one != name]


def local_m(n: Numbers) -> tuple[bool, list[float]]:
    """Above all others beyond training, where the order stays."""
    rest = others("local-m")
    return all(n.beats("copying", "longer", "local-m", one) for one in rest), [
        n.mean("copying", "longer", "local-m"),
        max(n.mean("copying", "longer", one) for one in rest),
    ]


def not_local_m(n: Numbers) -> tuple[bool, list[float]]:
    """Below all others where the order turns."""
    rest = others("local-m")
    return all(n.beats("reversing", "trained", one, "local-m") for one in rest), [
        n.mean("reversing", "trained", "local-m"),
        min(n.mean("reversing", "trained", one) for one in rest),
    ]


def sparsemax(n: Numbers) -> tuple[bool, list[float]]:
    """Below none at lengths of training and above softmax; 90 % with every score."""
    none = not any(
        n.beats(t, "trained", s, "sparsemax") for t in TASKS for s in others("sparsemax")
    )
    above = all(n.beats(task, "trained", "sparsemax", "softmax") for task in TASKS)
    least = [
        min(n.right(task, "trained", score, select) for task in TASKS for score in SCORES)
        for select in ("sparsemax", "softmax")
    ]
    return none and above and least[0] > 90 > least[1], [math.floor(least[0]), least[1]]


def flat(n: Numbers) -> tuple[bool, list[float]]:
    """Ten points or more between softmax and both sparse selections."""
    values = {
        (task, select): [n.right(task, "trained", score, select) for score in FLAT]
        for task in TASKS
        for select in ("softmax", "sparsemax", "entmax")
    }
    holds = all(
        soft + 10 < sparse
        for task in TASKS
        for select in ("sparsemax", "entmax")
        for soft, sparse in zip(values[task, "softmax"], values[task, select], strict=True)
    )
    return holds, [v for s in ("softmax", "sparsemax", "entmax") for v in values["copying", s]]


def euclidean(n: Numbers) -> tuple[bool, list[float]]:
    """No score of the keys above it; with sparsemax the best of them, at longer copies, too."""
    rest = others("euclidean", CONTENT)
    none = not any(n.beats(task, "trained", one, "euclidean") for task in TASKS for one in rest)
    cells = [("copying", "trained"), ("reversing", "trained"), ("copying", "longer")]
    own, best = list[float](), True
    for task, lengths in cells:
        each = {one: n.right(task, lengths, one, "sparsemax") for one in CONTENT}
        best = best and all(each["euclidean"] > each[one] for one in rest)
        own.append(each["euclidean"])
    return none and best, [*own, n.right("copying", "longer", "dot", "sparsemax")]


def location(n: Numbers) -> tuple[bool, list[float]]:
    """The best score within training, near chance beyond it."""
    means = {one: n.mean("copying", "trained", one) for one in SCORES}
    beyond = n.right("reversing", "longer", "location", "softmax")
    return means["location"] == max(means.values()) and beyond < 20, [means["location"], beyond]


def hard(n: Numbers) -> tuple[bool, list[float]]:
    """Below three others in both tasks."""
    rest = ("sparsemax", "entmax", "local-p")
    holds = all(n.beats(task, "trained", one, "hard") for task in TASKS for one in rest)
    return holds, [n.mean(task, "trained", "hard") for task in TASKS]


def local_p(n: Numbers) -> tuple[bool, list[float]]:
    """Below sparsemax at longer copies, though level with it within training."""
    names = ("local-p", "sparsemax")
    level = not n.beats("copying", "trained", "sparsemax", "local-p")
    return level and n.beats("copying", "longer", "sparsemax", "local-p"), [
        n.mean("copying", "longer", name) for name in names
    ]


def nothing(n: Numbers) -> tuple[bool, list[float]]:
    """No pair has most symbols right."""
    best = max(n.right("reversing", "longer", a, b) for a in SCORES for b in SELECTS)
    return best < 60, [best]


def pronounced(n: Numbers) -> tuple[bool, list[float]]:
    """Flat scores and hard attention far above dot with softmax, entmax below it, local-m level."""
    scores, selects = n.per("scores"), n.per("selects")
    far = [scores["scaled"], scores["cosine"], selects["hard"]]
    holds = all(one["value"] > scores["dot"]["value"] + 10 for one in far)
    best = min(selects, key=lambda name: selects[name]["value"])
    clear = best == "entmax" and selects["entmax"]["p_holm"] < LEVEL
    level = selects["local-m"]["p_holm"] >= LEVEL
    return holds and clear and level, [one["value"] for one in far]


FINDINGS: dict[str, Callable[[Numbers], tuple[bool, list[float]]]] = {
    "local-m": local_m, "not-local-m": not_local_m, "sparsemax": sparsemax, "flat": flat,
    "euclidean": euclidean, "location": location, "hard": hard, "local-p": local_p,
    "nothing": nothing, "pronounced": pronounced,
}  # fmt: skip


def said(n: Numbers, line: str) -> str:
    """A line of the prose that says what to choose, with its numbers."""
    name, _, sentence = line.removeprefix("@").partition(" ")
    holds, values = FINDINGS[name](n)
    if not holds:
        raise SystemExit(f"the numbers do not bear out {name}: {sentence}")
    return "- " + sentence.format(*(f"{value:.0f}" for value in values))


def charts(n: Numbers) -> list[Chart | Matrix]:
    """Of each task two heat maps and the selections by length."""
    found: list[Chart | Matrix] = []
    places = range(SHORTEST, LONGEST + 1)
    for task in TASKS:
        for lengths in RANGES:
            rows = [[n.right(task, lengths, score, s) for s in SELECTS] for score in SCORES]
            title = f"{task}, {SAID[lengths]}: % right"
            found.append(Matrix(title, SCORES, SELECTS, rows, numbers=".0f", top=100.0))
        each = n.data["tasks"][task]["by_length"]
        lines = {name: list(zip(places, each[name], strict=True)) for name in SELECTS}
        shaded = (SHORTEST, TRAINED)
        title = f"{task}, mean of all scores"
        found.append(Chart(title, "symbols", "% right", lines=lines, shaded=shaded))
    return found


def mark(told: dict[str, Any], text: str) -> str:
    """Bold above the base, italics below it, if by more than chance."""
    if "p_holm" not in told or told["p_holm"] >= LEVEL:
        return text
    return f"**{text}**" if told["difference"] > 0 else f"*{text}*"


def table(n: Numbers, task: str) -> str:
    """Both ranges of a task."""
    lines = [f"| {task} | " + " | ".join(SELECTS) + " |", "|---|" + "---:|" * len(SELECTS)]
    for score in SCORES:
        row = []
        for select in SELECTS:
            each = [n.cell(task, lengths, score, select) for lengths in RANGES]
            row.append(" / ".join(mark(e, f"{e['right']:.0f} ± {e['sd']:.0f}") for e in each))
        lines.append(f"| {score} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def below(n: Numbers, task: str, lengths: str, name: str, names: list[str]) -> list[str]:
    """What this score or selection is above by more than chance."""
    return [one for one in names if one != name and n.beats(task, lengths, name, one)]


def differences(n: Numbers) -> str:
    """Means of scores and selections, and which of them are above which by more than chance."""
    lines = ["| task, lengths | means | larger than chance |", "|---|---|---|"]
    for task in TASKS:
        for lengths in RANGES:
            for names in (SCORES, SELECTS):
                order = sorted(names, key=lambda name: -n.mean(task, lengths, name))
                means = ", ".join(f"{name} {n.mean(task, lengths, name):.0f}" for name in order)
                above = {one: below(n, task, lengths, one, order) for one in order}
                told = [f"{one} over {', '.join(rest)}" for one, rest in above.items() if rest]
                lines.append(f"| {task}, {SAID[lengths]} | {means} | {'; '.join(told) or 'none'} |")
    return "\n".join(lines)


def sharper(n: Numbers) -> str:
    """What the cosine times 8 has with softmax."""
    each = [b for b in n.data["beside"] if (b["score"], b["select"]) == ("cosine-8", "softmax")]
    if len(each) < len(TASKS):
        return ""
    own = {b["task"]: b["trained"] for b in each}
    plain = [n.right(task, "trained", "cosine", "softmax") for task in TASKS]
    return (
        "\nThe score can be made larger instead: `{name: cosine, scale: 8}` with softmax has "
        f"{own['copying']:.0f} % of the copies and {own['reversing']:.0f} % of the reversals right "
        f"at the lengths of training (scale 1: {plain[0]:.0f} and {plain[1]:.0f} %; "
        f"{min(b['seeds'] for b in each)} seeds, `comparison.py run --only cosine-8`).\n"
    )


def reinforced(n: Numbers) -> str:
    """What hard attention has that is trained by REINFORCE."""
    each = [b for b in n.data["beside"] if b["select"] == "reinforce"]
    names = [s for s in SCORES if sum(b["score"] == s for b in each) == len(TASKS)]
    if not names:
        return ""
    own = {(b["task"], b["score"]): b["trained"] for b in each}
    shares = ", ".join(
        f"{s} {own['copying', s]:.0f} / {own['reversing', s]:.0f} "
        f"({n.right('copying', 'trained', s, 'hard'):.0f} / "
        f"{n.right('reversing', 'trained', s, 'hard'):.0f})"
        for s in names
    )
    return (
        " Trained by REINFORCE (the reward is log p of the word, less its moving average; "
        f"{min(b['seeds'] for b in each)} seeds, `comparison.py run --only reinforce`), it has at "
        f"the lengths of training, copying / reversing and in brackets straight-through: "
        f"{shares} %."
    )


def words(n: Numbers) -> str:
    """Pronunciation: two tables of `regard compare`."""
    told = n.words
    each = [row["metrics"]["per"]["each"] for kind in told.values() for row in kind["systems"]]
    (seeds,) = {len(values) for values in each}
    command = "regard compare pronunciation/luong-cmudict --split dev --samples 5000 --seeds "
    command += "1" if seeds == 1 else f"1-{seeds}"
    selects = "softmax,sparsemax,entmax,{name: local-m, reach: 2, clamp: true}"
    selects += ",{name: local-p, reach: 2},straight-through"
    lines = [
        "`--vary` trains a recipe with each of several values and compares them, with Holm's p. "
        "Here letters become phonemes (the CMUdict of the package, "
        f"{told['scores']['examples']:,} words of its dev split, by which nothing is chosen), by a "
        "small model of Luong's after 400 updates, "
        + ("one seed" if seeds == 1 else f"{seeds} seeds")
        + ": every score with softmax, and dot with every selection.\n",
        "```sh",
        f"{command} --vary model.attention.score={','.join(VARIED)}",
        f"{command} model.attention.score=dot --vary 'model.attention.select={selects}'",
        "```",
    ]
    for kind, names in (("score", tuple(VARIED.values())), ("select", SELECTS)):
        lines += [f"\n| {kind} | PER | WER | PER less dot with softmax | Holm's p |"]
        lines += ["|---|---:|---:|---:|---:|"]
        for name, row in zip(names, told[f"{kind}s"]["systems"], strict=True):
            per, wer = row["metrics"]["per"], row["metrics"]["wer"]
            cells = [f"{per['value']:.2f}", f"{wer['value']:.2f}", "", ""]
            if "p" in per:
                cells[2:] = [f"{per['difference']:+.2f}", f"{per['p_holm']:.4f}"]
            lines.append(f"| {name} | " + " | ".join(cells).replace("-", "−") + " |")
    return "\n".join(lines)


def read() -> Numbers:
    """The numbers that are kept."""
    data, told = (json.loads(path.read_text(encoding="utf-8")) for path in (DATA, WORDS))
    return Numbers(data, told)


def text(n: Numbers) -> str:
    """The whole page."""
    median = n.data["median_cpu"].values()
    about = {
        "runs": n.data["runs"], "updates": n.data["updates"], "seeds": len(n.data["seeds"]),
        "cpu": f"{n.data['cpu']:,.0f}", "least": f"{min(median):.1f}", "most": f"{max(median):.1f}",
    }  # fmt: skip
    places = {task: table(n, task) for task in TASKS}
    places |= {"differences": differences(n), "sharper": sharper(n), "words": words(n)}
    places |= {"reinforce": reinforced(n)}
    lines = []
    for line in PROSE.read_text(encoding="utf-8").splitlines():
        written = said(n, line) if line.startswith("@") else line.format(**about)
        for name, value in places.items():
            written = written.replace(f"[{name}]", value)
        lines.append(written)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(read()), encoding="utf-8")
    draw_charts(charts(read()), PICTURE)
    small = Image.open(PICTURE).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    small.save(PICTURE, optimize=True)
