"""`regard bench kernels`: every figure of the streaming kernels, measured in pairs.

    python benchmarks/kernels.py                              # all rows, one thread
    python benchmarks/kernels.py additive-scores-1000 gat-1e6
    python benchmarks/kernels.py --quick
    python benchmarks/kernels.py --compiled                   # the naive form by torch.compile, too

Rows are run in processes of their own: a row that fails says so and the others go on.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import BACKWARD, FORWARD, machine
from rows import ROWS, Row

HERE = Path(__file__).parent
MOST = {FORWARD: 2e-6, BACKWARD: 1e-5}
"""The error that a float32 output or gradient may have, relative to the largest of its tensor."""


def measure_row(
    row: Row, *, quick: bool = False, threads: int = 1, compiled: bool = False
) -> Iterator[dict[str, Any]]:
    """A result for each pass of a row; one that says why, where it cannot be measured.

    Args:
        compiled: also time the naive form under `torch.compile`; memory is not measured then.
    """
    head = {"id": row.id, "what": row.what, "baseline": row.baseline}
    answer = _ask(row, threads, do="time", quick=quick, compiled=compiled)
    if "passes" not in answer:
        yield head | answer
        return
    for one in answer["passes"]:
        which = one["pass"]
        if row.kind in ("pair", "memory") and not quick and not compiled:
            ways = ("ours",) if row.kind == "memory" else ("ours", "naive")
            mib = {w: _ask(row, threads, do="memory", way=w, **{"pass": which}) for w in ways}
            one["memory_mib"] = {w: a.get("mib") for w, a in mib.items()}
            ours, theirs = (one["memory_mib"].get(w) for w in ("ours", "naive"))
            one["memory_ratio"] = round(ours / theirs, 5) if ours is not None and theirs else None
        one["target"] = row.targets[which].as_json()
        if quick and row.quick is not None:
            one["note"] = "smaller sizes than those of the target: nothing is said to be reached"
            one["reached"] = {}
        else:
            one["reached"] = _reached(row, one)
        one["accurate"] = _accurate(one)
        yield head | one


def _ask(row: Row, threads: int, **more: Any) -> dict[str, Any]:
    """What the worker says in a new process."""
    request = {"id": row.id, "threads": threads, **more}
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **row.environment}
    # the default of one thread must not bind the rows that use two
    if row.kind == "threads":
        environment["OMP_NUM_THREADS"] = "2"
    done = subprocess.run(
        [sys.executable, str(HERE / "worker.py"), json.dumps(request)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"failed": last}
    return answer


def _reached(row: Row, one: dict[str, Any]) -> dict[str, bool]:
    """Each asked figure: was it reached? Figures that were not measured are left out."""
    target, found = row.targets[one["pass"]], {}
    if target.ratio is not None and one.get("ratio"):
        found["ratio"] = one["ratio"]["median"] >= target.ratio
    if target.memory is not None and one.get("memory_ratio") is not None:
        found["memory"] = one["memory_ratio"] <= target.memory
    if target.mib is not None and (one.get("memory_mib") or {}).get("ours") is not None:
        found["mib"] = one["memory_mib"]["ours"] <= target.mib
    if target.exponent is not None and "scaling" in one:
        found["exponent"] = one["scaling"]["exponent"] <= target.exponent
    if target.extra_us is not None and one.get("ms"):
        one["extra_us"] = round(1e3 * (one["ms"]["ours"] - one["ms"]["naive"]), 1)
        found["extra_us"] = one["extra_us"] <= target.extra_us
    return found


def _accurate(one: dict[str, Any]) -> bool | None:
    """Are output and gradients as near to float64 as they must be, or as naive float32 comes?

    Where a problem amplifies any rounding (positions of local-p among thousands of words), naive
    float32 misses the bound too, and ours may miss it by twice as much.
    """
    errors = (one.get("error") or {}).get("ours")
    if errors is None:
        return None
    naive = one["error"].get("naive", {})
    return all(
        e <= max(MOST[FORWARD] if name == "output" else MOST[BACKWARD], 2 * naive.get(name, 0.0))
        for name, e in errors.items()
    )


def chosen(quick: bool) -> list[str]:
    """The rows where none is named: all, or with `quick` those that have something to reach."""
    return [name for name, row in ROWS.items() if not (quick and row.outside_table)]


def run(
    ids: list[str] | None = None, *, quick: bool = False, threads: int = 1, compiled: bool = False
) -> Iterator[dict[str, Any]]:
    """The results, as they come."""
    for name in ids or chosen(quick):
        yield from measure_row(ROWS[name], quick=quick, threads=threads, compiled=compiled)


def summary(results: list[dict[str, Any]], threads: int, quick: bool) -> dict[str, Any]:
    """The last line: everything, and what was reached."""
    missed = [
        f"{r['id']} {r['pass']}: {name}"
        for r in results
        for name, good in r.get("reached", {}).items()
        if not good
    ]
    return {
        "bench": "kernels",
        "quick": quick,
        **machine(threads),
        "reached": sum(sum(r.get("reached", {}).values()) for r in results),
        "of": sum(len(r.get("reached", {})) for r in results),
        "missed": missed,
        "inaccurate": [f"{r['id']} {r['pass']}" for r in results if r.get("accurate") is False],
        "skipped": {r["id"]: r["skipped"] for r in results if "skipped" in r},
        "failed": {r["id"]: r["failed"] for r in results if "failed" in r},
        "rows": results,
    }


HEAD = ("ID", "PASS", "OURS", "NAIVE", "RATIO", "TARGET", "SIGMOID", "MEMORY", "ERROR", "ROOF", "")


def cells(result: dict[str, Any]) -> tuple[str, ...]:
    """One result as a line of the table."""
    if "pass" not in result:
        reason = result.get("skipped") or result.get("failed") or ""
        how = "skipped" if "skipped" in result else "FAILED"
        return (result["id"], "-", *[""] * 8, f"{how}: {reason}")
    asked, ratio = result["target"], result.get("ratio")
    ms = result.get("ms", {})
    memory = result.get("memory_mib") or {}
    share = result.get("memory_ratio")
    error = max((result.get("error") or {}).get("ours", {"": 0.0}).values())
    sigmoid = (result.get("ratios") or {}).get("sigmoid", {}).get("median")
    wanted = [f"{asked['ratio']:.3g}x"] if "ratio" in asked else []
    wanted += [f"{100 * asked['memory']:g}%"] if "memory" in asked else []
    wanted += [f"{asked['mib']:g} MiB"] if "mib" in asked else []
    wanted += [f"T^{asked['exponent']:g}"] if "exponent" in asked else []
    wanted += [f"{asked['extra_us']:g} us"] if "extra_us" in asked else []
    verdict = [
        f"{'reached' if good else 'MISSED'} {name}" for name, good in result["reached"].items()
    ]
    if result.get("accurate") is False:
        verdict.append("INACCURATE")
    if "scaling" in result:
        verdict.append(f"T^{result['scaling']['exponent']:.2f}")
    if "extra_us" in result:
        verdict.append(f"{result['extra_us']:g} us")
    first, second = ("1 threads", "2 threads") if "2 threads" in ms else ("naive", "ours")
    return (
        result["id"],
        "f" if result["pass"] == FORWARD else "f+b",
        f"{ms[second]:.3g} ms" if second in ms else "",
        f"{ms[first]:.3g} ms" if first in ms else "",
        f"{ratio['median']:.3g}x" if ratio else "",
        ", ".join(wanted),
        f"{sigmoid:.3g}x" if sigmoid else "",
        (f"{memory['ours']:g} MiB" if memory.get("ours") is not None else "")
        + (f" {100 * share:.2f}%" if share is not None else ""),
        f"{error:.0e}" if result.get("error") else "",
        f"{100 * result['roof']['share']:.0f}%" if result.get("roof") else "",
        ", ".join(verdict),
    )


def main() -> None:
    """The program without the command line of regard."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", choices=[*ROWS, []], metavar="ID")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="torch.compile of the naive form")
    given = parser.parse_args()
    found = []
    how = {"quick": given.quick, "threads": given.threads, "compiled": given.compiled}
    for result in run(given.ids, **how):
        print(json.dumps(result), flush=True)
        found.append(result)
    print(json.dumps(summary(found, given.threads, given.quick)))


if __name__ == "__main__":
    main()
