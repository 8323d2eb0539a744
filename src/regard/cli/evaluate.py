"""`regard evaluate`: the field's official scores, each with a signature of what was computed."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._common import Json, columns, emit, print_result, say
from regard.cli._folder import (
    Changes,
    Columns,
    Device,
    Folder,
    Others,
    Split,
    Threads,
    named_columns,
    open_folder,
    split_of,
)
from regard.cli._progress import counted
from regard.errors import RequestError
from regard.evaluation.scoring import branch_scores, branches_of, scored

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["evaluate", "measure"]


def evaluate(
    folder: Folder,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="CSV or TSV with a heading line, JSONL, or as in training; a folder.",
        ),
    ] = None,
    named: Columns = None,
    split: Split = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B",
            help="Only rows with these values; all: every row.  [default: as in training]",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Fail (1) outside the ranges the recipe expects.")
    ] = False,
    branches: Annotated[
        bool, typer.Option("--branches", help="Also score each branch of model.beside alone.")
    ] = False,
    changes: Changes = None,
    others: Others = None,
    threads: Threads = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Score a model with the field's official scorers.

    Without --data it is scored on the split of the data it was trained with. Rows are chosen as in
    training, or by --where, and the signature says so. With --json the result is one line:
    metrics, signature, examples, seconds; where a calibration error is among the scores,
    `reliability` too: the bins of its diagram.

    Examples:
        regard evaluate de-en-small --data test.tsv.gz --columns source=de,target=en
        regard evaluate runs/pronunciation/rnnsearch-cmudict --check
        regard evaluate de-en-small --data test.jsonl --json --set beam_size=1
        regard evaluate roles-small --data test.conll --where predicate_pos=VBD,VBZ
        regard evaluate runs/first --with runs/second     # an ensemble
    """
    loaded = open_folder(folder, changes, threads=threads, others=others, device=device)
    with counted(loaded, "examples") as watched:
        result = measure(
            watched,
            data,
            named_columns(named),
            split_of(split, data),
            chosen_rows(where),
            branches=branches,
        )
    ranges = _expected(loaded) if check else {}
    outside = _outside(result["metrics"], ranges)
    if check:
        result["check"] = {"expect": ranges, "outside": outside}
    if as_json:
        emit(result)
    else:
        rows = [(k, f"{v:.2f}", result["signature"][k]) for k, v in result["metrics"].items()]
        for branch, alone in result.get("branches", {}).items():
            rows += [(k, f"{v:.2f}", f"{branch} alone") for k, v in alone.items()]
        print_result(columns(rows))
        say(f"{result['examples']} examples in {result['seconds']:.1f} s")
    for name in [name for name in ranges if name not in outside]:
        low, high = ranges[name]
        say(f"{name} is {result['metrics'][name]:.2f}: within {low} to {high}")
    for name in outside:
        low, high = ranges[name]
        say(f"{name} is {result['metrics'][name]:.2f}; the recipe expects {low} to {high}")
    if outside:
        raise typer.Exit(1)


def measure(
    loaded: "Loaded",
    data: str | Path | None = None,
    columns: Mapping[str, str | int] | None = None,
    split: str = "test",
    where: Mapping[str, list[str]] | None = None,
    *,
    branches: bool = False,
) -> dict[str, Any]:
    """Predict and score a split: metrics, signature, examples, seconds; reliability with ECE.

    With `branches` also the scores of each branch of the model alone.
    """
    if branches:  # refused before anything is computed
        branches_of(loaded)
    found = scored(loaded, data, columns, split, where)
    if found.problems:
        said = ", ".join(f"{count} {what}" for what, count in found.problems.items())
        say(f"{sum(found.problems.values())} lines were left out: {said}")
    ece = found.scores.get("ece")
    return {
        "metrics": {name: float(score.value) for name, score in found.scores.items()},
        "signature": {name: score.signature for name, score in found.scores.items()},
        "examples": len(found.examples),
        "seconds": round(found.seconds, 3),
        **({"reliability": ece.parts["bins"]} if ece is not None else {}),
        **({"branches": branch_scores(loaded, found)} if branches else {}),
    }


def chosen_rows(texts: list[str] | None) -> dict[str, list[str]] | None:
    """`--where` as `data.where`: None where it is not given, empty for "all".

    Raises:
        RequestError: neither "all" nor COLUMN=VALUE,….
    """
    if texts is None:
        return None
    if texts == ["all"]:
        return {}
    found: dict[str, list[str]] = {}
    for text in texts:
        column, equals, values = text.partition("=")
        if not column or not equals or not values or column in found:
            raise RequestError(
                f"--where: expected COLUMN=VALUE,… once a column, or all; got {text!r}"
            )
        found[column] = values.split(",")
    return found


def _expected(loaded: "Loaded") -> dict[str, Any]:
    from regard import recipe

    ranges = recipe.load(loaded.folder / "recipe.yaml").expect
    if not ranges:
        raise RequestError(
            f"{loaded.folder / 'recipe.yaml'} has no `expect:`: --check has no range of scores"
        )
    return ranges


def _outside(metrics: Mapping[str, float], ranges: Mapping[str, Any]) -> list[str]:
    """The expected scores that are not within their range, or not there."""
    return [
        name for name, (low, high) in ranges.items() if not low <= metrics.get(name, -1.0) <= high
    ]
