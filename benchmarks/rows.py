"""The table of `regard bench kernels`: one row for each figure, with what it has to reach."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import more_problems as more
import problems as p
from measure import BACKWARD, FORWARD, Problem

__all__ = ["ROWS", "Row", "Target"]

BOTH = (FORWARD, BACKWARD)


@dataclass(frozen=True)
class Target:
    """What a pass has to reach: times as fast, share of naive's memory, exponent, MiB, µs."""

    ratio: float | None = None
    memory: float | None = None
    exponent: float | None = None
    mib: float | None = None
    extra_us: float | None = None

    def as_json(self) -> dict[str, float]:
        """What is asked."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Row:
    """One figure.

    Args:
        make: builds the problem of some sizes.
        sizes: those of the row.
        tiny: sizes for the warm-up, and for `make test`.
        sliced: sizes that float64 is compared on, where the row's own are too large for it.
        quick: sizes for `--quick`, where the row's own take too long.
        targets: by pass; a pass that is not here is not measured.
        what: a sentence.
        baseline: what "naive" is.
        pairs: elements of work by pass and how many fused operations each takes: for the roof.
        flops: products beside them, by pass.
        scaling: lengths of the fitted exponent.
        kind: "pair", "memory" (ours alone), "threads" or "error".
        environment: set for the row's own process.
    """

    id: str
    what: str
    make: Callable[..., Problem]
    sizes: dict[str, Any] = field(default_factory=dict)
    tiny: dict[str, Any] = field(default_factory=dict)
    sliced: dict[str, Any] | None = None
    quick: dict[str, Any] | None = None
    targets: dict[str, Target] = field(default_factory=dict)
    baseline: str = "benchmarks/naive.py"
    work: Callable[..., float] | None = None
    operations: tuple[float, float] = (0.0, 0.0)
    flops: Callable[..., float] | None = None
    scaling: tuple[int, ...] = ()
    kind: str = "pair"
    environment: dict[str, str] = field(default_factory=dict)
    outside_table: bool = False


def _pairs(**s: Any) -> float:
    keys = s.get("keys", s.get("length"))
    queries = s.get("queries", s.get("length", 1))
    return float(s.get("batch", 1) * queries * keys * s.get("dim", 256))


def _square(**s: Any) -> float:
    """Operations of the two products of dot attention."""
    return 4.0 * s.get("batch", 1) * s.get("heads", 1) * s["length"] ** 2 * s["dim"]


def _weights(**s: Any) -> float:
    """Operations of weights times values."""
    return 2.0 * s["batch"] * s["queries"] * s["keys"] * 256


def _self(batch: int, length: int, dim: int = 256) -> dict[str, int]:
    return {"batch": batch, "queries": length, "keys": length, "dim": dim}


TINY = {"batch": 1, "queries": 3, "keys": 5, "dim": 16}
SLICE = {"batch": 1, "queries": 64, "keys": 1000, "dim": 256}
QUICK = {"batch": 1, "queries": 300, "keys": 300, "dim": 256}
WHOLE = {(1, 1000): (35, 0.01), (8, 200): (25, 0.02), (32, 50): (11, 0.04)}


def _additive() -> list[Row]:
    rows = [
        Row(
            "additive-scores-1000",
            "additive scores of projected queries and keys, T=1000, d=256",
            p.additive_scores,
            _self(1, 1000),
            TINY,
            SLICE,
            QUICK,
            targets={FORWARD: Target(120, 0.005), BACKWARD: Target(70, 0.005)},
            work=_pairs,
            operations=(4, 13),
        )
    ]
    for (batch, length), (ratio, share) in WHOLE.items():
        name = f"{length}" if batch == 1 else f"{batch}x{length}"
        rows.append(
            Row(
                f"additive-attention-{name}",
                f"whole additive attention (scores, softmax, values), {batch} x {length}, d=256",
                p.additive_attention,
                _self(batch, length),
                TINY,
                SLICE if length > 200 else None,
                None if length < 200 else QUICK,
                targets={FORWARD: Target(), BACKWARD: Target(ratio, share)},
                work=_pairs,
                operations=(4, 13),
                flops=_weights,
            )
        )
        rows.append(
            Row(
                f"additive-layer-{name}",
                f"the same through Attention(score=Additive), projections included, {name}",
                p.additive_layer,
                _self(batch, length),
                TINY,
                SLICE if length > 200 else None,
                None if length < 200 else QUICK,
                targets={FORWARD: Target(), BACKWARD: Target()},
                outside_table=True,
            )
        )
    for batch, ratio, through in ((1, 8, 2), (32, 20, 10)):
        rows += [
            Row(
                f"additive-step-{batch}",
                f"scores of one decoder step, prepared keys, Tk=50, B={batch}: the C call alone",
                more.additive_step,
                {"batch": batch, "keys": 50, "dim": 256},
                {"batch": 1, "keys": 5, "dim": 16},
                targets={FORWARD: Target(ratio)},
                work=_pairs,
                operations=(4, 13),
            ),
            Row(
                f"additive-layer-step-{batch}",
                f"the same through layer(query, memory), whole attention, no_grad, B={batch}",
                p.additive_layer_step,
                {"batch": batch, "keys": 50, "dim": 256},
                {"batch": 1, "keys": 5, "dim": 16},
                targets={FORWARD: Target(through)},
            ),
        ]
    rows += [
        Row(
            "additive-steps-50",
            "50 steps of one query each over one memory, as a decoder trains, B=32, Tk=50, d=256",
            p.additive_steps,
            {"batch": 32, "keys": 50, "dim": 256, "steps": 50},
            {"batch": 2, "keys": 5, "dim": 16, "steps": 3},
            targets={BACKWARD: Target(5, 0.1)},
        ),
        Row(
            "additive-plain-1000",
            "additive scores without a compiler or a shipped library, T=1000, d=256",
            p.additive_scores,
            _self(1, 1000),
            TINY,
            SLICE,
            QUICK,
            targets={FORWARD: Target(8, 0.01), BACKWARD: Target(4, 0.01)},
            environment={"REGARD_NATIVE": "0"},
        ),
        Row(
            "additive-plain-200",
            "additive scores without a compiler or a shipped library, 8 x 200, d=256",
            p.additive_scores,
            _self(8, 200),
            TINY,
            None,
            QUICK,
            targets={FORWARD: Target(8, 0.01), BACKWARD: Target(4, 0.01)},
            environment={"REGARD_NATIVE": "0"},
        ),
        Row(
            "additive-4000",
            "whole additive attention, T=4000, d=256: naive would need 15.6 GiB a temporary",
            p.additive_layer,
            _self(1, 4000),
            TINY,
            {"batch": 1, "queries": 32, "keys": 4000, "dim": 256},
            targets={BACKWARD: Target(mib=64)},
            kind="memory",
        ),
        Row(
            "additive-range-40",
            "additive scores of inputs all over -40 .. 40: the error alone",
            p.additive_range,
            {"batch": 1, "queries": 64, "keys": 256, "dim": 256},
            TINY,
            targets={FORWARD: Target(), BACKWARD: Target()},
            kind="error",
        ),
        Row(
            "location-aware-step-32",
            "one location-aware step (Chorowski), B=32, Tk=200, d=256",
            more.location_aware,
            {"batch": 32, "keys": 200, "dim": 256},
            {"batch": 2, "keys": 9, "dim": 16},
            targets={FORWARD: Target()},
            outside_table=True,
        ),
        Row(
            "threads-additive-1000",
            "additive scores, T=1000: one thread's CPU time over the busiest of two",
            p.additive_scores,
            _self(1, 1000),
            TINY,
            targets={FORWARD: Target(1.8), BACKWARD: Target(1.8)},
            baseline="the same kernel on one thread",
            kind="threads",
        ),
        Row(
            "cuda-additive-1000",
            "additive scores on the GPU, T=1000, d=256",
            more.cuda_additive,
            _self(1, 1000),
            TINY,
            SLICE,
            targets={FORWARD: Target(10, 0.01), BACKWARD: Target(6, 0.01)},
        ),
    ]
    return rows


def _features() -> list[Row]:
    rows = []
    for batch, length in ((4, 200), (1, 800)):
        name = f"{length}" if batch == 1 else f"{batch}x{length}"
        sizes = {"batch": batch, "length": length, "dim": 256}
        for directed, forward in ((False, 60), (True, 100)):
            # the table asks nothing of the directional backward pass
            asked = {FORWARD: Target(forward, 0.01), BACKWARD: Target(25, 0.01)}
            if directed:
                asked = {FORWARD: Target(forward, 0.01), BACKWARD: Target()}
            rows.append(
                Row(
                    f"features-{name}" + ("-directional" if directed else ""),
                    f"feature-wise softmax (DiSAN), {batch} x {length}, d=256"
                    + (", forward direction" if directed else ""),
                    more.features,
                    {**sizes, "directed": directed},
                    {"batch": 1, "length": 5, "dim": 16, "directed": directed},
                    {"batch": 1, "length": 200, "dim": 256, "directed": directed},
                    quick={"batch": 1, "length": 200, "dim": 256, "directed": directed},
                    targets=asked,
                    work=(lambda **s: _pairs(**s) / 2) if directed else _pairs,
                    operations=(15, 40),
                )
            )
    rows.append(
        Row(
            "threads-features-1000",
            "feature-wise softmax, T=1000: one thread's CPU time over the busiest of two",
            more.features,
            {"batch": 1, "length": 1000, "dim": 256},
            {"batch": 1, "length": 5, "dim": 16},
            targets={FORWARD: Target(1.8), BACKWARD: Target(1.8)},
            baseline="the same kernel on one thread",
            kind="threads",
        )
    )
    return rows


def _pytorch() -> list[Row]:
    small = {"batch": 1, "heads": 2, "length": 12, "dim": 8}
    long = {"batch": 1, "heads": 4, "length": 8192, "dim": 64}
    return [
        Row(
            "shaw-2048",
            "relative keys (Shaw), T=2048, 8 heads x 64, clip 16",
            p.shaw,
            {"batch": 1, "heads": 8, "length": 2048, "dim": 64},
            small,
            {"batch": 1, "heads": 8, "length": 512, "dim": 64},
            quick={"batch": 1, "heads": 8, "length": 512, "dim": 64},
            targets={FORWARD: Target(3.5, 0.05), BACKWARD: Target(2.5, 0.05)},
            flops=_square,
        ),
        Row(
            "shaw-values-1024",
            "relative keys and values (Shaw), T=1024, 8 heads x 64, clip 16",
            p.shaw,
            {"batch": 1, "heads": 8, "length": 1024, "dim": 64, "values": True},
            {**small, "values": True},
            {"batch": 1, "heads": 8, "length": 256, "dim": 64, "values": True},
            targets={FORWARD: Target(), BACKWARD: Target()},
            flops=_square,
            outside_table=True,
        ),
        Row(
            "alibi-2048",
            "ALiBi, T=2048, 8 heads x 64",
            p.alibi,
            {"batch": 1, "heads": 8, "length": 2048, "dim": 64},
            small,
            {"batch": 1, "heads": 8, "length": 512, "dim": 64},
            targets={FORWARD: Target(), BACKWARD: Target()},
            flops=_square,
            outside_table=True,
        ),
        Row(
            "euclidean-512",
            "inverse Euclidean (ABCNN), T=512, d=64",
            more.euclidean,
            {"batch": 1, "length": 512, "dim": 64},
            {"batch": 1, "length": 6, "dim": 8},
            targets={FORWARD: Target(), BACKWARD: Target()},
            outside_table=True,
        ),
        Row(
            "window-8192",
            "64 neighbours each side, T=8192, 4 heads x 64",
            p.window,
            {**long, "each": 64, "flex": True},
            {**small, "each": 2},
            {"batch": 1, "heads": 4, "length": 1024, "dim": 64, "each": 64},
            quick={"batch": 1, "heads": 4, "length": 2048, "dim": 64, "each": 64},
            targets={FORWARD: Target(20, 0.15, 1.1), BACKWARD: Target()},
            baseline="SDPA with a dense mask (naive.window)",
            scaling=(1024, 2048, 4096, 8192),
            flops=lambda **s: 4.0 * s["heads"] * s["length"] * 192 * s["dim"],
        ),
        Row(
            "local-p-8192",
            "local-p (Luong), 10 words each side, T=8192, d=256",
            more.local_p,
            {"batch": 1, "length": 8192, "dim": 256},
            {"batch": 1, "length": 40, "dim": 8},
            {"batch": 1, "length": 1024, "dim": 256},
            quick={"batch": 1, "length": 2048, "dim": 256},
            targets={FORWARD: Target(15, 0.1, 1.1), BACKWARD: Target()},
            scaling=(1024, 2048, 4096, 8192),
            flops=lambda **s: 4.0 * s["length"] * 21 * s["dim"],
        ),
        Row(
            "gat-1e6",
            "graph attention, 50,000 nodes, 1,000,000 edges, 8 heads x 8",
            more.gat,
            {"nodes": 50_000, "edges": 1_000_000},
            {"nodes": 20, "edges": 100},
            {"nodes": 5_000, "edges": 100_000},
            quick={"nodes": 5_000, "edges": 100_000},
            targets={FORWARD: Target(30, 0.05), BACKWARD: Target(12, 0.1)},
            baseline="PyG's plain road (naive.gat)",
        ),
        Row(
            "attend-overhead-512",
            "attend over bare SDPA, T=512, 8 heads x 64: at most 5 % more",
            p.overhead,
            {"batch": 1, "heads": 8, "length": 512, "dim": 64},
            small,
            targets={FORWARD: Target(1 / 1.05), BACKWARD: Target(1 / 1.05)},
            baseline="torch.nn.functional.scaled_dot_product_attention",
            flops=_square,
        ),
        Row(
            "attend-overhead-call",
            "attend over bare SDPA, 1 x 1 x 4 x 8: microseconds a call",
            p.overhead,
            {"batch": 1, "heads": 1, "length": 4, "dim": 8},
            small,
            targets={FORWARD: Target(extra_us=20)},
            baseline="torch.nn.functional.scaled_dot_product_attention",
        ),
        Row(
            "ragged-16",
            "a packed batch of 16 sentences of 20-400 words, 8 heads x 64, against padding",
            more.ragged,
            {"batch": 16, "longest": 400},
            {"batch": 2, "longest": 30},
            {"batch": 4, "longest": 100},
            targets={FORWARD: Target(), BACKWARD: Target()},
            baseline="padded, with a mask, by SDPA (naive.ragged)",
            outside_table=True,
        ),
    ]


ROWS: dict[str, Row] = {row.id: row for row in (*_additive(), *_features(), *_pytorch())}
