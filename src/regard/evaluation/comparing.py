"""Systems side by side: the same data, means over seeds, intervals, and paired significance.

A system is a model folder, a folder of seeds (`regard train --seeds`), or a recipe that is trained
under some seeds (what is trained already is not trained again). Every system answers the same test
examples. For each score that is a function of sums over examples there are the interval of the
bootstrap and, against the first system, the paired bootstrap and approximate randomization
(`metrics.significance`); seeds are pooled there: an example counts the mean of what it counts under
each of them. With more than two systems p is also corrected for the number of comparisons (Holm).
"""

import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError, nearest
from regard.evaluation.scoring import scored

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded
    from regard.metrics import Score, Sums

__all__ = ["System", "check_count", "compare", "markdown", "variations"]


COVERS = (
    "Intervals and p cover the choice of test examples only, not the randomness of training: "
    "another seed may differ by more"
)
"""What the statistics of `compare` are about."""


@dataclass(frozen=True)
class System:
    """What is compared: its name and the folders of its seeds."""

    name: str
    folders: Sequence[Path]


@dataclass(frozen=True)
class _Answers:
    """The scores of one system: a list over its seeds for each score."""

    name: str
    scores: Mapping[str, Sequence["Score"]]
    references: Sequence[Sequence[str]]
    about: Mapping[str, Any]


def variations(vary: Sequence[str]) -> list[list[str]]:
    """Every combination of `key=a,b,c`: lists of `key=value`; one empty list for none.

    A comma within brackets, braces or quotes belongs to its value.

    Raises:
        RequestError: no equals sign, or fewer than two values.

    Example:
        >>> variations(["model.heads=1,4", "train.seed=7,8"])[1]
        ['model.heads=1', 'train.seed=8']
    """
    each = []
    for text in vary:
        key, equals, values = text.partition("=")
        several = [value.strip() for value in _split(values)]
        if not equals or len(several) < 2 or not all(several):
            raise RequestError(f"--vary: expected key=a,b,c with two values or more, got {text!r}")
        each.append([f"{key}={value}" for value in several])
    return [list(one) for one in itertools.product(*each)]


def _split(values: str) -> list[str]:
    """At the commas that are not within brackets, braces or quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in values:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def check_count(count: int) -> None:
    """Refuse a comparison of a single system, before anything is trained.

    Raises:
        RequestError: fewer than two.
    """
    if count < 2:
        raise RequestError("expected two systems or more to compare; --vary makes several of one")


def compare(
    systems: Sequence[System],
    *,
    data: str | None = None,
    columns: Mapping[str, str | int] | None = None,
    split: str = "test",
    metrics: Sequence[str] = (),
    samples: int = 1000,
) -> dict[str, Any]:
    """Score systems on one split and test each against the first.

    Args:
        data: a file to score on; each folder's own data where not given.
        columns: which column of it is what; as in each folder's training where not given.
        split: of the folders' own data.
        metrics: which scores; all where not given.
        samples: of the bootstrap and of the randomization.

    Raises:
        RequestError: fewer than two systems, no such score, or systems that did not get the same
            examples.
    """
    check_count(len(systems))
    answers = [_answered(system, data, columns, split) for system in systems]
    first = answers[0]
    for other in answers[1:]:
        _same(first, other)
    wanted = list(metrics) or [name for name in first.scores if name in answers[-1].scores]
    for name in wanted:
        if name not in first.scores:
            raise RequestError(f"there is no score {name!r}: {nearest(name, first.scores)}")
    rows = [_row(one, first, wanted, samples) for one in answers]
    if len(rows) > 2:
        _correct(rows)
    signature = {name: first.scores[name][0].signature for name in wanted}
    number = len(first.references)
    return {
        "systems": rows,
        "signature": signature,
        "examples": number,
        "samples": samples,
        "covers": COVERS,
    }


def _answered(
    system: System, data: str | None, columns: Mapping[str, str | int] | None, split: str
) -> _Answers:
    from regard import loading

    found: dict[str, list[Score]] = {}
    for folder in system.folders:
        loaded = loading.load(str(folder))
        seen = scored(loaded, data, columns, split)
        for name, score in seen.scores.items():
            found.setdefault(name, []).append(score)
    return _Answers(system.name, found, list(seen.examples.references), _about(loaded))


def _about(loaded: "Loaded") -> dict[str, Any]:
    """What it is and what it cost: parameters, and CPU seconds and steps of training if noted."""
    about: dict[str, Any] = {"parameters": sum(p.numel() for p in loaded.model.parameters())}
    noted = loaded.folder / "metrics.json"
    if noted.is_file():
        training = json.loads(noted.read_text(encoding="utf-8")).get("training") or {}
        about |= {key: training[key] for key in ("cpu", "steps") if key in training}
    return about


def _same(first: _Answers, other: _Answers) -> None:
    if list(other.references) != list(first.references):
        raise RequestError(
            f"{other.name} and {first.name} are not scored on the same examples "
            f"({len(other.references)} and {len(first.references)}): give one --data for all"
        )


def _row(one: _Answers, first: _Answers, wanted: Sequence[str], samples: int) -> dict[str, Any]:
    """A system's scores, their intervals, and what sets it apart from the first."""
    from regard.metrics import bootstrap, paired

    metrics: dict[str, Any] = {}
    for name in wanted:
        scores = one.scores.get(name, [])
        if not scores:
            raise RequestError(f"{one.name} has no score {name!r}: compare systems of one task")
        values = [float(score.value) for score in scores]
        told: dict[str, Any] = {"value": statistics.fmean(values), "each": values}
        if len(values) > 1:
            told["sd"] = statistics.stdev(values)
        pooled, base = _pooled(scores), _pooled(first.scores[name])
        if pooled is not None:
            low, high, *_ = bootstrap(pooled, samples=samples)
            told["interval"] = [low, high]
        if one is not first and pooled is not None and base is not None:
            found = paired(base, pooled, samples=samples)
            told |= {
                "difference": found.value,
                "difference_interval": [found.interval.low, found.interval.high],
                "p": found.p,
            }
        metrics[name] = told
    return {"system": one.name, **one.about, "metrics": metrics}


def _correct(rows: Sequence[Mapping[str, Any]]) -> None:
    """Add `p_holm` beside each p: of each score, over all systems that are tested."""
    from regard.metrics import holm

    for name in rows[0]["metrics"]:
        tested = [row["metrics"][name] for row in rows if "p" in row["metrics"][name]]
        for told, p in zip(tested, holm([told["p"] for told in tested]), strict=True):
            told["p_holm"] = p


def _pooled(scores: Sequence["Score"]) -> "Sums | None":
    """One score by example, the mean over all seeds: systems may have different numbers of them."""
    from regard.metrics import Sums

    each = [score.sums for score in scores if score.sums is not None]
    if len(each) < len(scores):
        return None
    total = sum((one.counts for one in each[1:]), each[0].counts)
    return Sums(total / len(each), each[0].of)


def markdown(result: Mapping[str, Any]) -> str:
    """The table of `compare`: score (sd over seeds), [95 % interval], difference, p and Holm's p.

    Example:
        >>> each = {"metrics": {"bleu": {"value": 30.0}}, "parameters": 12}
        >>> result = {"systems": [{"system": "a", **each}], "samples": 9, "examples": 5}
        >>> print(markdown(result).splitlines()[2])
        | a | 12 | 30.00 |
    """
    rows = result["systems"]
    names = list(rows[0]["metrics"])
    costs = [key for key in ("parameters", "steps", "cpu") if all(key in row for row in rows)]
    heads = {"parameters": "parameters", "steps": "steps", "cpu": "CPU s"}
    lines = [
        "| system | " + " | ".join([*(heads[c] for c in costs), *names]) + " |",
        "|---|" + "---:|" * (len(costs) + len(names)),
    ]
    for row in rows:
        cells = [f"{row[cost]:,.0f}" for cost in costs]
        cells += [_cell(row["metrics"][name]) for name in names]
        lines.append(f"| {row['system']} | " + " | ".join(cells) + " |")
    said = f"{result['examples']:,} examples; 95 % intervals of {result['samples']:,} samples"
    said += "; differences are to the first, p is two-sided"
    if any("p_holm" in told for row in rows for told in row["metrics"].values()):
        said += ", and corrected for the number of comparisons (Holm)"
    return "\n".join([*lines, "", f"{said}.", f"{COVERS}."])


def _cell(told: Mapping[str, Any]) -> str:
    text = f"{told['value']:.2f}"
    text += f" ± {told['sd']:.2f}" if "sd" in told else ""
    if "interval" in told:
        text += " [{:.2f}, {:.2f}]".format(*told["interval"])
    if "p" in told:
        corrected = f", Holm {told['p_holm']:.3f}" if "p_holm" in told else ""
        text += f", {told['difference']:+.2f} (p {told['p']:.3f}{corrected})"
    return text.replace("-", "−")
