"""Run an experiment, keep what it measured as JSON, and decide by what is kept or quoted."""

import datetime
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.claims.claim import SEEDS, Claim, Measured
from regard.claims.rules import OPEN, Decision, Values
from regard.errors import RequestError
from regard.system.files import replace_file
from regard.system.plain_json import plain_value, read_object

__all__ = ["check_data", "decided", "folder", "kept", "measure", "remark", "values_of", "write"]

DIGITS = 6
"""Significant digits of a kept number."""


def folder() -> Path:
    """Where results are kept: in the package when installed, `docs/claims` in a checkout."""
    here = Path(__file__).resolve().parent
    inside = here / "results"
    return inside if inside.is_dir() else here.parents[2] / "docs" / "claims"


def check_data(claim: Claim) -> None:
    """Refuse an experiment whose data is not on this machine.

    Raises:
        RequestError: names the set, and how to say where it is.
    """
    from regard.data.sources import places

    for need in claim.needs:
        if not any((place / need).exists() for place in places()):
            raise RequestError(
                f"claims {claim.id}: needs the data set {need}, which does not come with regard: "
                f"set REGARD_DATA to the folder that has it; --kept shows what was measured before"
            )


def measure(claim: Claim) -> tuple[Measured, dict[str, Any]]:
    """Run the experiment with one thread; also what is kept of it, as plain JSON.

    Raises:
        RequestError: the data is missing.
    """
    check_data(claim)
    import torch

    from regard.native import loading

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    start = time.process_time()
    try:
        measured = claim.run()
    finally:
        torch.set_num_threads(threads)
    about = {
        "id": claim.id,
        "command": claim.command,
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.process_time() - start, 1),
        "seeds": list(SEEDS),
        "machine": {"level": loading.level(), "cores": os.cpu_count(), "torch": torch.__version__},
        "values": {name: [_short(v) for v in each] for name, each in measured.values.items()},
    }
    return measured, plain_value(about)


def write(about: Mapping[str, Any], path: Path) -> None:
    """Write a result as JSON, whole or not at all."""
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def kept(claim: Claim) -> dict[str, Any] | None:
    """The result of this claim's experiment that comes with regard, or None."""
    file = folder() / f"{claim.id}.json"
    return read_object(file) if claim.experiment and file.is_file() else None


def values_of(claim: Claim, about: Mapping[str, Any] | None = None) -> Values | None:
    """What the rule decides on: quoted values, and those of the experiment.

    Args:
        about: the result of a run; by default the one that is kept.
    """
    about = kept(claim) if about is None else about
    if claim.experiment and about is None:
        return None
    quoted = {name: each for quote in claim.quotes for name, each in quote.values.items()}
    return {**quoted, **(about["values"] if about is not None else {})} or None


def decided(claim: Claim, values: Values | None) -> Decision:
    """The verdict of the claim's rule on these values; without values it is open."""
    if claim.rule is None or values is None:
        return Decision(OPEN, "")
    return claim.rule(values)


def remark(claim: Claim, values: Values | None) -> str:
    """What limits a result or why the claim failed; if it is open, what it would take."""
    if claim.experiment and values is None:
        return f"Open: its experiment takes about {claim.seconds:g} CPU-seconds and was not run."
    return claim.note


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
