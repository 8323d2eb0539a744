"""Pictures and tables of what was measured, in the house's style.

    python benchmarks/plots.py table benchmarks/results/kernels-2026-11-22.jsonl
    python benchmarks/plots.py kernels benchmarks/results/kernels-2026-11-22.jsonl kernels.svg
    python benchmarks/plots.py complexity benchmarks/results/complexity-2026-11-21.jsonl out.svg

`regard bench kernels -o FILE.svg` and `regard bench complexity -o FILE.svg` measure and draw.
"""

import json
import sys
from pathlib import Path
from typing import Any

from regard.viewer.figure.sheet import style
from regard.viewer.palette import GRID, INK, MARK, STOPS

__all__ = ["check", "complexity", "kernels", "table"]

COLORS = (STOPS[4], MARK, "#5b8c3a", "#8a5fb0", "#7a7a7a")


def check() -> None:
    """Ask for matplotlib before measuring."""
    import matplotlib  # noqa: F401


def _figure(width: float, height: float, across: int) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, across)
    for one in [axes] if across == 1 else axes:
        one.tick_params(labelsize=7, colors=INK)
        one.spines[["top", "right"]].set_visible(False)
        one.set_axisbelow(True)
        one.grid(True, color=GRID, linewidth=0.5)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    figure.savefig(path, dpi=200, metadata=metadata)


def complexity(rows: list[dict[str, Any]], path: str | Path) -> None:
    """Time by length, time by size, and the longest path by length."""
    import matplotlib

    path = Path(path)
    with matplotlib.rc_context(style()):
        figure, axes = _figure(6.9, 3.1, 3)
        for row, color in zip(rows, COLORS, strict=False):
            parts = (row["time"]["n"], row["time"]["d"])
            for ax, part in zip(axes, parts, strict=False):
                label = f"{row['id']}: {part['exponent']:.2f}"
                ax.loglog(
                    part["sizes"], part["ms"], "o-", color=color, label=label, linewidth=1, ms=3
                )
            found = row["path"]
            label = f"{row['id']}: {found['law']}"
            axes[2].loglog(
                found["n"], found["counts"], "o-", color=color, label=label, linewidth=1, ms=3
            )
        names = ("length n", "size d", "length n")
        titles = ("CPU time (ms), exponent", "CPU time (ms), exponent", "longest path, grows like")
        for ax, name, title in zip(axes, names, titles, strict=True):
            ax.set_xlabel(name, fontsize=7, color=INK)
            ax.set_title(title, fontsize=7, color=INK, loc="left")
            ax.legend(fontsize=5.5, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.2))
            sizes = sorted({int(x) for line in ax.lines for x in line.get_xdata()})
            shown = sizes[::2] if len(sizes) > 5 else sizes
            ax.set_xticks(shown, [str(x) for x in shown])
            ax.minorticks_off()
        _save(figure, path)


def kernels(rows: list[dict[str, Any]], path: str | Path) -> None:
    """How many times faster each row is than the naive form, and what was asked."""
    import matplotlib

    path = Path(path)
    shown = [
        row
        for row in rows
        if row.get("ratio") and not row["id"].startswith(("threads", "attend", "cuda"))
    ]
    with matplotlib.rc_context(style()):
        figure, ax = _figure(6.9, 0.6 + 0.17 * len(shown), 1)
        for place, row in enumerate(reversed(shown)):
            forward = row["pass"] == "forward"
            ratio = row["ratio"]["median"]
            ax.barh(place, ratio, color=STOPS[4] if forward else STOPS[2], height=0.7)
            ax.text(ratio * 1.05, place, f"{ratio:.3g}x", fontsize=6, va="center", color=INK)
            asked = row["target"].get("ratio")
            if asked:
                ax.plot([asked, asked], [place - 0.4, place + 0.4], color=MARK, linewidth=1.2)
        names = [
            f"{row['id']}, {'f' if row['pass'] == 'forward' else 'f+b'}" for row in reversed(shown)
        ]
        ax.set_yticks(range(len(shown)), names, fontsize=6)
        ax.set_xscale("log")
        ax.set_xlim(left=0.7)
        title = "times as fast as the naive form (CPU time, one thread); the line is the target"
        ax.set_title(title, fontsize=7, color=INK, loc="left")
        ax.grid(False, axis="y")
        _save(figure, path)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows of `kernels` or of `complexity` as Markdown."""
    if rows and "time" in rows[0]:
        head = ["layer", "operations", "measured", "sequential", "measured", "path", "measured"]
        lines = [_complexity_cells(row) for row in rows]
    else:
        head = ["row", "pass", "times naive", "target", "times sigmoid", "memory", "error"]
        lines = [_kernel_cells(row) for row in rows]
    text = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in text)


def _complexity_cells(row: dict[str, Any]) -> list[str]:
    asked, time = row["table"], row["time"]
    seen = [f"n^{time['n']['exponent']:.2f} d^{time['d']['exponent']:.2f}"]
    for which in ("sequential", "path"):
        found = row[which]
        seen.append(f"{found['law']} ({found['counts'][-1]} at n={found['n'][-1]})")
    return [
        row["id"],
        asked["operations"],
        seen[0],
        asked["sequential"],
        seen[1],
        asked["path"],
        seen[2],
    ]


def _kernel_cells(row: dict[str, Any]) -> list[str]:
    if "pass" not in row:
        return [row["id"], "", row.get("skipped") or row.get("failed") or "", "", "", "", ""]
    ratio, asked = row.get("ratio"), row["target"]
    sigmoid = (row.get("ratios") or {}).get("sigmoid")
    share, mib = row.get("memory_ratio"), (row.get("memory_mib") or {}).get("ours")
    said = f"{ratio['median']:.3g} ({ratio['min']:.3g}-{ratio['max']:.3g})" if ratio else ""
    if "extra_us" in row:
        said = f"{row['extra_us']:g} us more"
    if "scaling" in row:
        said += f", T^{row['scaling']['exponent']:.2f}"
    wanted = [f"{v:.3g}" for v in (asked.get("ratio"),) if v]
    wanted += [f"{100 * v:g} %" for v in (asked.get("memory"),) if v]
    wanted += [f"T^{v:g}" for v in (asked.get("exponent"),) if v]
    wanted += [f"{v:g} MiB" for v in (asked.get("mib"),) if v]
    wanted += [f"{v:g} us" for v in (asked.get("extra_us"),) if v]
    memory = "" if mib is None else f"{mib:g} MiB" + (f", {100 * share:.2g} %" if share else "")
    errors = (row.get("error") or {}).get("ours")
    return [
        row["id"],
        "f" if row["pass"] == "forward" else "f+b",
        said,
        ", ".join(wanted),
        f"{sigmoid['median']:.3g}" if sigmoid else "",
        memory,
        f"{max(errors.values()):.0e}" if errors else "",
    ]


def main(words: list[str]) -> None:
    """What, from which JSON lines, and for a picture into which file."""
    what, source, *path = words
    lines = [json.loads(line) for line in Path(source).read_text().splitlines()]
    rows = [row for row in lines if "id" in row]
    if what == "table":
        print(table(rows))
    else:
        {"kernels": kernels, "complexity": complexity}[what](rows, *path)


if __name__ == "__main__":
    main(sys.argv[1:])
