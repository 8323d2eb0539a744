"""The page of attention weights: its size, the time to write it, the time to the first picture.

    python benchmarks/page.py [--browser chromium] [--quick] [--long] [--out page.jsonl]

Twelve layers of twelve heads, as the comparison of viewers has it. "flat" is the softmax of normal
scores, "peaked" of scores four times as large, "uniform" are evenly random weights, which no
compression helps. Times in the browser are of headless Chromium without a GPU, network blocked:
from the start of the navigation to the first drawn picture, and from choosing a head to its drawn
picture; on a busy machine the CPU time of the page's process tells more than the clock.

"overview" is twelve layers of twelve heads over 4,096 tokens, of which only queries and keys are
kept; "live" one head over 16,384, a tile of 256 x 256 exact weights, and how much memory it took.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard import viewer
from regard.attention import Causal, attend
from regard.viewer.page.html import page, script
from regard.viewer.page.live import tile

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
    made = regard.view(weights(kind, places), rows=[f"w{i}" for i in range(places)], kind="self")
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


def long(layers: int, heads: int, places: int, sharp: float, *, causal: bool) -> viewer.View:
    """Attention whose weights are computed again on demand."""
    torch.manual_seed(0)
    with regard.watch(tiles=True) as seen:
        for n in range(layers):
            key = torch.randn(1, heads, places, 64)
            query = sharp * torch.randn(1, heads, places, 64)
            attend(query, key, key, mask=Causal() if causal else None, name=f"layer {n + 1}")
    seen.label(rows=[f"w{i}" for i in range(places)])
    made: viewer.View = seen.view()
    return made


def overview(kind: str, path: Path) -> dict[str, object]:
    """Write the overview of 144 heads over 4,096 tokens."""
    made = long(LAYERS, HEADS, 4096, 4.0 if kind == "peaked" else 1.0, causal=False)
    process = time.process_time()
    made.page(path)
    return {
        "overview": kind, "places": 4096, "html_mb": round(path.stat().st_size / 1e6, 2),
        "write_cpu_s": round(time.process_time() - process, 1),
    }  # fmt: skip


def live() -> dict[str, object]:
    """One head over 16,384 tokens."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    made = long(1, 1, 16_384, 1.0, causal=True)
    process = time.process_time()
    size = len(page(made, live=True))
    spent, tiles = time.process_time() - process, []
    for n in range(20):
        asked = {"m": 0, "r": 256 * n + 8192, "c": 128 * n, "h": 256, "w": 256, "f": 1}
        start = time.process_time()
        tile(made, asked, 0)
        tiles.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "live": 16_384, "html_mb": round(size / 1e6, 2), "page_cpu_s": round(spent, 1),
        "tile_cpu_ms": round(1000 * statistics.median(tiles), 1),
        "peak_mb": round(peak), "more_than_before_mb": round(peak - before),
        "all_weights_mb": round(4 * 16_384**2 / 2**20),
    }  # fmt: skip


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
    parser.add_argument("--long", action="store_true", help="thousands of tokens too")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cases: list[tuple[str, int, int | None]] = [("peaked", 128, None), ("flat", 128, None)]
    if not given.quick:
        cases += [("peaked", 512, None), ("flat", 512, None), ("uniform", 512, None)]
        cases += [("peaked", 512, 16), ("flat", 512, 16)]
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []

    def keep(row: dict[str, object]) -> None:
        rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    keep({"script_bytes": len(script().encode())})
    if given.long:  # first, for its memory is measured
        keep(live())
    with tempfile.TemporaryDirectory() as folder:
        for kind, places, top_k in cases:
            path = Path(folder) / "page.html"
            row = written(kind, places, top_k, path)
            if given.browser:
                row |= opened(path, given.browser, given.repeats)
            keep(row)
        for kind in ("peaked", "flat") if given.long else ():
            row = overview(kind, path)
            if given.browser:
                row |= opened(path, given.browser, given.repeats)
            keep(row)
    if given.out:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        given.out.write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
