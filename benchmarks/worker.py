"""One row, or the memory of one way, in a process of its own: `worker.py '{"id": …}'` -> JSON."""

import json
import sys
import time

import measure
import torch
from measure import BACKWARD, FORWARD
from problems import Missing
from rows import ROWS, Row


def sizes_of(row: Row, quick: bool) -> dict:
    """The row's own sizes, or those of `--quick`."""
    return dict(row.quick if quick and row.quick is not None else row.sizes)


def time_row(row: Row, quick: bool, threads: int, compiled: bool = False) -> list[dict]:
    """Everything about a row but memory: one result for each pass.

    Args:
        compiled: the naive form under `torch.compile` takes turns with the others.
    """
    sizes = sizes_of(row, quick)
    found = []
    roof = measure.roofs() if row.work or row.flops else {}
    for which in row.targets:
        torch.manual_seed(0)
        one: dict = {"pass": which, "shape": sizes, "threads": threads, "dtype": "float32"}
        note = ""
        if row.kind == "threads":
            problem = row.make(**sizes)
            one |= measure.threads(
                problem.ways["ours"], problem.leaves, which, rounds=3 if quick else 9
            )
            one["threads"] = 2
            note = problem.note
        elif row.kind == "pair":
            problem = row.make(**sizes)
            if compiled and "naive" in problem.ways:
                torch.compiler.reset()
                problem.ways["compiled"] = torch.compile(problem.ways["naive"], dynamic=False)
            one |= measure.time_ways(problem, which, 1.0 if quick else 4.0, most=5 if quick else 15)
            note = problem.note
            one["roof"] = share_of_roof(row, sizes, which, one["ms"]["ours"], roof, threads)
            if which == FORWARD and row.scaling:
                one["scaling"] = scaling(row, sizes, quick)
        if row.kind != "threads":
            small = sizes if row.sliced is None else row.sliced
            torch.manual_seed(0)
            one["error_shape"] = small
            problem = row.make(**small)
            one["error"] = measure.error(problem, which)
            note = note or problem.note
        if note:
            one["note"] = note
        one["load"] = measure.load()
        found.append(one)
    return found


def share_of_roof(
    row: Row, sizes: dict, which: str, ms: float, roof: dict, threads: int
) -> dict | None:
    """How much of what the core can do at most is used; products count at `torch.mm`'s pace."""
    if not roof:
        return None
    backward = which == BACKWARD
    pairs = row.work(**sizes) if row.work else 0.0
    flops = (row.flops(**sizes) if row.flops else 0.0) * (3 if backward else 1)
    bound = pairs * row.operations[backward] / (roof["operations_gps"] * 1e9)
    bound = 1e3 * (bound + flops / (roof["mm_gflops"] * 1e9)) / threads
    found = {"bound_ms": round(bound, 4), "share": round(bound / ms, 3), **roof}
    if pairs:
        found["pair_features_gps"] = round(pairs / ms / 1e6, 2)
        found["operations_a_pair_feature"] = row.operations[backward]
    if flops:
        found["gflop"] = round(flops / 1e9, 3)
    return found


def scaling(row: Row, sizes: dict, quick: bool) -> dict:
    """The exponent of our own time in the length."""
    lengths, times = list(row.scaling[:3] if quick else row.scaling), []
    plain = {name: value for name, value in sizes.items() if name != "flex"}
    for length in lengths:
        problem = row.make(**{**plain, "length": length})
        run = measure.call(problem.ways["ours"], problem.leaves, FORWARD)
        times.append(measure.seconds(run))
    return {
        "lengths": lengths,
        "ms": [float(f"{1e3 * t:.4g}") for t in times],
        "exponent": measure.exponent(lengths, times),
    }


def memory_of(row: Row, way: str, which: str) -> float | None:
    """MiB of one call of one way, after the same call on a tiny problem."""
    warm = row.make(**row.tiny)
    measure.call(warm.ways[way], warm.leaves, which)()
    del warm
    torch.manual_seed(0)
    sizes = dict(row.sizes)
    sizes.pop("flex", None)
    problem = row.make(**sizes)
    return measure.memory(problem.ways[way], problem.leaves, which)


def main() -> None:
    """Answer one request."""
    asked = json.loads(sys.argv[1])
    row = ROWS[asked["id"]]
    torch.set_num_threads(asked["threads"])
    start = time.perf_counter()
    try:
        if asked["do"] == "memory":
            answer = {"mib": memory_of(row, asked["way"], asked["pass"])}
        else:
            how = asked["quick"], asked["threads"], asked.get("compiled", False)
            answer = {"passes": time_row(row, *how)}
    except Missing as reason:
        answer = {"skipped": str(reason)}
    answer["seconds"] = round(time.perf_counter() - start, 1)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
