"""The page of attention weights: its size, the time to write it, the time to the first picture.

    python benchmarks/page.py [--browser chromium] [--quick] [--out benchmarks/results/page.json]

Twelve layers of twelve heads, as the comparison of viewers has it. "flat" is the softmax of normal
scores, "peaked" of scores four times as large, "uniform" are evenly random weights, which no
compression helps. Times in the browser are of headless Chromium without a GPU, network blocked:
from the start of the navigation to the first drawn picture, and from choosing a head to its drawn
picture; on a busy machine the CPU time of the page's process tells more than the clock.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from regard import viewer
from regard.viewer._html import script

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
LAYERS = HEADS = 12
SWITCH = """async () => {
  const spent = [];
  for (let h = 0; h < 12; h++) {
    const start = performance.now();
    await change({ head: h, at: 7 });
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    spent.push(performance.now() - start);
  }
  return spent;
}"""
DRAWN = "() => performance.getEntriesByName('drawn')[0].startTime"


def weights(kind: str, places: int) -> np.ndarray:
    """(layers, heads, places, places)."""
    draw = np.random.default_rng(0)
    shape = (LAYERS, HEADS, places, places)
    if kind == "uniform":
        found = draw.random(shape, dtype=np.float32)
    else:
        found = draw.standard_normal(shape, dtype=np.float32)
        np.exp(found * (4 if kind == "peaked" else 1), out=found)
    found /= found.sum(-1, keepdims=True)
    return found


def written(kind: str, places: int, top_k: int | None, path: Path) -> dict[str, object]:
    """Write one page; its size and the time it took."""
    made = viewer.view(weights(kind, places), rows=[f"w{i}" for i in range(places)], kind="self")
    wall, process = time.perf_counter(), time.process_time()
    made.page(path, top_k=top_k)
    return {
        "weights": kind, "places": places, "top_k": top_k,
        "html_mb": round(path.stat().st_size / 1e6, 2),
        "write_s": round(time.perf_counter() - wall, 2),
        "write_cpu_s": round(time.process_time() - process, 2),
    }  # fmt: skip


def opened(path: Path, browser: str, repeats: int) -> dict[str, object]:
    """Open it from the file, and switch heads."""
    from playwright.sync_api import sync_playwright

    first, switch, first_cpu, switch_cpu = [], [], [], []
    with sync_playwright() as play:
        for _ in range(repeats):
            chromium = play.chromium.launch(executable_path=browser, args=FLAGS)
            context = chromium.new_context(offline=True, viewport={"width": 1200, "height": 800})
            page = context.new_page()
            cpu = _Renderer(chromium)
            page.goto(path.as_uri(), wait_until="commit")
            page.wait_for_selector("html[data-drawn],html[data-failed]", timeout=60_000)
            first.append(page.evaluate(DRAWN))
            first_cpu.append(cpu.spent())
            switch += page.evaluate(SWITCH)
            switch_cpu.append(cpu.spent() / 12)
            chromium.close()
    return {
        "first_picture_s": [round(ms / 1000, 2) for ms in sorted(first)],
        "first_picture_cpu_s": round(statistics.median(first_cpu), 2),
        "switch_cpu_ms": round(1000 * statistics.median(switch_cpu), 1),
        "switch_ms_median": round(statistics.median(switch), 1),
        "switch_ms_most": round(max(switch), 1),
    }


class _Renderer:
    """CPU seconds of the processes that run pages, since the last question."""

    def __init__(self, chromium: Any) -> None:
        self._session = chromium.new_browser_cdp_session()
        self._before = self._now()

    def _now(self) -> float:
        found = self._session.send("SystemInfo.getProcessInfo")["processInfo"]
        return sum(p["cpuTime"] for p in found if p["type"] == "renderer")

    def spent(self) -> float:
        now = self._now()
        before, self._before = self._before, now
        return now - before


def main() -> None:
    """Print a JSON line for each case."""
    import shutil

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--quick", action="store_true", help="128 places only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cases: list[tuple[str, int, int | None]] = [("peaked", 128, None), ("flat", 128, None)]
    if not given.quick:
        cases += [("peaked", 512, None), ("flat", 512, None), ("uniform", 512, None)]
        cases += [("peaked", 512, 16), ("flat", 512, 16)]
    rows = [{"script_bytes": len(script().encode())}]
    sys.stdout.write(json.dumps(rows[0]) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        for kind, places, top_k in cases:
            path = Path(folder) / "page.html"
            row = written(kind, places, top_k, path)
            if given.browser:
                row |= opened(path, given.browser, given.repeats)
            rows.append(row)
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
